"""Facts about a rehearsed day: its requests and alerts, and when people were notified of them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from safetyd.core.approvals.request import UNPAUSE, request_id
from safetyd.core.catalogue.catalogue import alert_of
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.notification_events import Due, NotTold, Told
from safetyd.core.events.request_events import Answered, Cancelled, Expired, Superseded
from safetyd.core.messages.proposal import Urgency
from safetyd.core.recipients import Recipient, quiet_until
from safetyd.rehearsal.day_record import Arrival, DayRecord
from safetyd.rehearsal.rehearsed_people import RehearsedPerson, persons

_LOST: Final = frozenset({"dead", "undelivered", "parked", "expired"})
_STEP: Final = timedelta(minutes=1)


class AskedRequest(msgspec.Struct, kw_only=True):
    """A request of the day, and what became of it."""

    id: str
    agent: str
    action: str
    urgency: Urgency
    asked_at: datetime
    deadline: datetime | None
    ended_at: datetime | None = None
    ended: str = ""  # approved, denied, expired, cancelled or superseded
    by: str = ""
    first_at: datetime | None = None  # when the first message about it arrived


class Reading(NamedTuple):
    """One entry of a message as one person reads it."""

    person: str
    arrival: Arrival
    thing: str  # a request, or the cause of an alert
    urgent: bool
    since: timedelta | None  # since the person last read about it; None: never before


class DayFacts:
    """Derived from a record once."""

    def __init__(self, record: DayRecord) -> None:
        self.record = record
        self.people = persons(record)
        self.requests: dict[str, AskedRequest] = {}
        self.request_of: dict[tuple[str, str], str] = {}  # by agent and id of the proposal
        self.alerts: dict[str, tuple[str, bool]] = {}  # the cause of a note, and if it is urgent
        self.deliveries: dict[str, str] = {}  # the state of each message
        for event in record.events:
            self._take(event)
        for arrival in record.arrivals:
            for ref in _refs(arrival):
                if (request := self.requests.get(ref)) is not None:
                    request.first_at = request.first_at or arrival.at
        self.readings = list(self._readings())

    def hearing(self, agent: str) -> list[Recipient]:
        return [one for one in self.record.telling.recipients if one.hears_of(agent)]

    def waking(self, agent: str, since: datetime, until: datetime) -> timedelta:
        """Return how much of a time somebody who hears of an agent is not in quiet hours."""
        hours = [one.quiet for one in self.hearing(agent)]
        passed, at = timedelta(), since
        while at < until:
            step = min(_STEP, until - at)
            if not hours or any(quiet_until(quiet, at) is None for quiet in hours):
                passed += step
            at += step
        return passed

    def is_urgent(self, ref: str) -> bool:
        request = self.requests.get(ref)
        return request.urgency == "high" if request else self.alerts.get(ref, ("", False))[1]

    def person(self, name: str) -> RehearsedPerson | None:
        return self.people.get(name)

    def lost(self) -> list[str]:
        """Return the messages that were given up, or are still open."""
        return [id_ for id_, state in self.deliveries.items() if state in _LOST]

    def _take(self, event: Event) -> None:
        match event:
            case Decided(asks=asks) if asks is not None:
                self.request_of[event.agent, event.id] = asks.request_id
                if not asks.joins:
                    action = event.proposal.text or event.type
                    self._asked(asks.request_id, event, action, asks.urgency, asks.deadline)
            case Paused(source="anomaly"):
                id_ = request_id(event.agent, UNPAUSE, event.seq)
                self._asked(id_, event, UNPAUSE, "normal", None)
            case Due():
                self.deliveries[event.delivery] = "open"
            case Told() | NotTold():
                self.deliveries[event.delivery] = event.state
            case _:
                self._take_end(event)
        alert = alert_of(event)
        if alert is not None:
            self.alerts[f"note_{event.seq}"] = alert.key, alert.urgency == "high"

    def _take_end(self, event: Event) -> None:
        match event:
            case Answered():
                self._ended(event.request_id, event.at, event.answer, event.by)
            case Cancelled():
                self._ended(event.request_id, event.at, "cancelled", event.by)
            case Superseded():
                self._ended(event.request_id, event.at, "superseded", event.agent)
            case Expired():
                for id_ in event.request_ids:
                    self._ended(id_, event.at, "expired")

    def _asked(
        self,
        id_: str,
        event: Decided | Paused,
        action: str,
        urgency: Urgency,
        deadline: datetime | None,
    ) -> None:
        self.requests[id_] = AskedRequest(
            id=id_,
            agent=event.agent,
            action=action,
            urgency=urgency,
            asked_at=event.at,
            deadline=deadline,
        )

    def _ended(self, id_: str, at: datetime, how: str, by: str = "") -> None:
        request = self.requests.get(id_)
        if request is not None and request.ended_at is None:
            request.ended_at, request.ended, request.by = at, how, by

    def _readings(self) -> Iterator[Reading]:
        read: dict[tuple[str, str], datetime] = {}
        for arrival in self.record.arrivals:
            for person in self.record.persons(arrival.recipient, arrival.channel):
                for ref in _refs(arrival):
                    thing = self.alerts[ref][0] if ref in self.alerts else ref
                    before = read.get((person, thing))
                    since = None if before is None else arrival.at - before
                    yield Reading(person, arrival, thing, self.is_urgent(ref), since)
                    read[person, thing] = arrival.at


def _refs(arrival: Arrival) -> list[str]:
    return [ref for entry in arrival.entries for ref in entry]
