"""The timeline of a rehearsed day: requests, messages, answers and what failed."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.events.notification_events import ChannelMoved, NotTold
from safetyd.rehearsal.day_facts import AskedRequest, DayFacts
from safetyd.rehearsal.day_record import Arrival


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    who: str  # an agent, a recipient or a channel
    what: str


def timeline(facts: DayFacts) -> list[TimelineRow]:
    """Return the rows of a day, in order of time."""
    return sorted(_rows(facts), key=lambda row: row.at)


def _rows(facts: DayFacts) -> Iterator[TimelineRow]:
    zone = ZoneInfo(facts.record.story.timezone)
    for request in facts.requests.values():
        yield from _of_request(request, zone)
    for arrival in facts.record.arrivals:
        readers = facts.record.persons(arrival.recipient, arrival.channel)
        yield TimelineRow(at=arrival.at, who=", ".join(readers), what=_received(arrival))
    for event in facts.record.events:
        if (said := _said(event)) is not None:
            yield TimelineRow(at=event.at, who=said[0], what=said[1])


def _of_request(request: AskedRequest, zone: ZoneInfo) -> Iterator[TimelineRow]:
    urgent = "urgent, " if request.urgency == "high" else ""
    ends = request.deadline and request.deadline.astimezone(zone)
    until = f"until {ends:%a %-d %b %H:%M}" if ends else "no deadline"
    asks = f"asks for approval ({urgent}{until}): {request.action}"
    yield TimelineRow(at=request.asked_at, who=request.agent, what=asks)
    if request.ended_at is not None:
        what = f"{request.ended}: {request.action}"
        yield TimelineRow(at=request.ended_at, who=request.by or request.agent, what=what)


def _received(arrival: Arrival) -> str:
    kinds = dict.fromkeys(mention.kind for mention in arrival.mentions)
    counted = f", {arrival.more} more only counted" if arrival.more else ""
    what = arrival.subject or arrival.text.split("\n", 1)[0]
    listed = ", ".join(kind.replace("_", " ") for kind in kinds)
    return f"{arrival.channel}: {what} [{len(arrival.entries)} {listed}{counted}]"


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
    return None
