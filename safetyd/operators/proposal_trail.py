"""Collects the audit lines about one proposal, and the steps that they describe.

A line may refer to the proposal's id, to its request, or to a notification about the request.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from safetyd.core.events.decision_events import Decided, Reported, Withheld
from safetyd.core.events.event import Event
from safetyd.core.events.history_events import CommitFailed, Committed
from safetyd.core.events.notification_events import Due, NotTold, Told
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Deferred,
    DenialLifted,
    Expired,
    GrantUsed,
    Lapsed,
    Released,
    Superseded,
)
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.messages.verdict import strictest
from safetyd.journal.audit_reading import PlacedLine, hash_on, read_event
from safetyd.operators.contract.decision_contract import AuditPlace, Step, StepKind

EVENTS_SHARE: Final = 4  # later events may use a quarter of the space of decisions
STEP_CHARS: Final = 300  # maximum length of a text in a step


class Trail:
    """Selects the lines about one proposal from all lines, oldest first.

    The proposal is named by its id or by its request's id. If there are too many decisions,
    repeated ones are dropped first, oldest first.
    """

    def __init__(self, name: str, max_bytes: int) -> None:
        self._name = name
        self._room = max_bytes
        self._events_room = max_bytes // EVENTS_SHARE
        self._looked_for = [msgspec.json.encode(name)]
        self._requests: set[str] = set()
        self._uses: set[tuple[str, str]] = set()  # other proposals that used its approval
        self._messages: dict[str, Due] = {}
        self._sizes: list[int] = []
        self.id = name  # the id of the proposal
        self.decided: list[Decided] = []
        self.places: dict[int, AuditPlace] = {}  # positions of decisions by number
        self.events: list[Event] = []

    def follow(self, lines: Iterable[PlacedLine]) -> "Trail":
        for placed in lines:
            if any(name in placed.line for name in self._looked_for):
                event = read_event(placed.line)
                if isinstance(event, Decided):
                    self._judged(event, placed)
                elif isinstance(event, Due):
                    self._due(event)
                elif event is not None and self._is_part(event):
                    self._add(event, placed)
        return self

    def steps(self) -> tuple[Step, ...]:
        """Return the steps in order."""
        asked = set[str]()
        steps = [step for event in self.decided for step in _of_decision(event, asked)]
        steps += (step for event in self.events if (step := self._step(event)) is not None)
        return tuple(sorted(steps, key=lambda step: step.seq))

    def _judged(self, event: Decided, placed: PlacedLine) -> None:
        asks, uses = event.asks, event.uses
        if asks is not None and asks.request_id == self._name and not asks.joins:
            self.id = event.id
            self._look_for(event.id)
        if event.id != self.id:
            if uses is not None and uses.request_id in self._requests:
                self._add(event, placed)
                self._uses.add((event.agent, event.id))
                self._look_for(event.id)
            return
        if asks is not None and asks.request_id not in self._requests:
            self._requests.add(asks.request_id)
            self._look_for(asks.request_id)
        self._keep(event, placed)

    def _keep(self, event: Decided, placed: PlacedLine) -> None:
        self.decided.append(event)
        self._sizes.append(len(placed.line))
        self.places[event.seq] = AuditPlace(
            file=placed.file,
            line=placed.number,
            hash=hash_on(placed.line),
            previous=hash_on(placed.before),
        )
        self._room -= len(placed.line)
        while self._room < 0 and len(self.decided) > 1:
            repeat = next((n for n, kept in enumerate(self.decided) if not kept.first), 0)
            del self.places[self.decided.pop(repeat).seq]
            self._room += self._sizes.pop(repeat)

    def _add(self, event: Event, placed: PlacedLine) -> None:
        self._events_room -= len(placed.line)
        if self._events_room >= 0:
            self.events.append(event)

    def _look_for(self, name: str) -> None:
        self._looked_for.append(msgspec.json.encode(name))

    def _due(self, event: Due) -> None:
        """Remember a notification about the request; other events say whether it was sent."""
        if any(item.ref in self._requests for item in event.items):
            self._messages[event.delivery] = event
            self._look_for(event.delivery)

    def _is_part(self, event: Event) -> bool:
        part = False
        match event:
            case Reported(telemetry=Outcome(id=named)):
                part = self._is_of(event.agent, named)
            case Withheld() | GrantUsed() | Committed() | CommitFailed():
                part = self._is_of(event.agent, event.id)
            case Told() | NotTold():
                part = event.delivery in self._messages
            case Expired() | Lapsed():
                part = not self._requests.isdisjoint(event.request_ids)
            case Answered() | Released() | Cancelled() | Deferred() | Superseded() | Claimed():
                part = event.request_id in self._requests
            case DenialLifted():
                part = event.request_id in self._requests
        return part

    def _is_of(self, agent: str | None, id_: str | None) -> bool:
        return id_ == self.id or (agent, id_) in self._uses

    def _step(self, event: Event) -> Step | None:
        if isinstance(event, Told | NotTold):
            return _of_message(event, self._messages[event.delivery])
        if isinstance(event, Expired):
            closed = zip(event.request_ids, event.reasons, strict=False)
            why = next((reason for id_, reason in closed if id_ in self._requests), "")
            return _step(event, "expired", text=why)
        return _of_use(event) or _of_request(event)


def _of_decision(event: Decided, asked: set[str]) -> Iterator[Step]:
    asks, uses = event.asks, event.uses
    if event.first:
        at = event.proposal.at or event.at
        yield Step(seq=event.seq, at=at, what="proposed", by=event.agent)
    rule = strictest(event.verdicts).rule
    yield Step(seq=event.seq, at=event.at, what="decided", text=event.decision, ref=rule)
    if uses is not None:
        yield _step(event, "used", by=uses.by, ref=uses.request_id, text=uses.words)
    if asks is not None and asks.request_id not in asked:
        asked.add(asks.request_id)
        yield _step(event, "asked", ref=asks.request_id, text=asks.urgency)


def _of_message(event: Told | NotTold, due: Due) -> Step:
    if isinstance(event, Told):
        return _step(event, "told", by=due.recipient, via=event.channel, text=event.state)
    why = event.error or event.state
    return _step(event, "not_told", by=due.recipient, via=event.channel, text=why)


def _of_use(event: Event) -> Step | None:
    """Return the step for the use of an approval or grant, an outcome or a commit."""
    match event:
        case Decided():
            return _step(event, "used", by=event.agent, ref=event.id)
        case GrantUsed():
            return _step(event, "granted", ref=event.grant)
        case Withheld():
            return _step(event, "withheld", text=event.why)
        case Reported(telemetry=Outcome() as outcome):
            went = "done" if outcome.ok else ": ".join(filter(None, ("failed", outcome.error)))
            return _step(event, "outcome", by=event.agent, text=went)
    return _of_commit(event)


def _of_commit(event: Event) -> Step | None:
    """Return the step for the commit of a change, or None if the action changed nothing."""
    match event:
        case Committed(commit=str(commit)) if commit:
            files = "1 file" if event.files == 1 else f"{event.files} files"
            lines = f"{files} {event.why} it, +{event.added} -{event.removed}"
            what: StepKind = "committed_before" if event.why == "before" else "committed"
            return _step(event, what, via=event.project, ref=commit, text=lines)
        case Committed(within=str(commit)) if commit:
            lines = "possibly part of a commit with other changes"
            return _step(event, "committed", via=event.project, ref=commit, text=lines)
        case CommitFailed():
            return _step(event, "not_committed", via=event.project, text=event.error)
    return None


def _of_request(event: Event) -> Step | None:
    """Return the step for an event of the request."""
    step: Step | None = None
    match event:
        case Answered():
            said = ": ".join(filter(None, (event.answer, event.words)))
            step = _step(event, "answered", by=event.by, via=event.via, text=said)
        case Released(verdicts=(_, *_)):
            step = _step(event, "held_back", text=strictest(event.verdicts).rule)
        case Deferred():
            step = _step(event, "deferred", by=event.by, text=event.until.isoformat())
        case DenialLifted():
            step = _step(event, "lifted", by=event.by)
        case Cancelled():
            step = _step(event, "cancelled", by=event.by, via=event.via, text=event.reason)
        case Superseded():
            step = _step(event, "superseded", by=event.agent, ref=event.by_id)
        case Claimed():
            step = _step(event, "claimed", by=event.claimant)
        case Lapsed():
            step = _step(event, "lapsed")
    return step


def _step(event: Event, what: StepKind, **said: str) -> Step:
    cut = {name: words[:STEP_CHARS] for name, words in said.items()}
    return Step(seq=event.seq, at=event.at, what=what, **cut)
