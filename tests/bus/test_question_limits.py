import logging
from collections.abc import AsyncIterator

import anyio
import pytest

from safetyd.bus.flood_gate import MAX_KNOWN
from safetyd.bus.question_limits import (
    BOUNDS,
    BURST,
    BUSY_S,
    LEAST_S,
    MAX_WAITING,
    MAX_WAITING_OF_ALL,
    PER_S,
    PIECE_BYTES,
    SAVED_S,
    SHARE,
    QuestionLimits,
    QuestionRate,
)
from tests.servers import until


class Hands:
    """A clock that a test sets."""

    t = 1000.0

    def __call__(self) -> float:
        return self.t


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def askers(clock: Hands) -> QuestionLimits:
    return QuestionLimits(clock)


def test_cheap_queries_are_all_answered(askers: QuestionLimits, clock: Hands) -> None:
    for _ in range(10_000):
        clock.t += 0.01
        assert askers.admit("wall", 30) == 0.0
        askers.charge("wall", 0.0002)


def test_refused_query_includes_the_time_to_retry(askers: QuestionLimits, clock: Hands) -> None:
    askers.admit("wall", 30)
    askers.charge("wall", SAVED_S + 0.1)

    wait = askers.admit("wall", 30)
    clock.t += wait

    assert wait == pytest.approx((0.1 + 2 * LEAST_S) / SHARE)
    assert askers.admit("wall", 30) == 0.0


def test_queries_of_one_person_do_not_charge_another(askers: QuestionLimits) -> None:
    askers.charge("wall", 10.0)

    assert askers.admit("wall", 30) > 0.0
    assert askers.admit("alice", 30) == 0.0


def test_unused_query_time_is_saved_up_to_a_limit(askers: QuestionLimits, clock: Hands) -> None:
    askers.admit("wall", 30)
    clock.t += 86_400.0

    askers.charge("wall", SAVED_S)

    assert askers.admit("wall", 30) > 0.0


def test_queued_queries_of_one_person_are_limited(askers: QuestionLimits) -> None:
    for _ in range(MAX_WAITING):
        askers.begin("wall")

    assert askers.admit("wall", 30) == BUSY_S
    assert askers.admit("alice", 30) == 0.0
    askers.end("wall")
    assert askers.admit("wall", 30) == 0.0


def test_queued_queries_are_limited_in_total(askers: QuestionLimits) -> None:
    for number in range(MAX_WAITING_OF_ALL):
        askers.begin(f"wall-{number}")

    assert askers.admit("alice", 30) == BUSY_S


def test_names_beyond_the_limit_share_one_allowance(askers: QuestionLimits) -> None:
    for number in range(MAX_KNOWN + 1):
        askers.admit(f"wall-{number}", 30)
    askers.charge("another", 10.0)

    assert askers.admit("one more", 30) > 0.0
    assert askers.admit("wall-0", 30) == 0.0


class Turned(list[frozenset[str]]):
    """Records the locked-out names at each reconfiguration, and the number of disconnections."""

    hung_up = 0

    def __init__(self, askers: QuestionLimits) -> None:
        super().__init__()
        self._askers = askers

    def __call__(self) -> list[str]:
        self.append(self._askers.flood_gate.shut)
        return []

    def hang_up(self) -> None:
        self.hung_up += 1


@pytest.fixture
async def turned(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Turned]:
    """A server with short lockouts, on the real clock."""
    monkeypatch.setattr("safetyd.bus.flood_gate.SHUT_S", 0.05)
    askers = QuestionLimits()
    turned = Turned(askers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(askers.flood_gate.watch, turned, turned.hang_up)
        yield turned
        tasks.cancel_scope.cancel()


def flood(askers: QuestionLimits, name: str) -> None:
    askers.charge(name, 1000.0)
    for _ in range(int(BOUNDS.flood) + 10):
        askers.admit(name, 30)


async def test_person_who_floods_is_locked_out_for_a_time(
    turned: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "safetyd.bus")

    flood(turned._askers, "wall")
    await until(lambda: len(turned) == 2)

    assert list(turned) == [frozenset({"wall"}), frozenset()]
    assert turned.hung_up == 1
    assert caplog.messages[0].startswith("wall floods the bus")
    assert caplog.messages[1] == "wall may send queries again"


async def test_second_flood_is_locked_out_during_the_first_lockout(
    turned: Turned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "safetyd.bus.flood_gate.SHUT_S", 600.0
    )  # the second flood comes during the first lockout
    flood(turned._askers, "wall")
    await until(lambda: turned)
    flood(turned._askers, "keyless_gate")
    await until(lambda: len(turned) > 1)

    assert turned[-1] == {"wall", "keyless_gate"}


def test_few_long_queries_are_a_flood(askers: QuestionLimits) -> None:
    askers.charge("wall", 1000.0)

    for _ in range(17):
        askers.admit("wall", 64 * 1024)

    assert askers.flood_gate.shut == {"wall"}


def test_slow_refused_queries_are_no_flood(askers: QuestionLimits, clock: Hands) -> None:
    askers.charge("wall", 1e6)

    for _ in range(5 * int(BOUNDS.flood)):
        clock.t += 1.0 / BOUNDS.per_s
        assert askers.admit("wall", 30) > 0.0

    assert askers.flood_gate.shut == frozenset()


def test_connection_pauses_above_its_query_rate(clock: Hands) -> None:
    pace = QuestionRate(clock)

    rests = [pace(30) for _ in range(int(BURST))]

    assert rests[:-1] == [0.0] * (len(rests) - 1)
    assert rests[-1] == pytest.approx(BURST / PER_S)


def test_long_message_counts_as_several(clock: Hands) -> None:
    pace = QuestionRate(clock)

    assert pace(int(BURST) * PIECE_BYTES) > 0.0
    clock.t += 1.0
    assert pace(30) == 0.0
