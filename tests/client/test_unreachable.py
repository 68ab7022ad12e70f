"""An agent does not wait for an answer that nobody can give in time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from safetyd.client import Blocked, Denied, Queued, Safety
from safetyd.client.draft import draft_ask
from tests.client.daemon_stand_in import Asked, DaemonStandIn, Fields, silent
from tests.nats_process import NatsProcess

NIGHT = datetime(2026, 3, 2, 1, tzinfo=UTC)
MORNING = NIGHT + timedelta(hours=6)
SOON = NIGHT + timedelta(hours=1)
WITHDRAWN = {"approved": False, "cause": "cancelled", "reason": "the agent withdrew the request"}


class Night:
    """Answers proposals as pending, and permission messages as told. Records withdrawals."""

    def __init__(self, daemon: DaemonStandIn, answer: Fields | None, **pending: Any) -> None:
        self.withdrawn: list[Fields] = []
        self._answer = answer
        self._pending = {"expires_at": SOON, "reachable_from": MORNING, **pending}
        daemon.decide = self.decide
        daemon.permit = self.permit

    def decide(self, asked: Asked) -> Sequence[Fields]:
        fields = {"status": "pending", "request_id": "req_1", "at": NIGHT, **self._pending}
        return [asked.answer("require_confirmation", **fields)]

    def permit(self, said: Fields) -> Fields | None:
        if said.get("withdraw"):
            self.withdrawn.append(said)
        return self._answer


async def test_a_guard_raises_at_once_and_withdraws_the_request(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    night = Night(daemon, WITHDRAWN)

    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(Blocked, match=r"before 02 Mar 07:00 UTC") as blocked:
            async with safety.guard("push", wait=True):
                pytest.fail("the body must not run")

    decision = blocked.value.decision
    assert (decision.allowed, decision.status) == (False, "final")
    assert (decision.cause, decision.request_id) == ("unreachable", "req_1")
    assert decision.retry_after_s == 6 * 3600
    (said,) = night.withdrawn
    assert said["request_id"] == "req_1"


@pytest.mark.parametrize(
    ("waits", "expires_at", "in_vain"),
    [
        ({}, SOON, True),
        ({}, MORNING, True),
        ({}, MORNING + timedelta(seconds=1), False),
        ({"timeout_s": 60.0}, MORNING + timedelta(days=1), True),
        ({"timeout_s": 7 * 3600.0}, MORNING + timedelta(days=1), False),
        ({"timeout_s": 7 * 3600.0}, SOON, True),
        ({"timeout_s": 0.0}, MORNING + timedelta(days=1), False),
        ({}, None, False),
    ],
)
async def test_a_wait_is_in_vain_if_it_ends_before_somebody_is_reachable(
    bus: NatsProcess,
    daemon: DaemonStandIn,
    waits: dict[str, Any],
    expires_at: datetime | None,
    in_vain: bool,  # noqa: FBT001
) -> None:
    night = Night(daemon, WITHDRAWN, expires_at=expires_at)

    async with Safety("code", url=bus.url) as safety:
        with anyio.move_on_after(120 if in_vain else 0.3) as waiting:
            decision = await safety.propose("push", wait=True, **waits)
            assert decision.cause == "unreachable"

    assert waiting.cancelled_caught is not in_vain
    assert len(night.withdrawn) == in_vain


@pytest.mark.parametrize("missing", ["at", "reachable_from"])
async def test_without_a_time_the_client_waits(
    bus: NatsProcess, daemon: DaemonStandIn, missing: str
) -> None:
    night = Night(daemon, WITHDRAWN)
    daemon.decide = lambda asked: [
        {name: said for name, said in answer.items() if name != missing}
        for answer in night.decide(asked)
    ]

    async with Safety("code", url=bus.url) as safety:
        with anyio.move_on_after(0.3) as waiting:
            await safety.propose("push", wait=True)

    assert waiting.cancelled_caught
    assert night.withdrawn == []


async def test_an_option_waits_anyway(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    daemon.decide = silent
    async with (
        Safety("code", url=bus.url, wait_if_unreachable=True) as safety,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_approve_at_night, daemon)
        decision = await safety.propose("push", wait=True, timeout_s=5)

    assert decision.cause == "human_approved"


async def _approve_at_night(daemon: DaemonStandIn) -> None:
    asked = await daemon.asked()
    (pending,) = Night(daemon, None).decide(asked)
    await daemon.say(f"decision.code.{asked.id}", pending)
    await asked.reply(asked.answer(cause="human_approved"))


@pytest.mark.parametrize(
    "answer",
    [
        {"approved": True, "message": "go"},
        {"approved": False, "cause": "human_denied", "reason": "no"},
        {"approved": False, "cause": "expired_no_response", "reason": "timeout"},
    ],
)
async def test_a_request_that_was_just_answered_gets_its_answer(
    bus: NatsProcess, daemon: DaemonStandIn, answer: Fields
) -> None:
    night = Night(daemon, answer)

    def decide(asked: Asked) -> Sequence[Fields]:
        if night.withdrawn:
            return [asked.answer("block", cause="human_denied", reason="not today")]
        return night.decide(asked)

    daemon.decide = decide
    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("push", wait=True)

    first, second = await daemon.asked(), await daemon.asked()
    assert first.id == second.id == decision.id
    assert (decision.cause, decision.reason) == ("human_denied", "not today")


@pytest.mark.parametrize("answer", [{"queued": True, "request_id": "req_1"}, None])
async def test_an_action_is_blocked_even_if_the_request_stays(
    bus: NatsProcess, daemon: DaemonStandIn, answer: Fields | None
) -> None:
    Night(daemon, answer)

    async with Safety("code", url=bus.url, deadline_s=0.3) as safety:
        decision = await safety.propose("push", wait=True)

    assert (decision.allowed, decision.cause) == (False, "unreachable")


async def test_a_permission_request_is_denied(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        heard = Withdrawals(daemon, tasks, WITHDRAWN)
        result = await safety.request_permission("push", wait=True)

    assert isinstance(result, Denied)
    assert result.cause == "unreachable"
    assert heard.withdrawn == 1


async def test_a_permission_request_that_was_just_answered_gets_its_answer(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        Withdrawals(daemon, tasks, {"approved": True, "message": "go"})
        result = await safety.request_permission("push", wait=True)

    assert result.approved


class Withdrawals:
    """Answers permission requests as pending at night, and withdrawals as told."""

    def __init__(self, daemon: DaemonStandIn, tasks: TaskGroup, answer: Fields) -> None:
        self.withdrawn = 0
        self._daemon = daemon
        self._tasks = tasks
        self._answer = answer
        daemon.permit = self.permit

    def permit(self, said: Fields) -> Fields | None:
        if said.get("withdraw"):
            self.withdrawn += 1
            return self._answer
        if self.withdrawn:
            return self._answer
        self._tasks.start_soon(self._pending, said)
        return None

    async def _pending(self, said: Fields) -> None:
        fields = {name: value for name, value in said.items() if name != "action"}
        made = draft_ask("code", said["action"], fields)
        pending = {
            "id": made.id,
            "agent": "code",
            "digest": made.digest,
            "decision": "require_confirmation",
            "status": "pending",
            "request_id": "req_1",
            "at": NIGHT,
            "expires_at": SOON,
            "reachable_from": MORNING,
        }
        await self._daemon.say(f"decision.code.{made.id}", pending)


async def test_a_queued_request_says_when_somebody_is_reachable(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    queued = {"queued": True, "request_id": "req_1", "reachable_from": MORNING}
    daemon.permit = lambda _: queued

    async with Safety("code", url=bus.url) as safety:
        result = await safety.request_permission("push")

    assert result == Queued(request_id="req_1", reachable_from=MORNING)
