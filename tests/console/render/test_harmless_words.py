"""Whatever agents and people write, no rendering lets it move the cursor or hide."""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from inspect import isfunction, signature
from itertools import chain
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from safetyd.console import agent_list, stop_file
from safetyd.console.file_history import history_table
from safetyd.console.render import (
    agent_tables,
    decision_table,
    delivery_tables,
    event_line,
    explanation,
    grant_list,
    guard_tables,
    money_tables,
    request_tables,
    status_page,
    terminal_card,
)
from safetyd.console.render.audit_lines import record
from safetyd.console.review import detail
from tests.filled import EPOCH, reading

HOSTILE = "\x1b]0;owned\x07\u202e"
MODULES = (
    *(agent_list, agent_tables, decision_table, delivery_tables, event_line, explanation),
    grant_list,
    *(guard_tables, history_table, money_tables, request_tables, status_page, stop_file),
    *(terminal_card, detail),
)
LINES = (str, Iterator[str], list[str], Iterator[tuple[str, str]])


def renderings() -> Iterator[Callable[..., Any]]:
    for module in MODULES:
        for name, render in vars(module).items():
            public = isfunction(render) and not name.startswith("_")
            if public and render.__module__ == module.__name__ and _takes_answers(render):
                yield render


def _takes_answers(render: Callable[..., Any]) -> bool:
    """Say whether a function returns lines, and takes what can be made up."""
    hints = get_type_hints(render)
    given = [kind for name, kind in hints.items() if name != "return"]
    return hints["return"] in LINES and bool(given) and all(map(_is_answer, given))


def _is_answer(kind: Any) -> bool:
    first = _first(kind)
    if get_origin(first) is Sequence:
        return _is_answer(get_args(first)[0])
    made_up = isinstance(first, type) and issubclass(first, msgspec.Struct | str | int | float)
    return made_up or first is datetime


def worst(kind: Any) -> Any:
    """Return a value with all that it may have, and hostile words wherever it has words."""
    first = _first(kind)
    inner = get_args(first)
    match get_origin(first) or first:
        case origin if origin is Literal:
            return inner[0]
        case origin if origin in {tuple, list, Sequence, frozenset}:
            return [worst(inner[0])]
        case origin if origin in {dict, Mapping}:
            return {worst(inner[0]): worst(inner[1])}
        case type() if issubclass(first, msgspec.Struct):
            return _worst_struct(first)
        case type() if issubclass(first, Enum):
            return next(iter(first)).value
    simple = {bool: True, int: 1, float: 1.0, datetime: EPOCH.isoformat()}
    return simple.get(first, HOSTILE)


def _worst_struct(kind: type[msgspec.Struct]) -> dict[str, Any]:
    config = kind.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    fields = msgspec.structs.fields(kind)
    return {**tag, **{field.encode_name: worst(field.type) for field in fields}}


def _first(kind: Any) -> Any:
    """Return the first type that a value may have, but for None and what msgspec leaves unset."""
    while hasattr(kind, "__metadata__"):
        is_name = any(meta.pattern for meta in kind.__metadata__)
        kind = Literal["p1"] if is_name else get_args(kind)[0]
    if get_origin(kind) in {Union, types.UnionType}:
        some = (one for one in get_args(kind) if one not in {type(None), msgspec.UnsetType})
        return _first(next(some))
    return kind


RENDERINGS = {f"{one.__module__}.{one.__name__}": one for one in renderings()}


@pytest.mark.parametrize("render", RENDERINGS.values(), ids=RENDERINGS.keys())
def test_hostile_words_are_shown_harmlessly(render: Callable[..., Any]) -> None:
    hints = get_type_hints(render)
    given = {name: worst(hints[name]) for name in signature(render).parameters}

    said = reading(render)(**given)

    lines = [said] if isinstance(said, str) else chain.from_iterable(map(_flat, said))
    assert all(line.replace("\n", "").isprintable() for line in lines)


def _flat(line: str | tuple[str, ...]) -> tuple[str, ...]:
    return (line,) if isinstance(line, str) else line


def test_hostile_records_and_events_are_shown_harmlessly() -> None:
    event = {"timestamp": HOSTILE, "event_type": "X", "reason": HOSTILE, "metadata": {}}
    line = record(msgspec.json.encode({"event": HOSTILE, "words": HOSTILE, HOSTILE: [HOSTILE]}))

    assert event_line.event_line(event).isprintable()
    assert line.isprintable()
