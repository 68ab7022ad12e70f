import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.notify.sanitize import harmless, one_line
from tests.cost import ratio
from tests.notify.message_samples import HOSTILE

_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINK = re.compile(r"https?://|www\.\w|(javascript|data|mailto|tel):\S", re.IGNORECASE)

_WORDS = ["//", "http", "https", "hxxp", "mailto", "www.", "com", "evil", "js", "é", "👩"]
_SIGNS = "./:@[]-1a \n\t\u0301\u0344\u200b\u200d\u20e3\u212a\ufe0f\ud83d"
_PARTS = st.sampled_from([*_WORDS, *_SIGNS])


@pytest.mark.parametrize(
    "said",
    [
        "git push --force origin main",
        "Grüße aus Köln, naïve café",
        "你好世界",
        "नमस्ते क\u094d\u200dष",
        "done 👍🏽 👩‍💻 👩‍❤️‍👨 ❤️ 1️⃣ 🇩🇪",
        "logger.info('x'); main.py README.md v1.2.3 pkg@1.2.3 archive.zip",
        "C:\\temp std::vector a: b 10:30 data: 5 rows // a comment",
        "def f():\n    return 1\n\n\nprint(f())",
    ],
)
def test_ordinary_text_stays_as_it_is(said: str) -> None:
    assert harmless(said) == (said, 0)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("bell\x07 and \x1b[2Jclear \x9b31m", "bell and [2Jclear 31m"),
        ("abc\u202etxt.exe\u2069", "abctxt.exe"),
        ("zero\u200bwidth\u2060\ufeff", "zero[1 unseen]width[2 unseen]"),
        ("tags\U000e0061\U000e0062", "tags[2 unseen]"),
        ("half \ud83d a pair", "half [1 unseen] a pair"),
        ("a\u200db", "a[1 unseen]b"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("a\tb\u00a0c\u3000d", "a   b c d"),
        ("e\u0301", "é"),
        ("top\n\n \n\n\n\n\nbottom", "top\n\n\nbottom"),
    ],
)
def test_what_cannot_be_seen_goes_or_shows(said: str, shown: str) -> None:
    assert harmless(said).text == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("https://evil.example/x?y=1", "hxxps://evil[.]example/x?y=1"),
        ("HTTP://EVIL.example", "hxxp://EVIL[.]example"),
        ("see www.evil.example/a.b", "see www[.]evil[.]example/a.b"),
        ("ftp://evil.example", "ftp[:]//evil[.]example"),
        ("ht\u200btps://evil.example", "ht[1 unseen]tps[:]//evil[.]example"),
        ("h\x07ttps://evil.example", "hxxps://evil[.]example"),
        ("javascript:alert(1)", "javascript[:]alert(1)"),
        ("DATA:text/html,x", "DATA[:]text/html,x"),
        ("mailto:eve@example.com", "mailto[:]eve@example[.]com"),
        ("git@github.com:a/b", "git@github[.]com:a/b"),
        ("evil.com or evil.co.uk/login", "evil[.]com or evil[.]co[.]uk/login"),
    ],
)
def test_no_program_makes_a_link_of_an_address(said: str, shown: str) -> None:
    assert harmless(said).text == shown


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    shown, cut = harmless("x" * 1740, 500)

    assert (shown, cut) == ("x" * 500, 1240)


def test_a_text_that_grows_when_cleaned_still_keeps_the_limit() -> None:
    shown, cut = harmless("a\u200b" * 400, 500)

    assert 400 < len(shown) <= 500
    assert cut == 800 - 2 * shown.count("a") + (not shown.endswith("]"))


def test_what_vanishes_does_not_push_the_rest_out_of_sight() -> None:
    shown, cut = harmless("\u202e" * 1500 + "rm -rf /", 500)

    assert (shown, cut) == ("rm -rf /", 0)


def test_rows_of_marks_are_cut_short() -> None:
    shown = harmless("z" + "\u0301" * 3_000).text

    assert len(unicodedata.normalize("NFD", shown)) <= 6


def test_one_line_is_one_line_and_says_that_it_goes_on() -> None:
    assert one_line("a\r\nBcc: b\n\tc", 80) == "a Bcc: b c"
    assert one_line("word " * 40, 20) == "word word word word…"
    assert one_line("x" * 20, 20) == "x" * 20


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_becomes_short_and_harmless(said: str) -> None:
    shown, cut = harmless(said)

    assert len(shown) <= 500
    assert 0 <= cut <= len(said)
    assert not _CONTROL.search(shown)
    assert not _LINK.search(shown)
    assert shown.encode().decode() == shown


@given(st.text(st.characters(codec=None), max_size=60) | st.lists(_PARTS).map("".join))
def test_cleaning_again_changes_nothing(said: str) -> None:
    once = harmless(said, 2_000).text

    assert harmless(once, len(once)).text == once
    assert not _CONTROL.search(once)
    assert once.encode().decode() == once


@pytest.mark.parametrize(
    "said",
    ["x", "https://evil.example/ ", "\u202e", "z\u0301\u0301\u0301", "a.", "@a.", "é\u200d", "\n "],
)
def test_a_megabyte_costs_hardly_more_than_a_page(said: str) -> None:
    page, megabyte = (said * (size // len(said)) for size in (10_000, 1_000_000))

    assert ratio(lambda: harmless(megabyte), lambda: harmless(page)) < 5
