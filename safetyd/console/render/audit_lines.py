"""Audit records as text, one line each."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document, plain
from safetyd.core.catalogue.catalogue import ROUTINE, sentence_of
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.daemon_events import SafetyEvent

View = Mapping[str, Any]

_COMMON: Final = frozenset({"event", "seq", "at", "t", "hash"})


class _Reported(msgspec.Struct):
    type: str = ""


class _Subject(msgspec.Struct):
    """The fields that identify the kind of a record and its agent."""

    event: str = ""
    agent: str | None = None
    agent_id: str | None = None
    telemetry: _Reported = msgspec.field(default_factory=_Reported)


_read = msgspec.json.Decoder(_Subject).decode


def tells_something(line: bytes) -> bool:
    """Return False for routine records, which `safetyd audit tail` hides."""
    subject = _read(line)
    if subject.event == "reported":
        return subject.telemetry.type == "outcome"
    return subject.event not in ROUTINE


def agent_of(line: bytes) -> str | None:
    """Return the agent of a record, or None."""
    subject = _read(line)
    return subject.agent or subject.agent_id


def record(line: bytes) -> str:
    view: View = msgspec.json.decode(line)
    begins = f"{view.get('seq', 0):>7}  {when(view.get('at'))}  {plain(view['event']):<13}"
    return f"{begins}  {_says(line, view)}"


def _says(line: bytes, view: View) -> str:
    try:
        event = decode(line)
    except msgspec.ValidationError:
        return _rest(view)  # the first line of a file, or an unknown kind of event
    kind = f"{plain(event.event_type)}: " if isinstance(event, SafetyEvent) else ""
    return f"{kind}{plain(sentence_of(event), 200)}"


def _rest(view: View) -> str:
    facts = {name: value for name, value in view.items() if name not in _COMMON}
    return "  ".join(f"{plain(name)}={_value(value)}" for name, value in facts.items())


def _value(value: object) -> str:
    return plain(value, 200) if isinstance(value, str) else plain(document(value), 200)
