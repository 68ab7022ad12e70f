"""Statements for databases: only what plainly asks passes.

A narrow stand-in: it holds until statements are read by their grammar.
"""

import re
from typing import Final

from safetyd.core.shell.reading import Code, Effect

_ASKS: Final = re.compile(
    r"\s*((select|show|explain|describe|desc)\b[^\\]*|\\(l|dt|d|du|dn|di)\+?|\.(tables|schema))\s*;?\s*",
    re.IGNORECASE,
)
_MORE: Final = re.compile(
    r"\b(insert|update|delete|create|alter|grant|revoke|copy|into|call|do|set|exec\w*|load_\w+"
    r"|writefile|readfile|edit|pg_\w+|lo_\w+|dblink\w*|replace|attach|system)\b|;\s*\S",
    re.IGNORECASE,
)
_DROPS: Final = re.compile(r"\b(drop|truncate)\b", re.IGNORECASE)


def read_sql(text: str, *, program: str) -> Code:
    """Return what statements do; anything but a single question is taken for a change."""
    kind = sql_type(text)
    if kind == "db_read":
        return Code()
    what = "drops what a database holds" if kind == "drop_database" else "may change a database"
    return Code(findings=((Effect.IRREVERSIBLE, f"{what}, by {program}"),))


def sql_type(text: str) -> str:
    """Return the type of the action that statements amount to."""
    if _DROPS.search(text):
        return "drop_database"
    return "db_read" if _ASKS.fullmatch(text) and not _MORE.search(text) else "db_write"
