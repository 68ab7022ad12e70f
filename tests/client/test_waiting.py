"""Proposals with `wait=True` wait for an operator, also through restarts of the daemon."""

import anyio
import pytest

from safetyd.client import Safety
from safetyd.client import exchange as asking
from safetyd.client import safety as safety_module
from tests.client.assertions import assert_unavailable
from tests.client.daemon_stand_in import Asked, DaemonStandIn, silent
from tests.nats_process import NatsProcess


async def test_a_waiting_proposal_gets_the_final_decision(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_ask_then_approve, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5, deadline_s=0.2)

    assert decision.allowed
    assert decision.cause == "human_approved"


def pending(asked: Asked) -> dict[str, object]:
    return asked.answer("require_confirmation", status="pending", request_id="req_1")


async def _ask_then_approve(daemon: DaemonStandIn) -> None:
    asked = await daemon.asked()
    await daemon.say(f"decision.code.{asked.id}", pending(asked))
    await asked.reply(asked.answer(cause="human_approved"))


async def test_a_waiting_proposal_without_an_answer_stays_pending(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = lambda asked: [pending(asked)]

    async with Safety("code", url=bus.url, deadline_s=0.4) as safety:
        decision = await safety.propose("push", wait=True, timeout_s=0.1)

    assert not decision.allowed
    assert (decision.status, decision.request_id) == ("pending", "req_1")


async def test_a_waiting_proposal_is_sent_again_after_a_restart(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent
    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_restart_then_approve, bus, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert decision.allowed


async def _restart_then_approve(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    first = await daemon.asked()
    bus.stop()
    bus.start()
    async with DaemonStandIn(bus.url, decide=silent) as again:
        second = await again.asked()
        assert second.id == first.id
        assert second.fields == first.fields
        await second.reply(second.answer())


async def test_a_waiting_proposal_survives_an_outage_of_the_bus(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent
    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_outage_then_approve, bus, daemon, safety)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert decision.allowed


async def _outage_then_approve(bus: NatsProcess, daemon: DaemonStandIn, safety: Safety) -> None:
    first = await daemon.asked()
    bus.stop()
    assert_unavailable(await safety.propose("read_file"), bus.url)
    bus.start()
    async with DaemonStandIn(bus.url, decide=silent) as again:
        second = await again.asked()
        assert second.id == first.id
        await second.reply(second.answer())


async def test_a_waiting_proposal_is_sent_again_under_its_id(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "REPEAT_S", 0.05)
    daemon.decide = silent

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_answer_the_second, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert decision.allowed


async def _answer_the_second(daemon: DaemonStandIn) -> None:
    first, second = await daemon.asked(), await daemon.asked()
    assert first.id == second.id
    await second.reply(second.answer())


async def test_a_pending_proposal_is_sent_again_less_often(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SILENCE_S", 0.4)  # enough for a busy machine to answer
    daemon.decide = lambda asked: [pending(asked)]

    async with Safety("code", url=bus.url, deadline_s=2.0) as safety:
        decision = await safety.propose("push", wait=True, timeout_s=1.0)

    assert decision.status == "pending"
    await daemon.asked()
    assert daemon.unread() == 0


async def test_an_announced_approval_is_fetched_with_a_direct_reply(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_announce_then_answer, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert (decision.allowed, decision.seq) == (True, 2)


async def _announce_then_answer(daemon: DaemonStandIn) -> None:
    first = await daemon.asked()
    await daemon.say(f"decision.code.{first.id}", first.answer(cause="human_approved", seq=1))
    second = await daemon.asked()
    assert second.id == first.id
    await second.reply(second.answer(cause="human_approved", seq=2))


@pytest.mark.parametrize("timeout_s", [None, 0], ids=["not given", "none"])
async def test_propose_without_a_timeout_waits_until_the_request_expires(
    bus: NatsProcess,
    daemon: DaemonStandIn,
    monkeypatch: pytest.MonkeyPatch,
    timeout_s: float | None,
) -> None:
    monkeypatch.setattr(safety_module, "PERSON_S", 0.0)
    monkeypatch.setattr(asking, "REPEAT_S", 0.2)
    answers = [pending] * 3 + [lambda asked: asked.answer("block", cause="expired_no_response")]
    daemon.decide = lambda asked: [answers.pop(0)(asked)]

    async with Safety("code", url=bus.url, deadline_s=0.3) as safety:
        decision = await safety.propose("push", wait=True, timeout_s=timeout_s)

    assert decision.cause == "expired_no_response"


async def test_a_request_past_its_deadline_without_a_decision_stays_pending(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GRACE_S", 0.1)
    daemon.decide = lambda asked: [
        pending(asked) | {"at": "2026-02-08T14:30:22Z", "expires_at": "2026-02-08T14:30:22.2Z"}
    ]

    async with Safety("code", url=bus.url) as safety:
        with anyio.fail_after(30):
            decision = await safety.propose("push", wait=True)

    assert decision.status == "pending"


async def test_a_waiting_proposal_that_no_daemon_received_is_unavailable_immediately(
    bus: NatsProcess,
) -> None:
    async with Safety("code", url=bus.url) as safety:
        with anyio.fail_after(30):
            decision = await safety.propose("push", wait=True)

    assert_unavailable(decision, "ask the operator to start safetyd")
