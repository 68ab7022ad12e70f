"""JSON schemas of structs, with times marked as such."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

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
    """Return a reference to each, and all that is referred to by its name."""
    references, parts = msgspec.json.schema_components(kinds, ref_template=ref_template)
    for part in parts.values():
        for name, field in part.get("properties", {}).items():
            if name in TIMES:
                _mark_time(field)
    return list(references), parts


def _mark_time(field: Json) -> None:
    for schema in field.get("anyOf", [field]):
        if schema["type"] == "string":
            schema["format"] = "date-time"
