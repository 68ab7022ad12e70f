"""Hidden characters become visible."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.text.visible_text import cut_to, marked, pieces, printable_line, visible

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x00\x07\x7f\x9b31m", "\\x00\\x07\\x7f\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("\U000e0041", "\\U000e0041"),
        ("\u3164\u2800\ufe0f", "\\u3164\\u2800\\ufe0f"),
        ("\u2028\u00a0", "\\u2028\\xa0"),
        ("\ud800", "\\ud800"),
    ],
)
def test_hidden_characters_are_escaped_on_one_line(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


@pytest.mark.parametrize("text", ["", "rm -rf /", r"matches \bsubmit\b", "Grüße, 東京", "naïve ✓"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == marked(text, "?") == printable_line(text) == text


def test_each_hidden_character_is_replaced_by_a_mark() -> None:
    assert marked("\x1b[2J\u202e\u3164ü", "?") == "?[2J??ü"


def test_a_printable_line_has_one_space_between_words() -> None:
    assert printable_line(" a\r\n\tb\u00a0\u3164 \x07c ") == "a b c"


@given(st.text(st.characters(codec=None)))
def test_no_hidden_character_remains(text: str) -> None:
    for shown in (visible(text), marked(text, "?"), printable_line(text)):
        assert all(unicodedata.category(char) not in _HIDDEN for char in shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nof two lines", [("plain\ttext\nof two lines", False)]),
        ("a\u202eb", [("a", False), ("\\u202e", True), ("b", False)]),
        ("\x1b\r", [("\\x1b\\r", True)]),
        ("\u00a0", [("\\xa0", True)]),
        ("\U000e0041", [("\\U000e0041", True)]),
        ("\ud800", [("\\ud800", True)]),
        ("\\u202e", [("\\u202e", False)]),
        ("größer 日本", [("größer 日本", False)]),
        ("", []),
    ],
)
def test_escapes_are_marked(text: str, shown: list[tuple[str, bool]]) -> None:
    assert list(pieces(text)) == shown


def test_kept_characters_are_not_escaped() -> None:
    assert list(pieces("a\nb\t", kept="\n")) == [("a\nb", False), ("\\t", True)]


@given(st.text(max_size=80), st.integers(2, 60))
def test_a_line_is_cut_in_its_middle(text: str, most: int) -> None:
    shown = cut_to(text, most)

    assert len(shown) <= most
    assert shown == text if len(text) <= most else "…" in shown


def test_both_ends_of_a_cut_line_stay() -> None:
    assert cut_to("rsync -a /srv/data backup:/vol && date", 20) == "rsync -a /srv…& date"
