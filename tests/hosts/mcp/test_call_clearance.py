"""An approval that a call used without running is left to the next call that is the same."""

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from safetyd.client import Safety
from safetyd.hosts.call_clearance import CallClearance, Unused
from tests.client.daemon_stand_in import Asked, DaemonStandIn, Fields
from tests.nats_process import NatsProcess

CALL = {"type": "mcp_call", "text": "notes/add_note {}"}


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsProcess]:
    server = NatsProcess(tmp_path)
    yield server
    server.stop()


@pytest.fixture
async def daemon(bus: NatsProcess) -> AsyncIterator[DaemonStandIn]:
    async with DaemonStandIn(bus.url, approved) as daemon:
        yield daemon


@pytest.fixture
async def safety(bus: NatsProcess) -> AsyncIterator[Safety]:
    async with Safety("code", url=bus.url, deadline_s=1.0) as safety:
        yield safety


def approved(asked: Asked) -> Sequence[Fields]:
    """Answer each proposal as if it used an approval."""
    return [asked.answer(cause="human_approved", request_id=f"req_{asked.id}")]


def granted(claim: Fields) -> Fields | None:
    return {"granted": True, "cause": "human_approved", "reason": ""}


async def test_a_claim_without_an_answer_is_repeated_by_the_next_call(
    daemon: DaemonStandIn, safety: Safety
) -> None:
    clearance = CallClearance(safety, 0)

    lost = await clearance.decide(CALL, anyio.CancelScope())
    daemon.grant = granted
    repeated = await clearance.decide(CALL, anyio.CancelScope())
    new = await clearance.decide(CALL, anyio.CancelScope())

    first, second = await daemon.asked(), await daemon.asked()
    assert (lost.allowed, lost.cause) == (False, "unavailable")
    assert (repeated.allowed, repeated.id) == (True, first.id)
    assert (new.allowed, new.id) == (True, second.id)
    assert daemon.unread() == 0


@pytest.mark.parametrize("wait_if_unreachable", [False, True])
async def test_a_call_that_nobody_can_answer_in_time_waits_only_if_told_to(
    daemon: DaemonStandIn,
    safety: Safety,
    wait_if_unreachable: bool,  # noqa: FBT001
) -> None:
    looked: list[Fields] = []
    daemon.decide = lambda asked: [
        asked.answer(
            "require_confirmation",
            status="pending",
            request_id="req_1",
            at="2026-03-02T01:00:00Z",
            reachable_from="2026-03-02T07:00:00Z",
        )
    ]

    def permit(said: Fields) -> Fields:
        looked.append(said)
        return {"approved": False, "cause": "human_denied", "reason": "no"}

    daemon.permit = permit
    clearance = CallClearance(safety, 3600, wait_if_unreachable=wait_if_unreachable)

    decision = await clearance.decide(CALL, anyio.CancelScope())

    assert len(looked) == wait_if_unreachable
    assert decision.cause == ("human_denied" if wait_if_unreachable else "policy")


async def test_a_call_that_is_cancelled_before_it_runs_leaves_its_claim(
    daemon: DaemonStandIn, safety: Safety
) -> None:
    clearance, cancelled = CallClearance(safety, 0), anyio.CancelScope()
    cancelled.cancel()
    daemon.grant = granted

    with pytest.raises(Unused):
        await clearance.decide(CALL, cancelled)
    next_one = await clearance.decide(CALL, anyio.CancelScope())

    assert next_one.allowed
    assert next_one.id == (await daemon.asked()).id
    assert daemon.unread() == 0


async def test_an_approval_that_has_expired_meanwhile_is_requested_again(
    daemon: DaemonStandIn, safety: Safety
) -> None:
    clearance, cancelled = CallClearance(safety, 0), anyio.CancelScope()
    cancelled.cancel()
    daemon.grant = granted
    with pytest.raises(Unused):
        await clearance.decide(CALL, cancelled)
    daemon.grant = lambda _: {"granted": False, "cause": "expired", "reason": "it has expired"}
    daemon.decide = lambda asked: [asked.answer("block", cause="policy")]

    refused = await clearance.decide(CALL, anyio.CancelScope())

    assert (refused.allowed, refused.cause) == (False, "policy")
