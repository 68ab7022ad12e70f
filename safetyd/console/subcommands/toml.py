"""Plain objects as TOML. What is None is left out, since TOML has no word for it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

Table = Mapping[str, object]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_WIDTH: Final = 90


def encode(table: Table) -> str:
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Table, path: tuple[str, ...]) -> Iterator[str]:
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if path and (values or not table):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for name, value in values.items():
        if value is not None:
            yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _lines(value, (*path, name))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        given = ((name, inner) for name, inner in value.items() if inner is not None)
        return "{ " + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in given) + " }"
    if isinstance(value, Sequence):
        return _array([_value(item) for item in value])
    return repr(value)


def _array(items: Sequence[str]) -> str:
    line = f"[{', '.join(items)}]"
    if len(line) <= _WIDTH:
        return line
    return "\n".join(("[", *(f"  {item}," for item in items), "]"))


def _string(text: str) -> str:
    if "\\" in text and text.isascii() and text.isprintable() and "'" not in text:
        return f"'{text}'"
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _key(name: str) -> str:
    return name if _BARE.match(name) else _string(name)
