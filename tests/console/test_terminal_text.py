import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.console.terminal_text import document, plain, several


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("\U000e0041", "\\U000e0041"),
        ("\u3164\u2800\ufe0f", "\\u3164\\u2800\\ufe0f"),
        ("\u2028\u00a0", "\\u2028\\xa0"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_cannot_be_seen_is_written_out(hostile, shown):
    assert plain(hostile) == shown


@pytest.mark.parametrize("text", ["rm -rf /", r"matches \bsubmit\b", "Grüße, 東京", "naïve ✓"])
def test_ordinary_text_stays_as_it_is(text):
    assert plain(text) == text


def test_long_text_is_cut_and_its_length_told():
    assert plain("x" * 9000, 10) == "xxxxxxxxxx… (9000 characters)"


@given(st.text(st.characters()))
def test_nothing_that_moves_the_cursor_or_hides_ever_remains(text):
    shown = plain(text)

    assert all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in shown)
    assert len(shown) < 550


@given(st.text())
def test_documents_are_printable_ascii_and_mean_the_same(text):
    said = document({"text": text})

    assert said.isascii()
    assert said.isprintable()
    assert json.loads(said) == {"text": text}


def test_one_of_a_thing_has_no_s():
    assert [several(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_what_grows_beyond_the_limit_by_escaping_is_marked_as_cut():
    assert plain("\x1b" * 5, 10) == "\\x1b\\x1b\\x… (5 characters)"
