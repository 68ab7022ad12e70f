"""Settings files are edited in place, and an edit can be undone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.hosts.json_text import NotJson, appended, parse, with_value, without

KEYS = ("hooks", "PreToolUse")
OURS = {"matcher": "*", "hooks": [{"command": "safetyd/hook.py"}]}

SETTINGS = """// mine
{
\t"model": "opus", /* keep */
\t"hooks": {
\t\t"PreToolUse": [
\t\t\t{"matcher": "Bash", "hooks": []}, // theirs
\t\t],
\t},
}
"""


def ours(value: object) -> bool:
    return value == OURS


def test_comments_order_and_layout_stay() -> None:
    edited = appended(SETTINGS, KEYS, OURS)

    before, _, after = SETTINGS.partition('{"matcher": "Bash", "hooks": []}')
    assert edited.startswith(before + '{"matcher": "Bash", "hooks": []},\n\t\t\t{\n')
    assert edited.endswith(after)
    assert without(edited, KEYS, ours) == SETTINGS


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{\n}\n",
        '\ufeff{"a": 1}',
        '{\r\n  "a": 1\r\n}\r\n',
        '{"hooks": {}}',
        '{"hooks": {"Stop": []}}',
        '{"hooks": {"PreToolUse": [1]}, "z": 2}',
        '{"a": "// no comment", "b": "\\"}"}',
        '{"a": 1 /* last */ }',
    ],
)
def test_an_edit_is_undone_to_the_byte(text: str) -> None:
    edited = appended(text, KEYS, OURS)
    assert parse(edited)["hooks"]["PreToolUse"][-1] == OURS  # type: ignore[index]
    undone = without(edited, KEYS, ours)
    assert parse(undone) == _pruned(parse(text))


def _pruned(value: object) -> object:
    """Return the settings without containers that hold nothing but our place."""
    assert isinstance(value, dict)
    return {key: inner for key, inner in value.items() if (key, inner) != ("hooks", {})}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
settings = st.dictionaries(st.sampled_from(["a", "hooks ", "é", "x"]), json_values, max_size=4)


@given(settings, st.sampled_from([None, 2, "\t"]), st.lists(json_values, max_size=2))
def test_every_settings_file_keeps_its_values(
    value: dict[str, object], indent: int | str | None, hooks: list[object]
) -> None:
    whole = value | ({"hooks": {"PreToolUse": hooks}} if hooks else {})
    text = json.dumps(whole, indent=indent)

    edited = appended(text, KEYS, OURS)

    assert parse(edited) == value | {"hooks": {"PreToolUse": [*hooks, OURS]}}
    assert without(edited, KEYS, ours) == text


def test_a_value_is_set_only_if_there_is_none() -> None:
    assert parse(with_value("{}", ("env", "A"), "1")) == {"env": {"A": "1"}}
    taken = '{"env": {"A": "2"}}'
    assert with_value(taken, ("env", "A"), "1") == taken


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        '{"a"}',
        '{"a": 1 "b": 2}',
        "{'a': 1}",
        "{,}",
        "[1,,2]",
        '{"a": tru}',
        "{} {}",
        '"\n"',
        "[" * 200,
    ],
)
def test_what_is_not_json_is_refused_with_the_line(text: str) -> None:
    with pytest.raises(NotJson):
        parse(text)


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "[]"])
def test_settings_of_another_shape_are_refused(text: str) -> None:
    with pytest.raises(NotJson):
        appended(text, KEYS, OURS)
