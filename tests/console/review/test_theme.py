"""Colours only repeat what the words say, and no words of an agent can wear ours."""

import pytest

from safetyd.console.render.terminal_card import CardMark, CardRow
from safetyd.console.review.theme import fitting_theme, listed, painted, topped


@pytest.mark.parametrize("role", ["risk high", "risk low", "urgency high", "part"])
def test_levels_and_parts_are_coloured_where_they_stand(role):
    content = painted([CardRow("first"), CardRow("- abc", "", (CardMark(2, 5, role),))])

    assert content.plain == "first\n- abc"
    assert [(span.start, span.end) for span in content.spans] == [(8, 11)]


@pytest.mark.parametrize("role", ["added", "removed", "hunk", "file", "heading"])
def test_rows_have_the_colours_of_what_they_are(role):
    content = painted([CardRow("first"), CardRow("second", role)])

    assert [(span.start, span.end) for span in content.spans] == [(6, 12)]


def test_words_that_look_like_a_level_or_a_diff_have_no_colour():
    content = painted([CardRow("  | risk        high"), CardRow("  | +new")])

    assert not content.spans


def test_the_selected_line_and_its_urgency_are_seen_without_colour():
    line = "* high    9:59  code          push: git push"

    chosen, other = (listed(line, "high", selected=selected) for selected in (True, False))

    assert chosen.plain == "*>high    9:59  code          push: git push"
    assert other.plain == line
    assert [(span.start, span.end, str(span.style)) for span in other.spans] == [
        (2, 8, "bold $text-error")
    ]


@pytest.mark.parametrize(
    ("variables", "theme"),
    [
        ({}, "textual-dark"),
        ({"COLORFGBG": "15;0"}, "textual-dark"),
        ({"COLORFGBG": "0;15"}, "textual-light"),
        ({"COLORFGBG": "0;default;7"}, "textual-light"),
        ({"COLORFGBG": "0;15", "TEXTUAL_THEME": "nord"}, "textual-dark"),
    ],
)
def test_the_theme_is_light_where_the_terminal_says_so(variables, theme):
    assert fitting_theme(variables, "textual-dark") == theme


def test_the_top_says_in_a_word_how_everything_is():
    assert topped("NORMAL", "", "2 pending").plain == " NORMAL  2 pending"
    assert topped("STOPPED", "everything", "2 pending").plain == " STOPPED  everything\n2 pending"
    assert topped("", "", "connecting").plain == " connecting"
