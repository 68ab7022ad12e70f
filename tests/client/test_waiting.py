"""A proposal with `wait=True` is held until a person answers, through restarts of the daemon."""

import anyio
import pytest

from safetyd.client import Safety, asking
from tests.client.bus import Bus
from tests.client.claims import assert_unavailable
from tests.client.stand_in import Asked, StandIn, silent


async def test_a_waiting_proposal_gets_the_final_answer(bus: Bus, daemon: StandIn) -> None:
    daemon.decide = silent

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_ask_then_approve, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5, deadline_s=0.2)

    assert decision.allowed
    assert decision.cause == "human_approved"


def pending(asked: Asked) -> dict[str, object]:
    return asked.answer("require_confirmation", status="pending", request_id="req_1")


async def _ask_then_approve(daemon: StandIn) -> None:
    asked = await daemon.asked()
    await daemon.say(f"decision.code.{asked.id}", pending(asked))
    await asked.reply(asked.answer(cause="human_approved"))


async def test_a_waiting_proposal_that_nobody_answers_stays_pending(
    bus: Bus, daemon: StandIn
) -> None:
    daemon.decide = lambda asked: [pending(asked)]

    async with Safety("code", url=bus.url, deadline_s=0.4) as safety:
        decision = await safety.propose("push", wait=True, timeout_s=0.1)

    assert not decision.allowed
    assert (decision.status, decision.request_id) == ("pending", "req_1")


async def test_a_waiting_proposal_is_asked_again_after_a_restart(bus: Bus, daemon: StandIn) -> None:
    daemon.decide = silent
    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_restart_then_approve, bus, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert decision.allowed


async def _restart_then_approve(bus: Bus, daemon: StandIn) -> None:
    first = await daemon.asked()
    bus.stop()
    bus.start()
    async with StandIn(bus.url, decide=silent) as again:
        second = await again.asked()
        assert second.id == first.id
        assert second.fields == first.fields
        await second.reply(second.answer())


async def test_a_waiting_proposal_outlasts_a_bus_that_is_down(bus: Bus, daemon: StandIn) -> None:
    daemon.decide = silent
    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_outage_then_approve, bus, daemon, safety)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert decision.allowed


async def _outage_then_approve(bus: Bus, daemon: StandIn, safety: Safety) -> None:
    first = await daemon.asked()
    bus.stop()
    assert_unavailable(await safety.propose("read_file"), bus.url)
    bus.start()
    async with StandIn(bus.url, decide=silent) as again:
        second = await again.asked()
        assert second.id == first.id
        await second.reply(second.answer())


async def test_a_waiting_proposal_is_repeated_under_its_id_now_and_then(
    bus: Bus, daemon: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "REPEAT_S", 0.05)
    daemon.decide = silent

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_answer_the_second, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert decision.allowed


async def _answer_the_second(daemon: StandIn) -> None:
    first, second = await daemon.asked(), await daemon.asked()
    assert first.id == second.id
    await second.reply(second.answer())


async def test_a_waiting_proposal_that_was_never_heard_is_refused_at_once(bus: Bus) -> None:
    async with Safety("code", url=bus.url) as safety:
        with anyio.fail_after(2):
            decision = await safety.propose("push", wait=True)

    assert_unavailable(decision, "safetyd run")
