"""On a cluster, the client waits for another daemon until the deadline, and asks under one id."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from safetyd.client import Denied, Safety, exchange, server_connection
from tests.client.assertions import assert_unavailable
from tests.client.daemon_stand_in import Asked, DaemonStandIn, Fields, allow, silent
from tests.cluster_node import CLUSTER, StartNode
from tests.nats_process import NatsProcess
from tests.servers import frozen

# How long there is no daemon: longer than a client waits on a single machine.
GAP_S = 1.5
NEVER_S = 600.0
PATIENCE_S = 30.0


@asynccontextmanager
async def later(daemon: DaemonStandIn) -> AsyncIterator[None]:
    """Start a daemon after a gap, and keep it until the body has ended."""

    async def appear() -> None:
        await anyio.sleep(GAP_S)
        async with daemon:
            await over.wait()

    over = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(appear)
        with anyio.fail_after(PATIENCE_S):
            yield
        over.set()


async def test_a_proposal_waits_for_the_next_daemon_and_is_decided_once(node: NatsProcess) -> None:
    decided: list[str] = []

    def decide(asked: Asked) -> Sequence[Fields]:
        decided.append(asked.id)
        return [asked.answer()]

    daemon = DaemonStandIn(node.url, decide)
    async with Safety("code", url=node.url) as safety, later(daemon):
        decision = await safety.propose("read_file", deadline_s=NEVER_S)

    assert decision.allowed
    assert decided == [decision.id]


async def test_a_proposal_is_blocked_at_its_deadline_if_no_daemon_takes_over(
    node: NatsProcess,
) -> None:
    async with Safety("code", url=node.url) as safety:
        with anyio.fail_after(PATIENCE_S):
            decision = await safety.propose("read_file", deadline_s=0.6)

    assert_unavailable(decision, node.url, "tried for 0.6 s")


async def test_several_addresses_are_a_cluster_even_if_none_answers() -> None:
    nowhere = "nats://127.0.0.1:1,nats://127.0.0.1:2"
    async with Safety("code", url=nowhere, deadline_s=0.6) as safety:
        with anyio.fail_after(PATIENCE_S):
            assert_unavailable(await safety.propose("read_file"), nowhere, "tried for 0.6 s")


async def test_a_rejected_key_is_reported_at_once_even_on_a_cluster(tmp_path: Path) -> None:
    node = NatsProcess(tmp_path, CLUSTER + "authorization { token: secret }\n")
    try:
        async with Safety("code", url=f"{node.url},{node.url}") as safety:
            with anyio.fail_after(PATIENCE_S):
                decision = await safety.propose("read_file", deadline_s=NEVER_S)
    finally:
        node.stop()

    assert_unavailable(decision, node.url, "safetyd agent add code")


async def test_a_lost_answer_is_requested_again_under_the_same_id(
    node: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SILENCE_S", 0.01)
    monkeypatch.setattr(exchange, "CLUSTER_SILENCE_S", 0.02)
    asked: list[str] = []

    def third(proposal: Asked) -> Sequence[Fields]:
        asked.append(proposal.id)
        return allow(proposal) if len(asked) > 2 else silent(proposal)

    async with DaemonStandIn(node.url, third), Safety("code", url=node.url) as safety:
        decision = await safety.propose("read_file", deadline_s=NEVER_S)

    assert decision.allowed
    assert set(asked) == {decision.id}


async def test_a_silent_daemon_is_asked_often_because_another_may_have_taken_over(
    node: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SILENCE_S", 0.02)
    monkeypatch.setattr(exchange, "CLUSTER_SILENCE_S", 0.02)
    doubling = 7  # how often a single machine would be asked in this time

    async with DaemonStandIn(node.url, silent) as daemon, Safety("code", url=node.url) as safety:
        await safety.propose("read_file", deadline_s=2.0)

    assert daemon.unread() > 2 * doubling


async def test_a_daemon_that_hands_over_refuses_nothing(bus: NatsProcess) -> None:
    """This holds on a single server too: the daemon itself says that another one takes over."""
    refused: list[str] = []

    def hand_over(asked: Asked) -> Sequence[Fields]:
        refused.append(asked.id)
        left.set()
        return [asked.answer("block", cause="unavailable", reason="stopping", retry=True)]

    async def replace() -> None:
        async with DaemonStandIn(bus.url, hand_over):
            await left.wait()
        await anyio.sleep(GAP_S)
        async with DaemonStandIn(bus.url) as daemon:
            answered.append((await daemon.asked()).id)
            await over.wait()

    left, over = anyio.Event(), anyio.Event()
    answered: list[str] = []
    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(replace)
        with anyio.fail_after(PATIENCE_S):
            decision = await safety.propose("read_file", deadline_s=NEVER_S)
        over.set()

    assert decision.allowed
    assert set(refused) | set(answered) == {decision.id}


async def test_a_refusal_for_now_that_lasts_until_the_deadline_is_the_reason(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = lambda asked: [
        asked.answer("block", cause="unavailable", reason="the journal is full", retry=True)
    ]
    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file", deadline_s=0.4)

    assert_unavailable(decision, "the journal is full", "tried for 0.4 s")


async def test_a_refusal_without_retry_is_final_on_a_cluster(node: NatsProcess) -> None:
    def refuse(asked: Asked) -> Sequence[Fields]:
        return [asked.answer("block", cause="unavailable", reason="no")]

    async with DaemonStandIn(node.url, refuse) as daemon, Safety("code", url=node.url) as safety:
        decision = await safety.propose("read_file", deadline_s=NEVER_S)

    assert_unavailable(decision, "no")
    assert daemon.unread() == 1


async def test_an_allow_that_asks_to_be_sent_again_is_no_permission(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = lambda asked: [asked.answer(retry=True)]
    async with Safety("code", url=bus.url) as safety:
        assert_unavailable(await safety.propose("read_file", deadline_s=0.4))


async def test_permission_requests_and_claims_wait_for_the_next_daemon(node: NatsProcess) -> None:
    daemon = DaemonStandIn(node.url)
    refusals = [{"approved": False, "cause": "unavailable", "reason": "stopping", "retry": True}]
    daemon.permit = lambda _: refusals.pop() if refusals else {"approved": True}
    daemon.grant = lambda _: {"granted": True, "cause": "human_approved"}
    async with Safety("code", url=node.url, deadline_s=NEVER_S) as safety, later(daemon):
        allowed = await safety.request_permission("push")
        refusals.append({"approved": False, "cause": "policy", "reason": "no"})
        denied = await safety.permission("req_1")
        claim = await safety.claim(await safety.propose("push"))

    assert allowed.approved
    assert denied == Denied(reason="no", cause="policy")
    assert claim.granted


async def test_telemetry_waits_for_the_next_daemon_and_is_recorded_once(node: NatsProcess) -> None:
    answers: list[Fields] = [{"ok": True}, {"ok": False, "code": "unavailable", "retry": True}]
    recorded: list[Fields] = []

    def note(fields: Fields) -> Fields:
        answer = answers.pop()
        if answer["ok"]:
            recorded.append(fields)
        return answer

    daemon = DaemonStandIn(node.url, note=note)
    async with Safety("code", url=node.url, deadline_s=NEVER_S) as safety, later(daemon):
        assert await safety.iteration()

    assert [fields["type"] for fields in recorded] == ["iteration"]


async def test_telemetry_is_not_sent_again_if_it_may_have_been_recorded(
    node: NatsProcess,
) -> None:
    async with Safety("code", url=node.url, deadline_s=NEVER_S) as safety:
        daemon = DaemonStandIn(node.url, note=lambda _: node.stop())
        async with daemon:
            with anyio.fail_after(PATIENCE_S):
                assert not await safety.iteration()
        node.start()
        async with DaemonStandIn(node.url) as again:
            assert (await safety.propose("read_file")).allowed
            assert await safety.commit("abc")
            assert (await again.told("commit"))["ref"] == "abc"
            assert again.untold() == []


async def test_an_outcome_is_delivered_to_the_next_daemon_before_the_next_proposal(
    node: NatsProcess,
) -> None:
    daemon = DaemonStandIn(node.url)
    async with Safety("code", url=node.url, deadline_s=NEVER_S) as safety, later(daemon):
        await safety.report("p1", ok=True)
        assert (await safety.propose("read_file")).allowed
        assert (await daemon.told())["id"] == "p1"


async def test_a_frozen_server_does_not_delay_the_connection_to_another(
    start_node: StartNode,
) -> None:
    dead, stuck, alive = start_node(), start_node(), start_node()
    dead.stop()
    addresses = ",".join(each.url for each in (dead, stuck, alive))
    with frozen(stuck):
        async with DaemonStandIn(alive.url) as daemon:
            for _ in range(5):  # the order of the servers is random
                async with Safety("code", url=addresses) as safety:
                    assert (await safety.propose("read_file", deadline_s=PATIENCE_S)).allowed
            assert daemon.unread() == 5


async def test_a_client_leaves_a_server_that_freezes_during_a_proposal(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "PING_S", NEVER_S)
    first, second = start_node(), start_node()
    async with (
        DaemonStandIn(first.url) as one,
        DaemonStandIn(second.url) as two,
        Safety("code", url=f"{first.url}, {second.url}") as safety,
    ):
        assert (await safety.propose("read_file")).allowed
        stuck, other = (first, two) if one.unread() else (second, one)
        with frozen(stuck):
            decision = await safety.propose("list_files", deadline_s=PATIENCE_S)
        assert decision.allowed
        assert (await other.asked()).id == decision.id


async def test_a_client_finds_another_server_after_its_daemon_removed_the_address(
    start_node: StartNode, data_dir: Path
) -> None:
    first, second = start_node(), start_node()
    endpoint = data_dir / "endpoint.json"
    endpoint.write_text(f'{{"bus": "{first.url},{second.url}", "pid": 1}}')
    async with (
        DaemonStandIn(first.url) as one,
        DaemonStandIn(second.url) as two,
        Safety("code") as safety,
    ):
        assert (await safety.propose("read_file")).allowed
        endpoint.unlink()
        gone, other = (first, two) if one.unread() else (second, one)
        gone.stop()
        decision = await safety.propose("list_files", deadline_s=PATIENCE_S)
        assert decision.allowed
        assert (await other.asked()).id == decision.id


async def test_a_short_deadline_is_not_used_up_by_outcomes_that_wait(node: NatsProcess) -> None:
    """An outcome without an acknowledgement holds up a proposal for half of its time at most."""
    daemon = DaemonStandIn(node.url, note=lambda _: None)
    async with daemon, Safety("code", url=node.url) as safety:
        await safety.report("p1", ok=True)
        assert (await safety.propose("read_file", deadline_s=0.5)).allowed
