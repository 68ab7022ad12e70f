"""What is wrong with a peer's message: which field, with which value, and what is allowed."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
import msgspec.inspect as mi

from safetyd.core.messages.proposal import canonical

SHOWN_CHARS: Final = 80
_A_TIME: Final = "a time such as 2026-02-08T14:30:22Z"
_SAID: Final = re.compile(r"\A(.*?)(?: - at `\$([^`]*)`)?\Z", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")


def choices(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return what to say about the fields that take only certain values."""
    return {
        f".{field.encode_name}": f"one of {', '.join(values)}"
        for field in msgspec.structs.fields(kind)
        if (values := _values(mi.type_info(field.type)))
    }


def in_words(
    error: msgspec.ValidationError, fields: Mapping[str, object], allowed: Mapping[str, str]
) -> str:
    """Say what msgspec found; `allowed` is what `choices` returned."""
    expected, path = _SAID.findall(str(error))[0]
    if missing := _MISSING.match(expected):
        return f"{_name(f'{path}.{missing[1]}')} is missing, and must be there"
    if expected.startswith("Invalid"):
        expected = f"it must be {allowed.get(path, _A_TIME)}"
    return f"{_name(path)}{_is(fields, path)}; {expected[0].lower()}{expected[1:]}"


def shown(value: object) -> str:
    """Return a value as JSON, or its beginning."""
    text = canonical(value).decode()
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


def _values(kind: mi.Type) -> tuple[str, ...]:
    match kind:
        case mi.LiteralType(values=values):
            return tuple(map(str, values))
        case mi.UnionType(types=types):
            return tuple(value for inner in types for value in _values(inner))
    return ()


def _name(path: str) -> str:
    return path.removeprefix(".") or "the message"


def _is(fields: Mapping[str, object], path: str) -> str:
    """Return the value at a path, if it can be found."""
    value: object = fields
    for name, number in _STEP.findall(path):
        try:
            value = value[name] if name else value[int(number)]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return " is wrong"
    followed = path and not _STEP.sub("", path)
    return f" is {shown(value)}" if followed else " is wrong"
