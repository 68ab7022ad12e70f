"""The published schemas, for checking messages in tests."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from docs.generate import DOCS


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((DOCS / "schemas" / f"{name}.json").read_text())
    return schema


@cache
def validator(name: str, *, closed: bool = False) -> Draft202012Validator:
    """Return a validator; if `closed`, it rejects fields that the schema does not name."""
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    for part in (schema, *schema.get("$defs", {}).values()) if closed else ():
        part["additionalProperties"] = False
    return Draft202012Validator(schema, format_checker=FormatChecker())
