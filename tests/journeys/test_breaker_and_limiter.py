"""Breaker and rate limit under a flood of calls to a dependency that fails and recovers."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Final, NamedTuple

import msgspec
import pytest

from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity
from tests.bus.peer import Peer
from tests.conftest import StartDaemon
from tests.journeys.agent_wire import AgentWire
from tests.journeys.audit_record import assert_verifies, events

pytestmark = pytest.mark.journey

PER_SECOND: Final = 100
BURST: Final = 50
OPEN_S: Final = 0.3
PROBES: Final = 3
PROBE_INTERVAL_S: Final = 0.1

CONFIG: Final = f"""
[rate]
attempts_per_second = 0
[rate.production.global]
tokens_per_minute = 1_000_000
burst = 1_000_000
[rate.production.agent]
tokens_per_minute = {60 * PER_SECOND}
burst = {BURST}
[breaker]
open_s = {OPEN_S}
probe_count = {PROBES}
probe_interval_s = {PROBE_INTERVAL_S}
"""

IN_FLIGHT: Final = 16
CALM_S: Final = 2 / PER_SECOND
PATIENCE_S: Final = 60.0
ROUNDING: Final = 1e-6
CALL: Final = b'{"type":"web_fetch","dependency":"api","text":"page %d","id":"%b"}'

_read = msgspec.json.Decoder(Decision).decode


class Flood:
    """An agent that keeps some calls in flight and reports each outcome at once."""

    def __init__(self, wire: AgentWire) -> None:
        self._wire = wire
        self._numbers = count(1)
        self._under_way = 0
        self.works = True  # the dependency
        self.answers: Counter[str] = Counter()
        wire.subscribe("_INBOX.flood.*")

    def until(self, enough: Callable[[], bool]) -> Iterator[None]:
        """Continue until the condition holds, pausing after every few answers."""
        ends = time.monotonic() + PATIENCE_S
        while not enough():
            assert time.monotonic() < ends, f"not enough within {PATIENCE_S} s: {self.answers}"
            while self._under_way < IN_FLIGHT:
                self._call(next(self._numbers))
            for message in self._wire.hear(PATIENCE_S):
                self._answered(_read(message.payload))
            yield

    def _call(self, number: int) -> None:
        id_ = f"f-{number}"
        self._under_way += 1
        self._wire.publish(
            "safety.v1.propose.flood", CALL % (number, id_.encode()), f"_INBOX.flood.{id_}"
        )

    def _answered(self, decision: Decision) -> None:
        self._under_way -= 1
        self.answers["allowed" if decision.allowed else decision.cause] += 1
        if decision.allowed:
            outcome = {"type": "outcome", "id": decision.id, "ok": self.works, "dependency": "api"}
            self._wire.publish("safety.v1.telemetry.flood", msgspec.json.encode(outcome), "")


class Calm:
    """An agent that proposes now and then and must not be affected."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._again_t = 0.0
        self.asked = 0
        self.longest_s = 0.0

    def ask_if_due(self) -> None:
        begun = time.monotonic()
        if begun < self._again_t:
            return
        self._again_t = begun + CALM_S
        payload = b'{"type":"db_read","dependency":"db","text":"select %d"}' % self.asked
        answer = self._peer.ask("safety.v1.propose.calm", payload).fields
        assert answer["decision"] == "allow", answer
        self.asked += 1
        self.longest_s = max(self.longest_s, time.monotonic() - begun)


def fail_and_recover(flood: Flood, calm: Calm) -> None:
    """Let the dependency work, fail for at least two probes, and work again."""
    answers = flood.answers
    _together(flood, calm, lambda: answers.total() >= 1000)
    flood.works = False
    _together(flood, calm, lambda: bool(answers["breaker_open"]))
    tripped_after = answers["allowed"]
    _together(flood, calm, lambda: answers["allowed"] >= tripped_after + 2)
    flood.works = True
    recovered_after = answers["allowed"]
    _together(flood, calm, lambda: answers["allowed"] >= recovered_after + 2 * BURST)


def _together(flood: Flood, calm: Calm, enough: Callable[[], bool]) -> None:
    for _ in flood.until(enough):
        calm.ask_if_due()


def trials(journal: list[Event]) -> list[list[float]]:
    """Return, for each opening of the breaker, the delays of the calls allowed meanwhile."""
    found: list[list[float]] = []
    opened_t: float | None = None
    for event in journal:
        match event:
            case BreakerMoved(state="open", t=t):
                opened_t = t
                found.append([])
            case BreakerMoved(state="closed"):
                opened_t = None
            case Decided(t=t) if opened_t is not None and allowed(event):
                found[-1].append(t - opened_t)
    return found


class Load(NamedTuple):
    """The result of a flood."""

    decisions_per_s: int
    seconds: float
    allowed: int
    blocked_by_rate: int
    blocked_by_breaker: int
    trips: int
    probes: int
    others_asked: int
    others_waited_ms: float


@pytest.mark.req("S1.41")
def test_a_flood_is_limited_and_a_failing_dependency_is_only_probed(
    start_daemon: StartDaemon, record_property: Callable[[str, object], None]
) -> None:
    daemon = start_daemon(CONFIG)
    with AgentWire(daemon.endpoint.bus) as wire, Peer(daemon.endpoint.bus) as peer:
        flood, calm = Flood(wire), Calm(peer)
        begun = time.monotonic()
        fail_and_recover(flood, calm)
        took_s = time.monotonic() - begun
    journal = events(daemon.data_dir)
    probes = trials(journal)

    load = measured(flood, calm, probes, took_s)
    print(load)
    for name, value in load._asdict().items():
        record_property(name, value)
    assert set(flood.answers) == {"allowed", "rate_limit", "breaker_open"}
    assert calm.asked >= 20
    assert_rate_held(journal)
    assert_only_probed(journal, probes)
    assert_verifies(daemon)


def measured(flood: Flood, calm: Calm, probes: list[list[float]], took_s: float) -> Load:
    answers = flood.answers
    return Load(
        decisions_per_s=round((answers.total() + calm.asked) / took_s),
        seconds=round(took_s, 2),
        allowed=answers["allowed"],
        blocked_by_rate=answers["rate_limit"],
        blocked_by_breaker=answers["breaker_open"],
        trips=len(probes),
        probes=sum(map(len, probes)),
        others_asked=calm.asked,
        others_waited_ms=round(calm.longest_s * 1000, 1),
    )


def assert_rate_held(journal: list[Event]) -> None:
    """Assert that no time window has more allows than its tokens."""
    times = [event.t for event in journal if isinstance(event, Decided) and allowed(event)]
    excess = max(
        (later - earlier + 1) - (BURST + PER_SECOND * (times[later] - times[earlier]))
        for earlier in range(len(times))
        for later in range(earlier, len(times))
    )

    assert excess <= ROUNDING


def assert_only_probed(journal: list[Event], probes: list[list[float]]) -> None:
    """Assert that the breaker opened, reopened while probes failed, and closed at last."""
    moves = [event.state for event in journal if isinstance(event, BreakerMoved)]

    assert (moves[0], moves[-1]) == ("open", "closed")
    assert len(probes) >= 2
    for trial in probes:
        assert 1 <= len(trial) <= PROBES
        assert trial[0] >= OPEN_S - ROUNDING
        assert all(after - one >= PROBE_INTERVAL_S - ROUNDING for one, after in pairwise(trial))


def allowed(event: Decided) -> bool:
    return event.agent == "flood" and event.decision is Severity.ALLOW
