"""The table of SafetyEvents, written into docs/protocol.md between two comments."""

import re
from typing import Final

from safetyd.core.catalogue.catalogue import CATALOGUE
from safetyd.core.catalogue.entry import Entry, Notice
from safetyd.core.events.event import Event

BEGIN: Final = "<!-- events, written by docs/generate.py -->"
END: Final = "<!-- end of events -->"
_PLACE: Final = re.compile(re.escape(BEGIN) + r"\n.*?" + re.escape(END), re.DOTALL)
_FIELD: Final = re.compile(r"\{(\w+)[^}]*\}")
_NAME: Final = r"*\1*"


def with_events(document: str) -> str:
    """Return a document with the table as it should be."""
    rows = {
        notice.type: _row(notice, entry) for entry in CATALOGUE.values() for notice in entry.notices
    }
    heading = ("| type | severity | what it says |", "|---|---|---|")
    table = (BEGIN, *heading, *(row for _, row in sorted(rows.items())), END)
    return _PLACE.sub(lambda _place: "\n".join(table), document)


def _row(notice: Notice, entry: Entry[Event]) -> str:
    """Return a row; a sentence that is made by a function is described by its event."""
    said = f"{notice.says}: {{reason}}" if notice.says else entry.reason
    if not isinstance(said, str):
        said = str(entry.kind.__doc__).partition("\n")[0]
    return f"| `{notice.type}` | {notice.severity} | {_FIELD.sub(_NAME, said)} |"
