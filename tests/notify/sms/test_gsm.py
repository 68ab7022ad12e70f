# ruff: noqa: RUF001 - letters that look like others are what it is about

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.notify.sms.gsm import BASIC, EXTENDED, clip, normalise, segments, septets

LINE = "0123456789" * 16


def test_the_alphabet_is_that_of_gsm() -> None:
    assert len(BASIC) == 127  # and the escape that leads to the others
    assert len(EXTENDED) == 10
    assert not BASIC & EXTENDED


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("café über Ñandú Ωmega", "café über Ñandu Ωmega"),
        ("“quoted” ‘so’ – and … so on", "\"quoted\" 'so' - and ... so on"),
        ("naïve façade", "naive facade"),
        ("cafe\u0301", "café"),
        ("Łódź œuvre ½ × 2", "Lodz oeuvre 1/2 x 2"),
        ("Καλημέρα", "KAΛHMEPA"),
        ("ship it 🚀 now", "ship it now"),
        ("done🎉", "done"),
        ("привет, мир", "?, ?"),
        ("删除 everything", "? everything"),
        ("5 ₽ or 5 €", "5 ? or 5 €"),
        ("really??", "really??"),
        ("tab\tand\u00a0space", "tab and space"),
        ("{a} [b] ~c| ^\\", "{a} [b] ~c| ^\\"),
        ("fullwidth ａｂｃ １", "fullwidth abc 1"),
        ("zero\u200bwidth", "zerowidth"),
        ("half a pair \ud83d alone", "half a pair alone"),
        ("a\x00\x07b", "a b"),
    ],
)
def test_text_is_put_into_the_alphabet(written: str, sent: str) -> None:
    assert normalise(written) == sent


def test_a_picture_does_not_bring_together_what_it_stood_between() -> None:
    assert normalise("evil.🚀com") == "evil. com"


@given(st.text())
def test_whatever_is_written_is_sent_in_the_alphabet(text: str) -> None:
    sent = normalise(text)

    assert (BASIC | EXTENDED).issuperset(sent)
    assert normalise(sent) == sent


def test_some_characters_take_two_septets() -> None:
    assert septets("abc") == 3
    assert septets("[b]€") == 7


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 1),
        (LINE, 1),
        (LINE + "1", 2),
        ("x" * 306, 2),
        ("x" * 307, 3),
        ("€" * 80, 1),
        ("€" * 81, 2),
        ("x" * 152 + "€" + "x" * 152, 3),  # 306 septets, but none is divided
    ],
)
def test_longer_messages_are_sent_in_segments(text: str, count: int) -> None:
    assert segments(text) == count


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 5, "short"),
        ("too long a text", 11, "too long..."),
        ("too long a text", 12, "too long..."),
        ("[[[[", 7, "[[..."),
        ("[[[[", 6, "[..."),
        ("text", 3, "..."),
        ("text", 2, ""),
    ],
)
def test_text_is_cut_by_septets(text: str, most: int, shown: str) -> None:
    assert clip(text, most) == shown
