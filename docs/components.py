"""JSON schemas of structs, with descriptions and time formats."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import msgspec.inspect as mi

from docs.field_docs import described

Json = dict[str, Any]

IN_SCHEMA: Final = "#/$defs/{name}"
TIMES: Final = frozenset(
    {
        "asked",
        "asked_at",
        "at",
        "deadline",
        "decided_at",
        "due",
        "ended_at",
        "expires",
        "expires_at",
        "first_at",
        "heard_at",
        "last_at",
        "opened_at",
        "quiet_until",
        "reachable_from",
        "since",
        "started",
        "started_at",
        "timestamp",
        "told_at",
        "until",
        "used_up_at",
        "valid_until",
    }
)


def schemas_of(
    kinds: Iterable[type[msgspec.Struct]], ref_template: str = IN_SCHEMA
) -> tuple[list[Json], dict[str, Json]]:
    """Return a reference to each struct, and the referenced schemas by name."""
    kinds = list(kinds)
    references, parts = msgspec.json.schema_components(kinds, ref_template=ref_template)
    structs = {struct.__name__: struct for struct in structs_in(kinds)}
    for title, part in parts.items():
        for name, field in part.get("properties", {}).items():
            if name in TIMES:
                _mark_time(field)
            if said := described(title, structs.get(title), name):
                field["description"] = said
    return list(references), parts


def structs_in(kinds: Iterable[type[msgspec.Struct]]) -> frozenset[type]:
    """Return every struct in these messages."""
    found: dict[type, mi.StructType] = {}
    todo: list[mi.Type] = list(mi.multi_type_info(kinds))
    for kind in todo:
        if not isinstance(kind, mi.StructType):
            todo += _inner(kind)
        elif kind.cls not in found:
            found[kind.cls] = kind
            todo += [field.type for field in kind.fields]
    return frozenset(found)


def _inner(kind: mi.Type) -> Iterator[mi.Type]:
    """Yield the types inside a type."""
    for name in kind.__struct_fields__:
        value = getattr(kind, name)
        yield from (
            one
            for one in (value if isinstance(value, tuple) else (value,))
            if isinstance(one, mi.Type)
        )


def _mark_time(field: Json) -> None:
    for schema in field.get("anyOf", [field]):
        if schema["type"] == "string":
            schema["format"] = "date-time"
