"""Permission requests of agents to operators, with a real daemon."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import anyio
import pytest
from anyio.to_thread import run_sync

from safetyd.client import (
    Approved,
    Blocked,
    Decision,
    Denied,
    PermissionResult,
    Queued,
    Safety,
    SyncSafety,
    Timeout,
)
from tests.client.person import Person
from tests.conftest import RunningDaemon, StartDaemon

PUSH = "git push origin main"


@pytest.fixture(scope="module")
def live(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture
def person(live: RunningDaemon) -> Person:
    return Person(live)


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> str:
    """A different agent name for each test, so that tests share no approvals."""
    return str(request.node.name).replace("[", "-").replace("]", "")[-64:].replace(" ", "-")


@pytest.mark.req("S3.57", "S3.58", "S3.19")
async def test_a_waiting_permission_request_gets_the_operators_message(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    results: list[PermissionResult] = []

    async with Safety(agent, data_dir=live.data_dir) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_keep, results, partial(safety.request_permission, "push", wait=True))
        person.approve(await person.asked(agent), "looks good")

    assert results == [Approved(message="looks good")]


async def _keep(results: list[PermissionResult], ask: Callable[[], object]) -> None:
    results.append(await ask())  # type: ignore[misc]


@pytest.mark.req("S3.58")
async def test_a_denial_includes_the_operators_reason(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    results: list[PermissionResult] = []

    async with Safety(agent, data_dir=live.data_dir) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_keep, results, partial(safety.request_permission, "push", wait=True))
        person.deny(await person.asked(agent), "not on a Friday")

    assert results == [Denied(reason="not on a Friday", cause="human_denied")]


@pytest.mark.req("S3.20", "S3.22", "S3.58")
async def test_a_request_without_an_answer_times_out(live: RunningDaemon, agent: str) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        asked = await safety.request_permission("push", wait=True, timeout_minutes=0.02)
        proposed = await safety.propose("push", text=PUSH, wait=True, timeout_s=1)

    assert asked == Timeout(timeout_minutes=0.02)
    assert not asked.approved
    assert (proposed.allowed, proposed.cause) == (False, "expired_no_response")


@pytest.mark.req("S3.18", "S3.21", "S3.58", "S3.59")
async def test_a_queued_request_has_all_fields_from_the_agent(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        asked = await safety.request_permission(
            "push",
            id="ask-1",
            description="Push the fix",
            rationale="Tests pass",
            urgency="low",
            context={"branch": "fix-auth", "share": 1.0},
        )
        again = await safety.request_permission(
            "push",
            id="ask-1",
            description="Push the fix",
            rationale="Tests pass",
            urgency="low",
            context={"branch": "fix-auth", "share": 1.0},
        )

    assert isinstance(asked, Queued)
    assert again == asked
    card = person.card(asked.request_id)
    assert (card["type"], card["state"], card["urgency"]) == ("push", "pending", "normal")
    said = card["proposal"]
    assert (said["id"], said["description"], said["rationale"]) == (
        "ask-1",
        "Push the fix",
        "Tests pass",
    )
    assert said["urgency"] == "low"
    assert said["context"] == {"branch": "fix-auth", "share": 1}


@pytest.mark.req("S3.17", "S3.23", "S3.57")
async def test_an_approved_request_allows_one_proposal_with_its_id(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        queued = await safety.request_permission(
            "push", description="Push the fix", context={"text": PUSH}
        )
        assert isinstance(queued, Queued)
        (open_,) = await safety.pending_requests()
        assert (open_.request_id, open_.action, open_.status) == (
            queued.request_id,
            "push",
            "pending",
        )
        assert await safety.permission(queued.request_id) == queued

        person.approve(queued.request_id, "go on")

        (open_,) = await safety.pending_requests()
        assert (open_.status, open_.message) == ("approved", "go on")
        assert await safety.permission(queued.request_id) == Approved(message="go on")
        used = await safety.propose("push", text=PUSH, request_id=queued.request_id)
        again = await safety.propose("push", text=PUSH, request_id=queued.request_id)

    assert (used.allowed, used.cause) == (True, "human_approved")
    assert (again.allowed, again.status) == (False, "pending")


@pytest.mark.req("S2.28")
async def test_a_repeated_permission_request_gets_its_approval_once(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        queued = await safety.request_permission("push", description="Push the fix")
        assert isinstance(queued, Queued)
        person.approve(queued.request_id, "go on")
        found = await safety.request_permission("push", description="Push the fix")
        more = await safety.request_permission("push", description="Push the fix")

    assert found == Approved(message="go on")
    assert isinstance(more, Queued)


async def test_an_agent_cannot_see_requests_of_another_agent(
    live: RunningDaemon, agent: str
) -> None:
    async with (
        Safety(agent, data_dir=live.data_dir) as safety,
        Safety("somebody", data_dir=live.data_dir) as other,
    ):
        queued = await safety.request_permission("push")
        assert isinstance(queued, Queued)

        found = await other.permission(queued.request_id)
        listed = await other.pending_requests()

    assert isinstance(found, Denied)
    assert found.cause == "malformed"
    assert listed == ()


async def test_request_permission_denies_an_action_that_a_guard_blocks(
    live: RunningDaemon, agent: str
) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        denied = await safety.request_permission("run_shell", context={"text": "rm -rf /"})

    assert isinstance(denied, Denied)
    assert "rm" in denied.reason


@pytest.mark.req("S3.57")
async def test_is_auto_allowed_creates_no_request(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        reads = await safety.is_auto_allowed("read_file", paths=["a"])
        pushes = await safety.is_auto_allowed("push", text=PUSH)

    assert (reads, pushes) == (True, False)
    assert person.waiting(agent) == []


@pytest.mark.req("S3.2")
async def test_guard_claims_an_approved_action_and_runs_the_body(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    decisions: list[Decision] = []

    async def push(safety: Safety) -> None:
        async with safety.guard("push", text=PUSH, wait=True) as decision:
            decisions.append(decision)

    async with Safety(agent, data_dir=live.data_dir) as safety:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(push, safety)
            request_id = await person.asked(agent)
            person.approve(request_id)
        (decision,) = decisions
        late = await safety.claim(decision)

    assert (decision.claim_required, decision.cause) == (True, "human_approved")
    assert person.card(request_id)["claimant"]
    assert (late.granted, late.cause) == (False, "already_claimed")


async def test_a_claim_repeated_by_its_claimant_is_granted_again(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        asked = await safety.propose("push", text=PUSH)
        person.approve(asked.request_id or "")
        allowed = await safety.propose("push", text=PUSH)
        claims = [await safety.claim(allowed, claimant=name) for name in ("me", "me", "you")]

    assert [claim.granted for claim in claims] == [True, True, False]


async def test_guard_names_the_request_if_the_body_needs_approval(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    async with Safety(agent, data_dir=live.data_dir) as safety:
        with pytest.raises(Blocked) as caught:
            async with safety.guard("push", text=PUSH):
                pytest.fail("the body ran")

    (request,) = person.waiting(agent)
    assert request["id"] in str(caught.value)


NEXT_CYCLE = """
import sys
from safetyd.client import Blocked, SyncSafety
agent, data_dir, words = sys.argv[1:]
with SyncSafety(agent, data_dir=data_dir) as safety:
    try:
        with safety.guard("push", text="git push origin main", description=words):
            print("pushed")
    except Blocked as blocked:
        print(blocked.decision.request_id)
