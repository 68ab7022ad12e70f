"""Colours only repeat what the words say, and no words of an agent can wear ours."""

import pytest

from safetyd.console.review.theme import coloured, fitting_theme, keys, listed


def styles(text: str) -> dict[str, str]:
    """Return the style of each part of a text that has one."""
    content = coloured(text)
    return {content.plain[span.start : span.end]: str(span.style) for span in content.spans}


@pytest.mark.parametrize(
    ("row", "part", "style"),
    [
        ("  risk        high, irreversible", "high", "bold $text-error"),
        ("  risk        medium, reversible", "medium", "$text-warning"),
        ("  risk        low, reversible", "low", "$text-success"),
        ("  urgency     high", "high", "bold $text-error"),
        ("  urgency     low", "low", "$text-muted"),
        ("code asks, high urgency, 9:59: push", "high", "bold $text-error"),
        ("  | +new = 2", "  | +new = 2", "$text-success"),
        ("  |   -old = 1", "  |   -old = 1", "$text-error"),
        ("  | @@ -1 +1 @@", "  | @@ -1 +1 @@", "$text-primary"),
        ("diff", "diff", "bold"),
    ],
)
def test_levels_and_diffs_have_the_colours_of_the_theme(row, part, style):
    assert styles(row)[part] == style


@pytest.mark.parametrize("row", ["  | risk        low", "  + urgency     high", "  risk  unheard"])
def test_words_of_an_agent_do_not_look_like_a_level(row):
    assert not any("text" in style for style in styles(row).values())


def test_the_selected_line_and_its_urgency_are_seen_without_colour():
    line = "* high    9:59  code          push: git push"

    chosen, other = (listed(line, "high", selected=selected) for selected in (True, False))

    assert chosen.plain == "*>high    9:59  code          push: git push"
    assert other.plain == line
    assert [(span.start, span.end, str(span.style)) for span in other.spans] == [
        (2, 8, "bold $text-error")
    ]


def test_the_line_of_keys_has_room_between_them_or_fewer_of_them():
    pairs = [("a", "approve"), ("d", "deny"), ("q", "quit")]

    assert keys(pairs, 40).plain == "[a] approve  [d] deny  [q] quit"
    assert keys(pairs, 29).plain == "[a] approve [d] deny [q] quit"
    assert keys(pairs, 28).plain == "[a] approve  [d] deny"
    assert keys(pairs, 3).plain == "[a] approve"


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
