"""Replays recorded events through the engine under other rules.

The engine handles causes again: proposals, telemetry, and actions of operators and the daemon. It
computes the consequences itself. Recorded consequences are only compared. They also show when ticks
happened.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, cast

import msgspec

from safetyd.core.approvals.assurance import Given, NotTaken, taken
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.evaluation import proposed_again
from safetyd.core.events.decision_events import Decided, Reported
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.events.guard_events import Paused, Resumed, SafeModeExited, Stopped, Unpaused
from safetyd.core.events.notification_events import Due, LinkRevoked, NotTold, Told, Unparked
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Deferred,
    DenialLifted,
    Granted,
    Superseded,
)
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.messages.telemetry import Outcome, Unreported
from safetyd.core.policy import Configured, Policy
from safetyd.core.simulation.comparison import Comparison
from safetyd.core.simulation.passing_time import AHEAD_S, PassingTime
from safetyd.core.simulation.past_matches import PastAnswer, PastAnswers, PastDeliveries
from safetyd.core.simulation.recorded_lines import BY_TIME, COMPARED, Heard, Recorded, follows
from safetyd.core.simulation.report import SimulationReport
from safetyd.core.text.folding import is_masked

Instead = Callable[[Event], Event | None]
# The event's time, the event, and whether it is a consequence.
Coming = tuple[float, Recorded, bool]
TOLD_AFTER_S: Final = 1.0  # seconds until a channel accepts a message that is not in the record


def under(policy: Policy, engine: Engine) -> Engine:
    """Return a copy of an engine that uses another policy."""
    return Engine.restore(msgspec.structs.replace(engine.save()(), policy=policy))


class Simulation:
    """Replays a record event by event. It changes the given engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._time = PassingTime()
        self._coming: deque[Coming] = deque()
        self._answers = PastAnswers(engine)
        self._deliveries = PastDeliveries()
        self._comparison = Comparison(engine.policy.zone)
        self._undone: set[tuple[str, str]] = set()  # actions that were allowed only in the record
        self._put_t = -1.0  # the time of the last replayed event or recorded tick
        self._owed = 0  # how many more consequences of that event the record may contain
        self._ahead = False  # a superseded request was recorded, and its new decision follows
        self._epoch = engine.stop.epoch  # the last epoch in the record
        self._happens: Mapping[type[Event], Instead] = dict(
            (
                _of(Configured, self._configured),
                _of(Stopped, self._stopped),
                _of(Resumed, self._stopped),
                _of(Unpaused, self._unpaused),
                _of(SafeModeExited, self._left_safe_mode),
                _of(Reported, self._reported),
                _of(Answered, self._answered),
                _of(Cancelled, self._ended),
                _of(Deferred, self._ended),
                _of(DenialLifted, self._lifted),
                _of(Claimed, self._claimed),
                _of(Granted, self._granted),
                _of(Told, self._told),
                _of(NotTold, self._told),
                _of(LinkRevoked, self._link_revoked),
                _of(Unparked, self._unparked),
            )
        )

    @classmethod
    def after(cls, policy: Policy, past: Iterable[Event]) -> "Simulation":
        """Return a simulation that starts after `past`. Decisions in `past` are not made again."""
        engine = Engine(policy)
        for event in past:
            engine.seq = event.seq - 1  # some events may be missing
            engine.replay((event,))
        return cls(under(policy, engine))

    def put(self, event: Recorded) -> None:
        """Queue the next event of the record. It is replayed when later events are known."""
        coming, time, kind, t = self._coming, self._time, type(event), event.t
        followed = follows(event)
        coming.append((t, event, followed))
        if followed and kind is not Superseded:
            time.followed(t, by_time=kind in BY_TIME)
        time.coming_t = t
        known_t = t - AHEAD_S
        while coming[0][0] <= known_t:
            self._go_on(coming.popleft())

    @property
    def decisions(self) -> int:
        """The number of decisions made again so far."""
        return self._comparison.report.decisions

    def report(self) -> SimulationReport:
        """Replay the remaining events and return the report."""
        while self._coming:
            self._go_on(self._coming.popleft())
        report, time = self._comparison.finished(), self._time
        report.events = time.events
        if time.first is not None and time.last is not None:
            report.first_at, report.last_at = time.first.at, time.last.at
        return report

    def _go_on(self, row: Coming) -> None:
        time, (t, event, followed) = self._time, row
        if t >= time.next_t:
            while (due := time.due(event)) is not None:
                self._happened(due)
        time.reached(event)
        if type(event) is Decided:
            self._decided(event)
        elif followed:
            self._followed(event)
        else:
            self._caused(cast("Event", event))

    def _decided(self, was: Decided) -> None:
        self._begin(was.t)
        if is_masked(was.proposal.text):
            self._take_over(was)
            return
        proposed = proposed_again(was, was.at, was.t)
        would, events = self._engine.decide(proposed)
        made = None
        for number, event in enumerate(events, 1):
            if type(event) is Decided:
                made, self._owed = event, len(events) - number
        if len(events) > 1:
            self._made(events)
        if self._comparison.decided(was, would, made):
            self._undone.add((was.agent, was.id))
        if was.asks is not None or (made is not None and made.asks is not None):
            self._asked(was, made)

    def _take_over(self, was: Decided) -> None:
        """Use the recorded decision of a proposal whose text is masked."""
        self._comparison.report.unread += 1
        if not was.first:
            return
        engine, made = self._engine, msgspec.structs.replace(was)
        events = engine.handle(made)
        for used in engine.grants.uses(made):
            events += engine.handle(used)
        engine.recall.remember(made)
        self._owed = len(events) - 1
        self._made(events)
        self._answers.was_asked(was, made)

    def _asked(self, was: Decided, made: Decided | None) -> None:
        """Find an answer to a request that is not in the record."""
        self._answers.was_asked(was, made)
        if was.asks is not None or made is None or made.asks is None or made.asks.joins:
            return
        id_, answers = made.asks.request_id, self._comparison.report.answers
        past = self._answers.is_asked(made, id_)
        if past is None:
            answers.missing += 1
        else:
            answers.alike += 1
            self._answer_later(id_, past, made.t + past.took_s)

    def _answer_later(self, id_: str, past: PastAnswer, t: float) -> None:
        """Schedule an answer at time `t`: the one that a similar request got in the record."""

        def again(moment: Moment) -> Event | None:
            request = self._engine.approvals.find(id_)
            return None if request is None else self._taken(request, past.answer, moment)

        self._time.later(t, again)

    def _taken(self, request: Request, past: Answered, moment: Moment) -> Answered | None:
        given = Given(
            answer=past.answer,
            by=past.by,
            via=past.via,
            words=past.words,
            assurance=past.assurance,
            delivery=past.delivery and self._deliveries.find(past.delivery),
            peer=past.peer,
            once=past.once,
        )
        ways = self._engine.approve_via(request)
        answer = taken(request, given, moment, ways, waits=past.waits)
        if isinstance(answer, NotTaken):
            self._comparison.report.answers.not_taken += 1
            return None
        return answer

    def _followed(self, event: Recorded) -> None:
        """Compare a recorded consequence. Insert a tick if no replayed event caused it."""
        if type(event) is Superseded:
            self._begin(event.t)
            self._ahead = True
            return
        if event.t != self._put_t or (self._owed <= 0 and not self._ahead):
            self._begin(event.t)
            events = self._engine.handle(Ticked(at=event.at, t=event.t))
            self._owed = len(events)
            self._made(events)
        self._owed -= 1
        if type(event) is Due:
            self._deliveries.was_due(event)
        elif isinstance(event, Paused) and event.source == "anomaly":
            self._answers.was_paused(event)
        elif isinstance(event, Stopped):
            self._epoch = max(self._epoch, event.epoch)
        if type(event) in COMPARED:
            self._comparison.followed("was", cast("Event", event))

    def _caused(self, event: Event) -> None:
        self._begin(event.t)
        happens = self._happens.get(type(event))
        put = event if happens is None else happens(event)
        if put is None:
            self._owed = 0
        else:
            events = self._engine.handle(put)
            self._owed = len(events) - 1
            self._made(events)

    def _happened(self, event: Event) -> None:
        """Handle an event that is not in the record: a tick or a scheduled event."""
        if events := self._engine.handle(event):
            self._time.acted(event.t)
            self._made(events)
        if self._deliveries.pending:
            self._send()

    def _begin(self, t: float) -> None:
        """Prepare for the next event of the record."""
        if self._deliveries.pending:
            self._send()
        self._put_t, self._ahead, self._owed = t, False, 0
        self._engine.take_conclusions()  # in a simulation, no agent waits for decisions

    def _made(self, events: Sequence[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind in COMPARED:
                self._comparison.followed("would", event)
                if kind is Due:
                    self._deliveries.made(cast("Due", event))

    def _send(self) -> None:
        """Schedule events that mark messages as accepted if the record does not have them."""
        for due in self._deliveries.unmatched():
            self._time.later(due.t + TOLD_AFTER_S, partial(_accepted, due))

    def _configured(self, event: Configured) -> Event:
        policy = self._engine.policy
        return msgspec.structs.replace(event, policy=policy, digest=self._engine.policy_digest)

    def _stopped(self, event: Stopped | Resumed) -> Event:
        """Return a stop or resume, with a later epoch if the simulation had more stops."""
        ahead = max(0, self._engine.stop.epoch - self._epoch)
        self._epoch = max(self._epoch, event.epoch)
        return msgspec.structs.replace(event, epoch=event.epoch + ahead) if ahead else event

    def _unpaused(self, event: Unpaused) -> Event | None:
        sources = tuple(pause.source for pause in self._engine.guards.pause.pauses(event.agent))
        return msgspec.structs.replace(event, sources=sources) if sources else None

    def _left_safe_mode(self, event: SafeModeExited) -> Event | None:
        kernel = EVERYBODY if event.agent is None else event.agent
        held = self._engine.guards.safe_mode.plan_exit(kernel, event.t, all_=True, force=True)
        return event if held.agents else None

    def _reported(self, event: Reported) -> Event | None:
        """Return the event, or None for the outcome of an action that would not have happened."""
        telemetry = event.telemetry
        if self._undone and isinstance(telemetry, Outcome | Unreported):
            key = event.agent, telemetry.id or ""
            if key in self._undone and self._engine.actions.find(*key) is None:
                return None
        return event

    def _answered(self, event: Answered) -> Event | None:
        if event.answer == "denied":
            self._comparison.denied(event.request_id)
        request, answers = self._answers.find(event.request_id), self._comparison.report.answers
        for id_, past in self._answers.was_answered(event):
            answers.missing -= 1
            if request is None or id_ != request.id:
                answers.alike += 1
                self._answer_later(id_, past, event.t)
        if request is None:
            return None
        answer = self._taken(request, event, Moment(event.at, event.t))
        answers.recorded += answer is not None
        return answer

    def _ended(self, event: Cancelled | Deferred) -> Event | None:
        request = self._answers.find(event.request_id)
        if request is None or not request.pending:
            return None
        return msgspec.structs.replace(event, request_id=request.id)

    def _lifted(self, event: DenialLifted) -> Event | None:
        request = self._answers.find(event.request_id)
        if request is None or request.state != "denied":
            return None
        return msgspec.structs.replace(event, request_id=request.id)

    def _claimed(self, event: Claimed) -> Event | None:
        request = self._answers.find(event.request_id)
        if request is None or request.state != "approved" or request.used not in {"", event.id}:
            return None
        return msgspec.structs.replace(event, request_id=request.id)

    def _granted(self, event: Granted) -> Event:
        request = self._answers.find(event.request_id) if event.request_id else None
        return event if request is None else msgspec.structs.replace(event, request_id=request.id)

    def _told(self, event: Told | NotTold) -> Event | None:
        delivery = self._deliveries.find(event.delivery)
        return msgspec.structs.replace(event, delivery=delivery) if delivery else None

    def _link_revoked(self, event: LinkRevoked) -> Event | None:
        request, delivery = (
            self._answers.find(event.request_id),
            self._deliveries.find(event.delivery),
        )
        if request is None or not delivery:
            return None
        return msgspec.structs.replace(event, delivery=delivery, request_id=request.id)

    def _unparked(self, event: Unparked) -> Event | None:
        found = tuple(filter(None, map(self._deliveries.find, event.deliveries)))
        return msgspec.structs.replace(event, deliveries=found) if found else None


def _of(kind: type[Heard], act: Callable[[Heard], Event | None]) -> tuple[type[Event], Instead]:
    """Pair a kind of event with the function that replaces the event or returns None."""
    return kind, cast("Instead", act)


def _accepted(due: Due, moment: Moment) -> Told:
    return Told(
        at=moment.at, t=moment.t, delivery=due.delivery, channel=due.channel, state="accepted"
    )