"""


def cycle(live: RunningDaemon, agent: str, words: str) -> str:
    """Run one cycle of an agent in a new process and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", NEXT_CYCLE, agent, str(live.data_dir), words],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.strip()


@pytest.mark.req("S3.17", "S3.23")
def test_a_later_process_of_the_agent_uses_an_approval_once(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    request_id = cycle(live, agent, "Push the fix")
    assert cycle(live, agent, "Still to be pushed") == request_id
    person.approve(request_id)

    said = [cycle(live, agent, words) for words in ("In other words", "Once more")]

    assert said[0] == "pushed"
    assert said[1].startswith("req_")
    assert said[1] != request_id


@pytest.mark.req("S3.22")
async def test_a_waiting_request_does_not_delay_the_agents_other_proposals(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    results: list[PermissionResult] = []

    async with Safety(agent, data_dir=live.data_dir) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_keep, results, partial(safety.request_permission, "push", wait=True))
        request_id = await person.asked(agent)
        meanwhile = await safety.propose("read_file", paths=["a"])
        person.approve(request_id)

    assert meanwhile.allowed
    assert results == [Approved()]


def ask_in_a_script(live: RunningDaemon, agent: str) -> list[object]:
    with SyncSafety(agent, data_dir=live.data_dir) as safety:
        queued = safety.request_permission("push", description="Push the fix")
        assert isinstance(queued, Queued)
        decision = safety.propose("read_file")
        return [
            safety.permission(queued.request_id) == queued,
            [own.request_id for own in safety.pending_requests()] == [queued.request_id],
            safety.is_auto_allowed("read_file"),
            not safety.is_auto_allowed("push"),
            safety.claim(decision).cause == "not_approved",
            safety.log_action("read_file", description="Read it", proposal=decision.id),
        ]


@pytest.mark.req("S3.1")
@pytest.mark.req("S3.57")
async def test_the_blocking_client_has_the_same_methods(live: RunningDaemon, agent: str) -> None:
    assert await run_sync(ask_in_a_script, live, agent) == [True] * 6


async def test_the_blocking_client_waits_for_an_operator(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    def push() -> None:
        with (
            SyncSafety(agent, data_dir=live.data_dir) as safety,
            safety.guard("push", text=PUSH, wait=True),
        ):
            pushed.append(1)

    pushed: list[int] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_sync, push)
        person.approve(await person.asked(agent))

    assert pushed == [1]


async def test_the_end_of_a_request_is_awaited_and_uses_up_no_approval(
    live: RunningDaemon, person: Person, agent: str
) -> None:
    results: list[PermissionResult] = []

    async with Safety(agent, data_dir=live.data_dir) as safety:
        pending = await safety.propose("push", text=PUSH)
        request = pending.request_id or ""
        early = await safety.answered(request, timeout_s=0)
        async with anyio.create_task_group() as tasks:
            wait = partial(safety.answered, request, timeout_s=60, proposal=pending.id)
            tasks.start_soon(_keep, results, wait)
            person.approve(await person.asked(agent))
        used = await safety.propose("push", text=PUSH)
        again = await safety.propose("push", text=PUSH)

    assert early == Queued(request_id=request)
    assert results == [Approved(message="")]
    assert (used.allowed, again.allowed) == (True, False)


def test_a_closed_client_waits_for_no_request() -> None:
    with SyncSafety("code") as safety:
        pass

    assert isinstance(safety.answered("req_1", timeout_s=60), Denied)
