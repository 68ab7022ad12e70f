"""Generate the tables in docs/protocol.md: fields of messages, operator commands, and events.

Each is between `<!-- KIND of NAME, written by docs/generate.py -->` and `<!-- end -->`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from docs.components import Json
from docs.messages import schema_name
from safetyd.core.catalogue.catalogue import CATALOGUE
from safetyd.core.catalogue.entry import Entry, Notice
from safetyd.core.events.event import Event
from safetyd.operators.contract.question import TAG_FIELD, Call, name_of, summary_of
from safetyd.operators.declarations import COMMANDS, QUESTIONS
from safetyd.operators.replies import Done

BEGIN: Final = "<!-- {table}, written by docs/generate.py -->"
END: Final = "<!-- end -->"
_PLACE: Final = re.compile(
    BEGIN.replace("{table}", r"(?P<kind>\w+)(?: of (?P<name>\w+))?") + r"\n.*?" + re.escape(END),
    re.DOTALL,
)
_SLOT: Final = re.compile(r"\{(\w+)[^}]*\}")
_ITALIC: Final = r"*\1*"


def with_tables(document: str, schemas: Mapping[str, Json]) -> str:
    """Return a document with its tables up to date."""
    return _PLACE.sub(lambda place: _table(place["kind"], place["name"], schemas), document)


def _table(kind: str, name: str | None, schemas: Mapping[str, Json]) -> str:
    match kind, name:
        case "fields", str():
            schema = schemas[name]
            rows = ["| field | value | meaning |", "|---|---|---|"]
            rows += _fields(schema, schema.get("$defs", {}))
        case "commands", str():
            calls = [call for call in (*COMMANDS, *QUESTIONS) if call.verb == name]
            rows = ["| command | fields | what it does |", "|---|---|---|"]
            rows += [_command(call, schemas[schema_name(call)]) for call in calls]
        case _:
            rows = ["| type | severity | message |", "|---|---|---|", *_events()]
    begin = BEGIN.format(table=f"{kind} of {name}" if name else kind)
    return "\n".join((begin, *rows, END))


# -- fields ----------------------------------------------------------------------------------------


def _fields(schema: Json, parts: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    for name, field in schema["properties"].items():
        value = _value(field, parts)
        needed = ", required" if name in schema.get("required", ()) else ""
        meaning = field.get("description", "")
        yield f"| `{prefix}{name}` | {_words(value)}{needed} | {meaning} |"
        if "properties" in value:
            yield from _fields(value, parts, f"{prefix}{name}.")
        item = _value(value.get("items", {}), parts)
        if "properties" in item:
            yield from _fields(item, parts, f"{prefix}{name}[].")


def _value(field: Json, parts: Mapping[str, Json]) -> Json:
    """Return the schema of a value that is not null, with its reference resolved."""
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    first: Json = kinds[0]
    return parts[first["$ref"].rpartition("/")[2]] if "$ref" in first else first


def _words(field: Json) -> str:
    """Describe the values that a field may have."""
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
    low, high = field.get("minimum"), field.get("maximum")
    if low is None:
        return ""
    if high is None or high >= 2**53:
        return f", at least {low:g}"
    return f", {low:g} to {high:g}"


# -- commands and events ---------------------------------------------------------------------------


def _command(call: type[Call[Done]], schema: Json) -> str:
    fields = ", ".join(
        f"`{name}`" if name in schema["required"] else f"`{name}`?"
        for name in schema["properties"]
        if name != TAG_FIELD
    )
    link = f"[{name_of(call)}](schemas/{schema_name(call)}.json)"
    return f"| {link} | {fields} | {summary_of(call)} |"


def _events() -> Iterator[str]:
    entries = ((notice, entry) for entry in CATALOGUE.values() for notice in entry.notices)
    rows = {notice.type: _event(notice, entry) for notice, entry in entries}
    yield from (row for _, row in sorted(rows.items()))


def _event(notice: Notice, entry: Entry[Event]) -> str:
    """Return a row; if a function makes the sentence, the event's docstring describes it."""
    said = f"{notice.says}: {{reason}}" if notice.says else entry.reason
    if not isinstance(said, str):
        said = str(entry.kind.__doc__).partition("\n")[0]
    return f"| `{notice.type}` | {notice.severity} | {_SLOT.sub(_ITALIC, said)} |"
