"""Build answer structs from a few fields; the others get neutral values."""

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import wraps
from inspect import signature
from types import ModuleType
from typing import (
    Any,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

R = TypeVar("R")
T = TypeVar("T", bound=msgspec.Struct)

EPOCH = datetime(2026, 2, 8, 14, 2, tzinfo=UTC)


def filled(kind: type[T], /, **given: object) -> T:
    """Return an answer with these fields; missing ones, also nested, are filled in."""
    return msgspec.convert(_struct(kind, given), kind, strict=False)


class Reading:
    """A module whose functions accept dictionaries in place of answers."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return reading(found) if callable(found) else found


def reading(render: Callable[..., R]) -> Callable[..., R]:
    """Return a function that accepts dictionaries where `render` takes answers."""
    kinds = get_type_hints(render)
    names = list(signature(render).parameters)

    @wraps(render)
    def read(*given: object, **named: object) -> R:
        read = {**dict(zip(names, given, strict=False)), **named}
        for name, value in read.items():
            kind = _meant(kinds[name], value)
            read[name] = msgspec.convert(_value(kind, value), kind, strict=False)
        return render(**read)

    return read


def _struct(kind: type[msgspec.Struct], given: Mapping[str, object]) -> dict[str, object]:
    table: dict[str, object] = dict(given)
    for field in msgspec.structs.fields(kind):
        if field.encode_name in table:
            table[field.encode_name] = _value(field.type, table[field.encode_name])
        elif field.required:
            table[field.encode_name] = _calm(field.type)
    return table


def _value(kind: Any, value: object) -> object:
    """Fill in the missing fields of a value."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    for inner in _alternatives(kind):
        if isinstance(value, Mapping) and _is_struct(inner) and _is_tagged(inner, value):
            return _struct(inner, value)
        if get_origin(inner) in {tuple, Sequence} and isinstance(value, list | tuple):
            return [_value(get_args(inner)[0], one) for one in value]
    return value


def _meant(kind: Any, value: object) -> Any:
    """Return the struct that a dictionary stands for, and the type of a sequence's elements."""
    if isinstance(value, Mapping):
        structs = (one for one in _alternatives(kind) if _is_struct(one))
        return next((one for one in structs if _is_tagged(one, value)), kind)
    if get_origin(kind) is not Sequence:
        return kind
    return tuple.__class_getitem__((get_args(kind)[0], ...))


def _is_tagged(kind: type[msgspec.Struct], value: Mapping[Any, object]) -> bool:
    config = kind.__struct_config__
    return value.get(config.tag_field, config.tag) == config.tag


def _calm(kind: Any) -> object:
    """Return the neutral value of a type: an empty string, zero, no rows."""
    if type(None) in _alternatives(kind):
        return None
    first = _alternatives(kind)[0]
    if _is_struct(first):
        return _struct(first, {})
    if first is datetime:
        return EPOCH.isoformat()
    if get_origin(first) is Literal:
        return get_args(first)[0]
    if isinstance(first, type) and issubclass(first, Enum):
        return next(iter(first)).value
    return (get_origin(first) or first)()


def _alternatives(kind: Any) -> list[Any]:
    """Return the members of a union, without annotations."""
    while hasattr(kind, "__metadata__"):
        kind = get_args(kind)[0]
    if get_origin(kind) in {Union, types.UnionType}:
        return [one for each in get_args(kind) for one in _alternatives(each)]
    return [kind]


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
