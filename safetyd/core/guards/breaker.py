"""Circuit breakers: one per dependency or model and, if needed, one per agent or task.

    closed --calls failed--> open --open_s--> half_open --probes succeeded--> closed
                              ^                   |
                              +---a probe failed--+
                                  or timed out

A call is the first outcome of an allowed proposal. A breaker changes state, and forgets its calls,
when it observes `BreakerMoved`. While it is not closed, only the outcomes of its probes count.

Agents with keys share one breaker and anonymous agents another, so failures of invented names do
not affect agents with keys.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, later, on
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.events.decision_events import Decided, Proposed, Settled
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.guards.circuit import BreakerConfig, Call, Calls, Move, State, Tripped
from safetyd.core.guards.known_words import MAX_COMMON
from safetyd.core.messages.verdict import ALLOW, ALLOWED, Severity, Verdict, all_of, seconds

MAX_BREAKERS: Final = 2 * MAX_COMMON  # enough for one per dependency and one per model
MAX_PER_TICK: Final = 64

Name = tuple[str, str | None]  # the name of a breaker, and its agent if it is for one agent only


class BreakerState(msgspec.Struct):
    """All breakers, by `breaker_key`."""

    tripped: dict[str, Tripped] = {}  # longest open first
    closed: dict[str, Calls] = {}  # longest unused first


class BreakerStatus(msgspec.Struct, frozen=True):
    """The current state of one breaker."""

    breaker: str
    state: State
    agent: str | None = None
    reason: str = ""
    open_t: float | None = None
    calls: int = 0
    failures: int = 0
    probes_out: int = 0
    keyless: bool = False
    probes_started: int = 0  # since it last opened
    probes_succeeded: int = 0

    @property
    def key(self) -> str:
        return breaker_key(self.agent, self.breaker, keyless=self.keyless)


class BreakerGuard(Guard):
    """Block calls to failing dependencies and models. Store at most `MAX_BREAKERS` breakers.

    Beyond that, forget breakers of anonymous agents first. Then forget the least recently used
    closed breaker, then breakers of single agents, then shared ones.
    """

    name = "breaker"
    _state: BreakerState

    def __init__(self, config: BreakerConfig) -> None:
        self._config = config
        self._state = BreakerState()
        self.hears = hearing(
            on(Decided, self._allowed),
            later(self._allowed),
            on(Settled, self._settled),
            on(BreakerMoved, self._moved),
            on(Ticked, self._due),
        )

    @property
    def breakers(self) -> tuple[BreakerStatus, ...]:
        """Return all breakers. Those that are not closed come first."""
        closed = tuple(_closed_status(*known) for known in self._state.closed.items())
        return self.tripped + closed

    @property
    def tripped(self) -> tuple[BreakerStatus, ...]:
        """Return the breakers that are not closed, longest open first."""
        return tuple(_tripped_status(known) for known in self._state.tripped.values())

    def calls(self, key: str) -> Sequence[Call]:
        """Return the recorded calls of a closed breaker, oldest first."""
        known = self._state.closed.get(key)
        return known.calls if known else ()

    def counted(self, event: Settled) -> Iterator[tuple[str, Sequence[Call]]]:
        """Yield the closed breakers that an outcome counts for, with their calls."""
        for name, agent in self._names(event.agent, event.dependency or event.model, event.task):
            key = breaker_key(agent, name, keyless=event.keyless)
            if calls := self.calls(key):
                yield key, calls

    def states(self) -> Iterator[tuple[str, State]]:
        """Yield name and state of every breaker. Names may repeat."""
        for tripped in self._state.tripped.values():
            yield tripped.breaker, "half_open" if tripped.half_open else "open"
        for key in self._state.closed:
            yield key.partition(" ")[2], "closed"

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        if not self._state.tripped:
            return ALLOWED
        agent, t = proposed.agent, proposed.t
        waits = [
            (wait_s, tripped)
            for tripped in self._met(proposed)
            if (wait_s := tripped.wait_s(self._config, t, agent))
        ]
        if not waits:
            return ALLOWED
        remedy = all_of(tripped.remedy(self._config, t, agent) for _, tripped in waits)
        return _blocked(*max(waits, key=lambda wait: wait[0]), remedy)

    def now(self, decided: Decided, moment: Moment) -> str:
        names = tuple(self._names_of(decided))
        tripped = [self._tripped_now(one, decided.agent, moment.t) for one in self._met(decided)]
        closed = [
            f"{name} closed, {calls.recent(self._config, moment.t)}"
            for name, agent in names
            if (calls := self._state.closed.get(breaker_key(agent, name, keyless=decided.keyless)))
        ]
        if not names:
            return "no dependency or model named"
        return "; ".join(tripped + closed) or f"{names[0][0]} closed, no calls recorded"

    def _tripped_now(self, tripped: Tripped, agent: str, t: float) -> str:
        state = "half open" if tripped.half_open else f"open, {tripped.reason}"
        wait_s = tripped.wait_s(self._config, t, agent)
        wait = f"{seconds(wait_s)} left" if wait_s else "a probe may begin"
        return f"{tripped.breaker} {state}, {wait}"

    def _met(self, event: Proposed | Decided) -> Iterator[Tripped]:
        """Yield the breakers that concern a proposal and are not closed."""
        for breaker, agent in self._names_of(event):
            if tripped := self._state.tripped.get(
                breaker_key(agent, breaker, keyless=event.keyless)
            ):
                yield tripped

    def _names_of(self, event: Proposed | Decided) -> Iterator[Name]:
        proposal = event.proposal
        return self._names(event.agent, proposal.dependency or proposal.model, proposal.task)

    def _names(self, agent: str, dependency: str | None, task: str | None) -> Iterator[Name]:
        if dependency:
            yield dependency, None
            yield f"{dependency}/{agent}", agent
        if task and self._config.per_task:
            yield f"{agent}:{task}", agent

    def _allowed(self, event: Decided) -> Sequence[Event]:
        """Count an allowed call as a probe. The first after `open_s` half-opens the breaker."""
        if not self._state.tripped or event.decision is not ALLOW:
            return ()
        moves: list[Event] = []
        for tripped in self._met(event):
            if not tripped.wait_s(self._config, event.t, event.agent):
                tripped.start(_probe(event.agent, event.id), event.t)
                if move := tripped.due(self._config, event.t):
                    moves.append(_move(event, tripped, move))
        return moves

    def _settled(self, event: Settled) -> Sequence[Event]:
        # An outcome without a proposal does not count, so that reports alone cannot open a breaker.
        if event.id is None:
            return ()
        return self._probed(event, event.id) + self._called(event)

    def _probed(self, event: Settled, id_: str) -> list[Event]:
        if not self._state.tripped:
            return []
        probe = _probe(event.agent, id_)
        return [
            _move(event, tripped, move)
            for tripped in self._state.tripped.values()
            if probe in tripped.out
            if (move := tripped.settle(self._config, probe, event.t, ok=event.ok))
        ]

    def _called(self, event: Settled) -> list[Event]:
        moves: list[Event] = []
        names = tuple(self._names(event.agent, event.dependency or event.model, None))
        if names and not any(self._is_tripped(event, *name) for name in names):
            moves += self._counted(event, names[0][0], None)
        for name, agent in self._names(event.agent, None, event.task):
            if not self._is_tripped(event, name, agent):
                moves += self._counted(event, name, agent)
        return moves

    def _is_tripped(self, event: Settled, name: str, agent: str | None) -> bool:
        return breaker_key(agent, name, keyless=event.keyless) in self._state.tripped

    def _counted(self, event: Settled, name: str, agent: str | None) -> Sequence[Event]:
        key = breaker_key(agent, name, keyless=event.keyless)
        calls = self._state.closed.pop(key, None) or Calls(keyless=event.keyless)
        calls.add(Call(event.t, event.agent, event.ok))
        self._state.closed[key] = calls
        self._make_room()
        reason = "" if event.ok else calls.breach(self._config, event.t)
        if not reason:
            return ()
        alone = None if agent else calls.lone_failer(self._config, event.t)
        tripped = Tripped(f"{name}/{alone}" if alone else name, agent or alone, reason, event.t)
        tripped.keyless = event.keyless
        return (_move(event, tripped, Move("open", reason)),)

    def _moved(self, event: BreakerMoved) -> None:
        key = breaker_key(event.agent, event.breaker, keyless=event.keyless)
        if event.state == "half_open":
            if key in self._state.tripped:
                self._state.tripped[key].half_open = True
            return
        self._state.tripped.pop(key, None)
        if event.state == "open":
            self._forget_calls(key, event)
            tripped = Tripped(event.breaker, event.agent, event.reason, event.t)
            tripped.keyless, tripped.failed = event.keyless, event.failed
            self._state.tripped[key] = tripped
            self._make_room()

    def _forget_calls(self, key: str, event: BreakerMoved) -> None:
        self._state.closed.pop(key, None)
        if event.agent is not None:
            name = event.breaker.removesuffix(f"/{event.agent}")
            everybodys = breaker_key(None, name, keyless=event.keyless)
            if calls := self._state.closed.get(everybodys):
                calls.drop(event.agent)

    def _make_room(self) -> None:
        closed, tripped = self._state.closed, self._state.tripped
        while len(closed) + len(tripped) > MAX_BREAKERS:
            if (key := _expendable(closed, tripped)) in closed:
                del closed[key]
            else:
                del tripped[key]

    def _due(self, tick: Ticked) -> Sequence[Event]:
        moves: list[Event] = []
        for tripped in self._state.tripped.values():
            if len(moves) >= MAX_PER_TICK:
                break
            if move := tripped.due(self._config, tick.t):
                moves.append(_move(tick, tripped, move))
        return moves


def breaker_key(agent: str | None, name: str, *, keyless: bool) -> str:
    """Return the unique key of a breaker. Agent names contain no spaces."""
    return f"{agent or (ANONYMOUS if keyless else '')} {name}"


def _probe(agent: str, id_: str) -> str:
    return f"{agent} {id_}"


def _expendable(closed: dict[str, Calls], tripped: dict[str, Tripped]) -> str:
    """Return the breaker to forget first."""
    candidates = (
        (key for key, one in closed.items() if one.keyless),
        (key for key, one in tripped.items() if one.keyless and one.agent),
        (key for key, one in tripped.items() if one.keyless),
        closed,
        (key for key, one in tripped.items() if one.agent),
        tripped,
    )
    return next(key for keys in candidates for key in keys)


def _move(cause: Event, tripped: Tripped, move: Move) -> BreakerMoved:
    return BreakerMoved(
        at=cause.at,
        t=cause.t,
        breaker=tripped.breaker,
        state=move.state,
        reason=move.reason,
        agent=tripped.agent,
        keyless=tripped.keyless,
        failed=move.failed,
    )


def _blocked(wait_s: float, tripped: Tripped, remedy: str) -> Verdict:
    state = "probing" if tripped.half_open else "open"
    about = "is half open and being tested" if tripped.half_open else f"is open: {tripped.reason}"
    return Verdict(
        "breaker",
        Severity.BLOCK,
        f"breaker.{state}",
        f"Circuit breaker {tripped.breaker} {about}. Try again in {math.ceil(wait_s)} s",
        cause="breaker_open",
        retry_after_s=wait_s,
        limit_id=f"breaker:{tripped.breaker}",
        remedy=remedy,
    )


def _tripped_status(tripped: Tripped) -> BreakerStatus:
    return BreakerStatus(
        tripped.breaker,
        "half_open" if tripped.half_open else "open",
        tripped.agent,
        tripped.reason,
        tripped.open_t,
        probes_out=len(tripped.out),
        keyless=tripped.keyless,
        probes_started=tripped.started,
        probes_succeeded=tripped.succeeded,
    )


def _closed_status(key: str, calls: Calls) -> BreakerStatus:
    agent, _, breaker = key.partition(" ")
    return BreakerStatus(
        breaker,
        "closed",
        None if agent in {"", ANONYMOUS} else agent,
        calls=len(calls.calls),
        failures=sum(not call.ok for call in calls.calls),
        keyless=calls.keyless,
    )
