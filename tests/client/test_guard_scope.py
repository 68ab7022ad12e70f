import anyio
import pytest

from safetyd.client import Blocked, Safety
from safetyd.client import outcome_queue as outbox
from tests.client.daemon_stand_in import DaemonStandIn
from tests.nats_process import NatsProcess


async def test_guard_reports_success_with_the_duration(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        async with safety.guard("read_file") as decision:
            assert decision.allowed
        outcome = await daemon.told()

    assert outcome["ok"] is True
    assert outcome["id"] == decision.id
    assert outcome["latency_ms"] >= 0


async def test_guard_does_not_run_a_blocked_body(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    daemon.decide = lambda asked: [asked.answer("block", reason="Not on Sundays")]
    ran = False

    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(Blocked, match=r"^Not on Sundays$") as caught:
            async with safety.guard("deploy"):
                ran = True

    assert not ran
    assert caught.value.decision.reason == "Not on Sundays"


async def test_guard_does_not_run_a_body_that_needs_approval(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = lambda asked: [asked.answer("require_confirmation", status="pending")]

    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(Blocked):
            async with safety.guard("deploy"):
                pytest.fail("the body ran")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("no such branch"), "ValueError: no such branch"),
        (ValueError("a\0b\udc80"), "ValueError: ab\\udc80"),
        (ValueError("x" * 20_000), "ValueError: " + "x" * 8180),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
    ids=["message", "unsendable", "long", "interrupt"],
)
async def test_guard_reports_an_exception_and_raises_it_again(
    bus: NatsProcess, daemon: DaemonStandIn, raised: BaseException, error: str
) -> None:
    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(type(raised)) as caught:
            async with safety.guard("read_file"):
                raise raised
        outcome = await daemon.told()

    assert caught.value is raised
    assert (outcome["ok"], outcome["error"]) == (False, error)


async def test_guard_reports_an_exception_that_cannot_be_printed(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(Unprintable):
            async with safety.guard("read_file"):
                raise Unprintable
        outcome = await daemon.told()

    assert "Unprintable" in outcome["error"]


async def test_guard_reports_a_cancelled_body_and_leaves_it_cancelled(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        with anyio.CancelScope() as scope:
            async with safety.guard("read_file"):
                scope.cancel()
                await anyio.sleep_forever()
        outcome = await daemon.told()

    assert scope.cancelled_caught
    assert outcome["ok"] is False
    assert "CancelledError" in outcome["error"]


@pytest.mark.parametrize("ends", [False, True], ids=["in the body", "at its end"])
async def test_a_cancelled_guard_reports_even_if_the_queue_is_full_at_first(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    monkeypatch.setattr(outbox, "CAPACITY", 1)
    answers = [{"ok": False, "error": "later"}]
    daemon.note = lambda _: answers.pop() if answers else {"ok": True}

    async with Safety("code", url=bus.url) as safety:
        with anyio.CancelScope() as scope:
            async with safety.guard("read_file") as decision:
                await safety.report("p1", ok=True)
                await daemon.told()
                await safety.report("p2", ok=True)
                scope.cancel()
                if not ends:
                    await anyio.sleep_forever()
        received = [await daemon.told() for _ in range(3)]

    assert [outcome["id"] for outcome in received] == ["p1", "p2", decision.id]
    assert received[-1]["ok"] is ends
