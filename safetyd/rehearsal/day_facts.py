"""Facts about a rehearsed day: its requests and alerts, and when people were notified of them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.approvals.request import UNPAUSE, request_id
from safetyd.core.catalogue.catalogue import alert_of
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.notification_events import DeliveryState, Due, NotTold, Told
from safetyd.core.events.request_events import Answered, Cancelled, Expired, Superseded
from safetyd.core.messages.proposal import Reversibility, Urgency
from safetyd.core.recipients import Recipient, quiet_until
from safetyd.rehearsal.day_record import Arrival, DayRecord
from safetyd.rehearsal.rehearsed_people import RehearsedPerson, persons

NOTIFIED_WITHIN: Final = timedelta(hours=1)  # a message may be open for this long
_GIVEN_UP: Final = frozenset({"dead", "undelivered", "parked", "expired"})
_STEP: Final = timedelta(minutes=1)

End = Literal["pending", "approved", "denied", "expired", "cancelled", "superseded"]


class AskedRequest(msgspec.Struct, kw_only=True):
    """A request of the day, and what became of it."""

    id: str
    agent: str
    type: str
    action: str
    urgency: Urgency
    reversibility: Reversibility = "reversible"
    asked_at: datetime
    deadline: datetime | None
    ended_at: datetime | None = None
    ended: End = "pending"
    by: str = ""
    via: str = ""  # how it was answered
    first_at: datetime | None = None  # when the first message arrived that asked for an answer


class SentMessage(msgspec.Struct, kw_only=True):
    """A message that was due, and what became of it."""

    due: Due
    state: DeliveryState = "open"
    ended_at: datetime | None = None


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
        self.messages: dict[str, SentMessage] = {}  # by delivery
        for event in record.events:
            self._take(event)
        for arrival in record.arrivals:
            for ref in asked_in(arrival):
                request = self.requests.get(ref)
                if request is not None and not ended_before(request, arrival):
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

    def was_notified(self, person: str, request: AskedRequest) -> bool:
        """Return True if a person got a message about a request before it was answered."""
        return any(
            reading.person == person and reading.thing == request.id
            for reading in self.readings
            if request.ended_at is None or reading.arrival.at <= request.ended_at
        )

    def may_wake(self, person: str, ref: str) -> bool:
        """Return True if `wake_for` of a person names the action of a request."""
        wanted, request = self.record.wake_for.get(person, ()), self.requests.get(ref)
        if request is None or request.urgency != "high":
            return False
        lasting = request.reversibility == "irreversible" and "irreversible" in wanted
        return lasting or "all" in wanted or request.type in wanted

    def given_up(self) -> list[SentMessage]:
        """Return the messages that failed for good, or are open for too long."""
        end = self.record.times.end
        return [
            sent
            for sent in self.messages.values()
            if sent.state in _GIVEN_UP
            or (sent.state == "open" and sent.due.at + NOTIFIED_WITHIN < end)
        ]

    def lost(self) -> list[str]:
        """Return each request, alert and summary that was sent, but that nobody got."""
        got = {ref for arrival in self.record.arrivals for ref in refs(arrival)}
        wanted = (item.ref for sent in self.given_up() for item in sent.due.items)
        return [ref for ref in dict.fromkeys(wanted) if ref not in got]

    def _take(self, event: Event) -> None:
        match event:
            case Decided(asks=asks) if asks is not None:
                self.request_of[event.agent, event.id] = asks.request_id
                if not asks.joins:
                    request = AskedRequest(
                        id=asks.request_id,
                        agent=event.agent,
                        type=event.type,
                        action=_action(event),
                        urgency=asks.urgency,
                        reversibility=event.reversibility,
                        asked_at=event.at,
                        deadline=asks.deadline,
                    )
                    self.requests[request.id] = request
            case Paused(source="anomaly"):
                id_ = request_id(event.agent, UNPAUSE, event.seq)
                self.requests[id_] = AskedRequest(
                    id=id_,
                    agent=event.agent,
                    type=UNPAUSE,
                    action=f"{UNPAUSE}: {event.reason}",
                    urgency="normal",
                    asked_at=event.at,
                    deadline=None,
                )
            case Due():
                self.messages[event.delivery] = SentMessage(due=event)
            case Told() | NotTold():
                sent = self.messages[event.delivery]
                sent.state, sent.ended_at = event.state, event.at
            case _:
                self._take_end(event)
        alert = alert_of(event)
        if alert is not None:
            self.alerts[f"note_{event.seq}"] = alert.key, alert.urgency == "high"

    def _take_end(self, event: Event) -> None:
        match event:
            case Answered():
                self._ended(event.request_id, event.at, event.answer, event.by, event.via)
            case Cancelled():
                self._ended(event.request_id, event.at, "cancelled", event.by)
            case Superseded():
                self._ended(event.request_id, event.at, "superseded", event.agent)
            case Expired():
                for id_ in event.request_ids:
                    self._ended(id_, event.at, "expired")

    def _ended(self, id_: str, at: datetime, how: End, by: str = "", via: str = "") -> None:
        request = self.requests.get(id_)
        if request is not None and request.ended_at is None:
            request.ended_at, request.ended, request.by, request.via = at, how, by, via

    def _readings(self) -> Iterator[Reading]:
        read: dict[tuple[str, str], datetime] = {}
        for arrival in self.record.arrivals:
            for person in self.record.persons(arrival.recipient, arrival.channel):
                for ref in refs(arrival):
                    thing = self.alerts[ref][0] if ref in self.alerts else ref
                    before = read.get((person, thing))
                    since = None if before is None else arrival.at - before
                    yield Reading(person, arrival, thing, self.is_urgent(ref), since)
                    read[person, thing] = arrival.at


def refs(arrival: Arrival) -> list[str]:
    """Return every request and note that a message shows."""
    return [ref for entry in arrival.entries for ref in entry]


def asked_in(arrival: Arrival) -> list[str]:
    """Return the requests that a message asks to answer."""
    told = {mention.ref for mention in arrival.mentions if mention.kind == "expired"}
    return [ref for ref in refs(arrival) if ref not in told]


def ended_before(request: AskedRequest, arrival: Arrival) -> bool:
    """Return True if a request had ended when a message was sent."""
    return request.ended_at is not None and request.ended_at < arrival.began


def _action(event: Decided) -> str:
    """Return an action in one line: its type with its text, paths or target."""
    asked = event.proposal
    label = asked.target.label if asked.target else ""
    said = asked.text or ", ".join(asked.paths) or label
    return f"{event.type}: {said}" if said else event.type
