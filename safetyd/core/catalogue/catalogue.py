"""All entries, and functions that look up the severity, sentence and alert of an event.

Sentences are formatted only when they are needed.
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Final, cast

from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.catalogue import (
    cluster_entries,
    daemon_entries,
    decision_entries,
    guard_entries,
    history_entries,
    notification_entries,
    request_entries,
    rota_entries,
)
from safetyd.core.catalogue.entry import Alert, Entry, Notice, because
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event, Level

_ENTRIES = (
    *decision_entries.ENTRIES,
    *guard_entries.ENTRIES,
    *request_entries.ENTRIES,
    *notification_entries.ENTRIES,
    *rota_entries.ENTRIES,
    *history_entries.ENTRIES,
    *daemon_entries.ENTRIES,
    *cluster_entries.ENTRIES,
)
# The functions of an entry are called only with events of its kind.
CATALOGUE: Final[Mapping[type[Event], Entry[Event]]] = {
    entry.kind: entry for entry in cast("tuple[Entry[Event], ...]", _ENTRIES)
}
AnyEvent: Final = reduce(or_, CATALOGUE)  # every event that the journal can contain
NOTICES: Final[Mapping[str, Notice]] = {
    notice.type: notice for entry in CATALOGUE.values() for notice in entry.notices
}
# Tags of derived events without a notice, and of routine events.
ROUTINE: Final = frozenset(
    str(kind.__struct_config__.tag)
    for kind, entry in CATALOGUE.items()
    if entry.routine or (entry.follows is True and entry.notice is None)
)

_INTAKE: Final = "intake."  # prefix of rules that refuse a message before it is decided
_UNKNOWN: Final = Notice("", "low")  # for events without a notice, or from another version


class _Metadata(dict[str, object]):
    """The fields of a template. A field that an older version did not write is shown as `?`."""

    def __missing__(self, name: str) -> object:
        return _Open()


class _Open:
    def __format__(self, _spec: str) -> str:
        return "?"


def alert_of(event: Event) -> Alert | None:
    """Return the alert of an event, if it has one."""
    alert = CATALOGUE[type(event)].alert
    return None if alert is None else alert(event)


def severity(event_type: str, metadata: Mapping[str, object]) -> Level:
    """Return the severity of a SafetyEvent. For an anomaly, it is in the metadata."""
    match metadata.get("severity"):
        case "low" | "medium" | "high" | "critical" as level:
            return level
    return NOTICES.get(event_type, _UNKNOWN).severity


def severity_of(event: SafetyEvent) -> Level:
    return severity(event.event_type, event.metadata)


def repeats_a_decision(event: SafetyEvent) -> bool:
    """Return whether an event is about decisions, which are listed separately."""
    return NOTICES.get(event.event_type, _UNKNOWN).repeats and not is_refusal(event)


def is_refusal(event: SafetyEvent) -> bool:
    """Return whether an event is about messages that were refused before a decision."""
    return str(event.metadata.get("rule", "")).startswith(_INTAKE)


def sentence(
    event_type: str,
    agent: str | None,
    breaker: str | None,
    reason: str,
    metadata: Mapping[str, object],
) -> str:
    """Return the sentence of a SafetyEvent."""
    who = "all agents without a key" if agent == ANONYMOUS else agent or "all agents"
    fields = _Metadata({**metadata, "agent": who, "breaker": breaker})
    said = NOTICES.get(event_type, _UNKNOWN).says.format_map(fields)
    return because(said, reason) if said else reason


def sentence_of(event: Event) -> str:
    """Return the sentence of an event. The agent's words in it are not sanitized."""
    if isinstance(event, SafetyEvent):
        return sentence(
            event.event_type, event.agent_id, event.breaker_id, event.reason, event.metadata
        )
    entry = CATALOGUE[type(event)]
    if not entry.says:
        notice = entry.notice_of(event) or _UNKNOWN
        agent, breaker = getattr(event, "agent", None), getattr(event, "breaker", None)
        return sentence(notice.type, agent, breaker, entry.reason_of(event), entry.facts_of(event))
    return entry.says_of(event).removesuffix(": ")


def follows(event: Event) -> bool:
    """Return whether the engine derived an event from others."""
    made = CATALOGUE[type(event)].follows
    return made if isinstance(made, bool) else made(event)
