"""Tables of the fields of a message, written into docs/protocol.md between two comments."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from docs.components import Json

BEGIN: Final = "<!-- fields of {name}, written by docs/generate.py -->"
END: Final = "<!-- end of fields -->"
_PLACE: Final = re.compile(
    BEGIN.replace("{name}", r"(?P<name>\w+)") + r"\n.*?" + re.escape(END), re.DOTALL
)


def with_tables(document: str, schemas: Mapping[str, Json]) -> str:
    """Return a document with the tables as they should be."""
    return _PLACE.sub(lambda place: _table(place["name"], schemas[place["name"]]), document)


def _table(name: str, schema: Json) -> str:
    rows = ("| field | value | meaning |", "|---|---|---|", *_rows(schema, schema.get("$defs", {})))
    return "\n".join((BEGIN.format(name=name), *rows, END))


def _rows(schema: Json, parts: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    for name, field in schema["properties"].items():
        only = _only(field)
        needed = ", required" if name in schema["required"] else ""
        yield f"| `{prefix}{name}` | {_value(only)}{needed} | {field.get('description', '')} |"
        if "$ref" in only:
            yield from _rows(parts[only["$ref"].rpartition("/")[2]], parts, f"{prefix}{name}.")


def _only(field: Json) -> Json:
    """Return the schema of a value that is not null."""
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    first: Json = kinds[0]
    return first


def _value(field: Json) -> str:
    """Return in words what a value may be."""
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    given = field.get("type", "object")
    kind = given if isinstance(given, str) else str(given[0])
    if field.get("format") == "date-time":
        kind = "time"
    return kind + _limit(field)


def _limit(field: Json) -> str:
    if "maxItems" in field:
        return f", at most {field['maxItems']} items"
    if "pattern" in field:
        return ", 1 to 64 of `A-Za-z0-9_-`"
    if "maxLength" in field:
        return f", at most {field['maxLength']} characters"
    return _range(field)


def _range(field: Json) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if low is None:
        return ""
    if high is None or high >= 2**53:
        return f", at least {low:g}"
    return f", {low:g} to {high:g}"
