# ruff: noqa: RUF001 - letters that look like others are the subject
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.text.folding import _tables, deception, fold, forms, masked

ALL = [chr(code) for code in range(sys.maxunicode + 1)]
UNSEEN = {"Cf", "Mn", "Me", "Zs", "Zl", "Zp", "Cs"}


@pytest.mark.parametrize(
    "written",
    [
        "ｄｅｌｅｔｅ",  # full width
        "𝐝𝐞𝐥𝐞𝐭𝐞",
        "ⓓⓔⓛⓔⓣⓔ",
        "ᵈᵉˡᵉᵗᵉ",
        "de\u200blete",  # zero width space
        "de\u00adlete",  # soft hyphen
        "d\ufe0felete",  # variation selector
        "d\u0336e\u0336lete",  # struck out
        "d\u034felete",
        "de\u3164lete",  # Hangul filler
        "de\U000e0041lete",  # tag
        "de\u2060l\u200dete",
        "de\udc80lete",  # half a character
        "de\u0090lete",
        "DELETE\u200b",
    ],
)
def test_what_reads_as_delete_folds_to_delete(written: str) -> None:
    assert fold(written) == "delete"


@pytest.mark.parametrize("space", "\u00a0\u1680\u2003\u2028\u202f\u3000\u0085\u2800")
def test_whatever_looks_like_a_space_is_one(space: str) -> None:
    assert fold(f"drop{space}table") == "drop table"


def test_dotted_capital_i_reads_as_i() -> None:
    assert fold("SUBM\u0130T") == "submit"


def test_an_accent_belongs_to_its_letter_however_it_is_written() -> None:
    assert fold("LO\u0308SCHEN") == fold("lo\u200b\u0308schen") == fold("löschen") == "löschen"


def test_an_accent_is_found_under_a_heap_of_marks() -> None:
    assert fold("lo\u0308" + "\u0336\u0315" * 50 + "schen") == "löschen"


def test_ascii_is_left_as_it_is() -> None:
    assert fold("DELETE it") == "DELETE it"


def test_characters_that_unfold_into_a_sentence_stay_one() -> None:
    assert fold("\ufdfa") == "\ufdfa"


def test_every_character_of_unicode_that_folds_is_in_the_table() -> None:
    tables = _tables()
    # A line each: a newline keeps its neighbours from composing.
    folded = unicodedata.normalize("NFKC", "\n".join(ALL[0x0B:])).casefold().split("\n")

    forgotten = [
        char
        for char, other in zip(ALL[0x0B:], folded, strict=True)
        if (char != other and len(other) <= 4) or unicodedata.category(char) in UNSEEN
        if char != " " and ord(char) not in tables.reads_as and char not in tables.marks
    ]

    assert forgotten == []


@given(st.text())
def test_folding_removes_everything_invisible(text: str) -> None:
    folded = fold(text)

    assert not _tables().marks & set(folded)
    assert not any(unicodedata.category(char) == "Cf" for char in folded)


def test_forms_are_the_non_empty_fields_and_their_folded_forms() -> None:
    assert forms(("Send", "", "ok")) == ("Send", "ok")
    assert forms(("ｓend", "", "ok")) == ("ｓend", "ok", "send")
    assert forms(("", "")) == ()


@pytest.mark.parametrize("control", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
def test_a_change_of_direction_is_suspicious(control: str) -> None:
    assert f"U+{ord(control):04X}" in deception(f"rm {control}txt")


@pytest.mark.parametrize(
    "text",
    [
        "hello\U000e0072\U000e006d",
        "\U0001f3f4\U000e0067",  # a flag without an end
        "\U0001f3f4" + "\U000e0061" * 40 + "\U000e007f",  # a flag of no country
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f\U000e0072",
    ],
)
def test_a_hidden_tag_is_suspicious(text: str) -> None:
    assert "invisible" in deception(text)


@pytest.mark.parametrize(
    "word",
    [
        "dеlete",  # Cyrillic
        "dёlete",
        "pαy",  # Greek
        "pάy",
        "Ꭰelete",  # Cherokee
        "ѕеnd now",
        "seոd",  # Armenian
        "r\u200bе\u200bset",
        "d\u0336е\u0336lete",
        "𝐝е",
    ],
)
def test_a_word_of_latin_letters_and_lookalikes_is_suspicious(word: str) -> None:
    assert "Latin" in deception(f"please {word} it")


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "5 μs",
        "5μs",
        "Δt",
        "ΣX",
        "日本語とLatin",
        "한국어text",
        "中文abc",
        "привет, world",
        "delete это",
        "git-ветка",
        "Ελληνικά and English",
        "naïve café",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family, joined
        "left\u200eto\u200fright",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland
        "",
    ],
)
def test_ordinary_writing_is_not_suspicious(text: str) -> None:
    assert deception(text) == ""


def test_a_mask_reveals_only_the_length() -> None:
    assert masked("hunter2-swim") == "[masked, 12 characters]"


@given(st.text())
def test_masking_twice_is_masking_once(text: str) -> None:
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize("char", ["\x01", "\x08", "\x1b", "\x7f"])
def test_control_characters_hide_nothing(char: str) -> None:
    assert fold(f"de{char}lete") == "delete"
    assert forms((f"de{char}lete",)) == (f"de{char}lete", "delete")


def test_lines_and_tabs_stay() -> None:
    assert fold("a\n\tb\r") == "a\n\tb\r"
