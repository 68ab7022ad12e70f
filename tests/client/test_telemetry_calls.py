import logging
from collections import Counter
from typing import Any

import anyio
import pytest

from safetyd.client import Safety
from safetyd.client import outcome_queue as outbox
from safetyd.client import safety as safety_module
from safetyd.client.arguments import OutcomeFields
from tests.client.daemon_stand_in import DaemonStandIn, Fields, Note
from tests.nats_process import NatsProcess

NOWHERE = "nats://127.0.0.1:1"
SAID = "closed with 3 of 3 outcomes undelivered after"


async def test_the_daemon_receives_an_outcome_as_reported(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        taken = await safety.report(
            "p1", ok=True, latency_ms=12, tokens={"input": 3}, details={"exit_code": 1}
        )

    assert taken
    assert await daemon.told() == {
        "type": "outcome",
        "id": "p1",
        "ok": True,
        "latency_ms": 12,
        "tokens": {"input": 3},
        "details": {"exit_code": 1},
    }


async def test_outcome_fields_that_are_none_are_not_sent(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    nothing: Any = dict.fromkeys(OutcomeFields.__annotations__)

    async with Safety("code", url=bus.url) as safety:
        assert await safety.report("p1", ok=True, **nothing)

    assert await daemon.told() == {"type": "outcome", "id": "p1", "ok": True}


async def test_an_outcome_is_sent_until_it_is_acknowledged(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    answers: list[Fields | None] = [{"ok": False, "error": "later"}, {"what": 1}, {"ok": True}]
    daemon.note = lambda _: answers.pop(0)

    async with Safety("code", url=bus.url, deadline_s=0.5) as safety:
        await safety.report("p1", ok=True)
        received = [(await daemon.told())["id"] for _ in range(3)]

    assert received == ["p1", "p1", "p1"]
    assert not answers


async def test_a_malformed_outcome_does_not_block_the_queue(
    bus: NatsProcess, daemon: DaemonStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Fields | None] = [
        {"ok": False, "error": "no such field", "code": "malformed"},
        {"ok": True},
    ]
    daemon.note = lambda _: answers.pop(0)

    async with Safety("code", url=bus.url) as safety:
        await safety.report("p1", ok=True)
        await safety.report("p2", ok=True)
        received = [(await daemon.told())["id"] for _ in range(2)]

    assert received == ["p1", "p2"]
    assert "no such field" in caplog.text


async def test_outcomes_survive_a_restart_of_the_bus_in_order(bus: NatsProcess) -> None:
    async with Safety("code", url=bus.url) as safety:
        bus.stop()
        for name in ("p1", "p2", "p3"):
            assert await safety.report(name, ok=True)
        bus.start()
        async with DaemonStandIn(bus.url) as daemon:
            received = [(await daemon.told())["id"] for _ in range(3)]

    assert received == ["p1", "p2", "p3"]


async def test_exit_waits_until_outcomes_are_delivered(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        for number in range(50):
            assert await safety.report(f"p{number}", ok=True)

    assert [(await daemon.told())["id"] for _ in range(50)] == [f"p{n}" for n in range(50)]


def busy(refusals: int) -> Note:
    """Refuse each outcome several times before accepting it, to slow down the delivery."""
    seen = Counter[str]()

    def note(outcome: Fields) -> Fields:
        seen[outcome["id"]] += 1
        taken = seen[outcome["id"]] > refusals
        return {"ok": True} if taken else {"ok": False, "error": "busy", "code": "rate_limit"}

    return note


async def test_exit_waits_as_long_as_outcomes_are_delivered(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safety_module, "FLUSH_S", 4 * outbox.FIRST_PAUSE_S)
    daemon.note = busy(refusals=1)

    async with Safety("code", url=bus.url) as safety:
        await safety.propose("read_file")  # wait until connected
        for number in range(10):
            assert await safety.report(f"p{number}", ok=True)

    received = {(await daemon.told())["id"] for _ in range(20)}
    assert received == {f"p{number}" for number in range(10)}


async def test_exit_ends_though_outcomes_are_still_being_delivered(
    bus: NatsProcess,
    daemon: DaemonStandIn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(safety_module, "LONGEST_FLUSH_S", 3 * outbox.FIRST_PAUSE_S)
    daemon.note = busy(refusals=1)

    async with Safety("code", url=bus.url) as safety:
        await safety.propose("read_file")
        for number in range(100):
            assert await safety.report(f"p{number}", ok=True)

    assert any("of 100 outcomes undelivered after" in text for text in caplog.messages)


async def test_exit_logs_the_number_of_undelivered_outcomes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began = anyio.current_time()

    async with Safety("code", url=NOWHERE) as safety:
        for number in range(3):
            assert await safety.report(f"p{number}", ok=True)

    said = [(name, level) for name, level, text in caplog.record_tuples if SAID in text]
    assert said == [("safetyd.client", logging.ERROR)]
    assert anyio.current_time() - began < 3


async def test_a_cancellation_does_not_shorten_the_exit(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    with anyio.CancelScope() as scope:
        async with Safety("code", url=bus.url) as safety:
            await safety.report("p1", ok=True)
            scope.cancel()

    assert (await daemon.told())["id"] == "p1"
    assert "not open" in (await safety.propose("read_file")).reason


async def test_a_full_queue_refuses_new_outcomes_and_drops_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outbox, "CAPACITY", 2)
    monkeypatch.setattr(safety_module, "FLUSH_S", 0.3)

    async with Safety("code", url=NOWHERE, deadline_s=0.2) as safety:
        taken = [await safety.report(f"p{number}", ok=True) for number in range(4)]

    assert taken.count(False) == 1
    assert taken[-1] is False
    assert "the outcome of p3 was not queued" in caplog.messages
    assert any(SAID in text for text in caplog.messages)


async def test_a_full_queue_accepts_outcomes_once_there_is_room(
    bus: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "CAPACITY", 1)

    async with DaemonStandIn(bus.url) as daemon, Safety("code", url=bus.url) as safety:
        taken = [await safety.report(f"p{number}", ok=True) for number in range(20)]
        received = [(await daemon.told())["id"] for _ in range(20)]

    assert all(taken)
    assert received == [f"p{number}" for number in range(20)]


async def test_an_outcome_is_refused_during_exit(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safety_module, "FLUSH_S", 0.3)
    late: list[bool] = []

    async def report_late(safety: Safety) -> None:
        await daemon.told()
        late.append(await safety.report("p2", ok=True))

    daemon.note = lambda _: None
    async with (
        anyio.create_task_group() as tasks,
        Safety("code", url=bus.url, deadline_s=0.2) as safety,
    ):
        await safety.report("p1", ok=True)
        tasks.start_soon(report_late, safety)

    assert late == [False]


@pytest.mark.parametrize("fields", [{"okay": 1}, {"latency_ms": "x"}, {"details": object()}])
async def test_a_wrong_field_of_an_outcome_raises_type_error(fields: Any) -> None:
    async with Safety("code", url=NOWHERE) as safety:
        with pytest.raises(TypeError):
            await safety.report("p1", ok=True, **fields)


async def test_a_malformed_outcome_is_not_queued(caplog: pytest.LogCaptureFixture) -> None:
    async with Safety("code", url=NOWHERE) as safety:
        taken = await safety.report("p1", ok=True, latency_ms=-1)

    assert not taken
    assert "the outcome of p1 was not queued" in caplog.messages


async def test_other_telemetry_is_sent_once(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    async with Safety("code", url=bus.url) as safety:
        told = [
            await safety.session_started("s", model="m"),
            await safety.session_ended("s"),
            await safety.episode_ended("e"),
            await safety.iteration(),
            await safety.metrics(error_rate=0.5),
            await safety.heartbeat(),
            await safety.commit("abc", files_changed=2),
            await safety.rollback("abc"),
        ]

    assert all(told)
    assert (await daemon.told("session_started"))["model"] == "m"
    assert (await daemon.told("session_ended"))["session"] == "s"
    assert (await daemon.told("episode_ended"))["episode"] == "e"
    assert await daemon.told("iteration")
    assert (await daemon.told("metrics"))["error_rate"] == 0.5
    assert await daemon.told("heartbeat")
    assert (await daemon.told("commit"))["files_changed"] == 2
    assert (await daemon.told("rollback"))["ref"] == "abc"


async def test_telemetry_that_the_daemon_rejects_returns_false(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.note = lambda _: {"ok": False, "error": "no"}

    async with Safety("code", url=bus.url) as safety:
        assert not await safety.iteration()


async def test_unacknowledged_telemetry_returns_false(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.note = lambda _: None

    async with Safety("code", url=bus.url, deadline_s=0.5) as safety:
        assert not await safety.iteration()


async def test_telemetry_raises_for_a_wrong_type_and_returns_false_for_a_wrong_value() -> None:
    wrong: Any = 3
    async with Safety("code", url=NOWHERE) as safety:
        with pytest.raises(TypeError):
            await safety.episode_ended(wrong)
        assert not await safety.episode_ended("x" * 200)
        assert not await safety.metrics(error_rate=float("nan"))
