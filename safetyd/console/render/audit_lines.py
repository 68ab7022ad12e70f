"""Audit lines as people read them: one record, one line."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document, plain

View = Mapping[str, Any]

_COMMON: Final = frozenset({"event", "seq", "at", "t", "hash"})


# What follows from other records, or repeats them for others to hear.
_BOOKKEEPING: Final = frozenset(
    {
        "announced",
        "climbed",
        "due",
        "grant_ended",
        "lapsed",
        "person_seen",
        "released",
        "safety_event",
        "session_closed",
        "settled",
        "told",
        "transcribed",
    }
)


class _Reported(msgspec.Struct):
    type: str = ""


class _Told(msgspec.Struct):
    """As much of a record as says what it is about."""

    event: str = ""
    agent: str | None = None
    agent_id: str | None = None
    telemetry: _Reported = msgspec.field(default_factory=_Reported)


_read = msgspec.json.Decoder(_Told).decode


def tells_something(line: bytes) -> bool:
    """Say whether a record is more than bookkeeping."""
    told = _read(line)
    if told.event == "reported":
        return told.telemetry.type == "outcome"
    return told.event not in _BOOKKEEPING


def agent_of(line: bytes) -> str | None:
    """Return the agent that a record is about."""
    told = _read(line)
    return told.agent or told.agent_id


def record(line: bytes) -> str:
    view: View = msgspec.json.decode(line)
    kind = view["event"]
    said = _summary(kind, view)
    return f"{view.get('seq', 0):>7}  {when(view.get('at'))}  {plain(kind):<13}  {said}"


def _summary(kind: str, view: View) -> str:
    match kind:
        case "decided":
            return _decided(view)
        case "safety_event":
            who = f" {plain(view['agent_id'])}" if view.get("agent_id") else ""
            reason = f": {plain(view['reason'])}" if view["reason"] else ""
            return f"{plain(view['event_type'])}{who}{reason}"
        case "reported":
            return f"{plain(view['agent'])} {_telemetry(view['telemetry'])}"
        case "configured":
            return f"at {plain(view['why'])}, policy {plain(view['digest'])}"
    return _rest(view)


def _decided(view: View) -> str:
    id_ = plain(view["proposal"].get("id", ""))
    said = f"{plain(view['agent'])} {plain(view['type'])} {id_} -> {plain(view['decision'])}"
    rules = ", ".join(plain(verdict["rule"]) for verdict in view.get("verdicts", ()))
    text = view["proposal"].get("text", "")
    return f"{said}{f' [{rules}]' if rules else ''}{f': {plain(text, 100)}' if text else ''}"


def _telemetry(telemetry: View) -> str:
    if telemetry["type"] != "outcome":
        return plain(telemetry["type"])
    went = "ok" if telemetry["ok"] else f"failed: {plain(telemetry.get('error', ''))}"
    return f"outcome of {plain(telemetry.get('id') or 'something')}: {went}"


def _rest(view: View) -> str:
    facts = {name: value for name, value in view.items() if name not in _COMMON}
    return "  ".join(f"{plain(name)}={_value(value)}" for name, value in facts.items())


def _value(value: object) -> str:
    return plain(value, 200) if isinstance(value, str) else plain(document(value), 200)
