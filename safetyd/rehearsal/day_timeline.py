"""The timeline of a rehearsed day: requests, messages, answers and what failed."""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.events.notification_events import ChannelMoved, NotTold
from safetyd.core.events.rota_events import DutyChanged
from safetyd.rehearsal.day_facts import AskedRequest, DayFacts, End, refs
from safetyd.rehearsal.day_record import Arrival
from safetyd.rehearsal.message_waits import MessageWaits

RowKind = Literal["request", "message", "incident"] | End


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: datetime
    kind: RowKind
    who: str  # an agent, a reader, an operator or a channel
    what: str  # the action, the subject of a message, or an incident
    about: tuple[str, ...] = ()  # the requests and notes
    urgent: bool = False
    until: datetime | None = None  # the deadline of a request
    channel: str = ""  # of a message; of an answer: how it was given
    shows: dict[str, int] = {}  # entries of a message, by kind
    counted: int = 0  # further items that a message only counts
    waited_s: float = 0.0  # how long the oldest new request of a message waited
    why: str = ""  # why it waited


def timeline(facts: DayFacts) -> list[TimelineRow]:
    """Return the rows of a day, in order of time."""
    return sorted(_rows(facts), key=lambda row: row.at)


def _rows(facts: DayFacts) -> Iterator[TimelineRow]:
    for request in facts.requests.values():
        yield from _of_request(request)
    waits = MessageWaits(facts)
    for arrival in facts.record.arrivals:
        yield _received(facts, arrival, waits)
    for event in facts.record.events:
        if (said := _said(event)) is not None:
            yield TimelineRow(at=event.at, kind="incident", who=said[0], what=said[1])


def _of_request(request: AskedRequest) -> Iterator[TimelineRow]:
    urgent = request.urgency == "high"
    yield TimelineRow(
        at=request.asked_at,
        kind="request",
        who=request.agent,
        what=request.action,
        about=(request.id,),
        urgent=urgent,
        until=request.deadline,
    )
    if request.ended_at is not None:
        yield TimelineRow(
            at=request.ended_at,
            kind=request.ended,
            who=request.by or request.agent,
            about=(request.id,),
            what=f"{request.agent}: {request.action}" if request.by else request.action,
            urgent=urgent,
            channel=request.via,
        )


def _received(facts: DayFacts, arrival: Arrival, waits: MessageWaits) -> TimelineRow:
    shows: dict[str, int] = {}
    for mention in arrival.mentions:
        shows[mention.kind] = shows.get(mention.kind, 0) + 1
    wait = waits.of(arrival)
    return TimelineRow(
        at=arrival.at,
        kind="message",
        who=", ".join(facts.record.persons(arrival.recipient, arrival.channel)),
        what=arrival.subject or arrival.text.split("\n", 1)[0],
        about=tuple(refs(arrival)),
        urgent=arrival.urgency == "high",
        channel=arrival.channel,
        shows=shows,
        counted=arrival.more,
        waited_s=round(wait.waited.total_seconds(), 1) if wait else 0.0,
        why=wait.why if wait else "",
    )


def _said(event: Event) -> tuple[str, str] | None:
    match event:
        case Stopped():
            return event.by, f"stops {event.agent or 'everything'}: {event.reason}"
        case Resumed():
            return event.by, f"resumes {event.agent or 'everything'}"
        case ChannelMoved():
            return event.channel, "is up again" if event.up else f"is down: {event.why}"
        case NotTold(state="dead" | "undelivered" | "expired"):
            return event.channel, f"a message was given up ({event.state}): {event.error}"
        case DutyChanged() if event.on:
            return ", ".join(event.on), "on call from now"
    return None
