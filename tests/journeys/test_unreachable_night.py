"""At night, agents learn at once that nobody can answer in time, with a real daemon."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from safetyd.client import Blocked, Safety, SyncSafety
from safetyd.core.events.request_events import Cancelled, Expired
from tests.client.person import Person
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.hosts.hook_process import bash, hook, start_hook
from tests.hosts.mcp.proxy_process import NOTES, proxy_command
from tests.journeys.agents import until
from tests.journeys.audit_record import events

pytestmark = pytest.mark.journey


def night(hours: float = 5) -> str:
    """Return a configuration in which it is night for some hours."""
    now = datetime.now(UTC)
    start, end = now - timedelta(hours=1), now + timedelta(hours=hours)
    return f"""
    [hosts]
    wait_s = 590
    [notifications]
    timezone = "UTC"
    quiet_start = "{start:%H:%M}"
    quiet_end = "{end:%H:%M}"
    [notifications.desktop]
    helper = true
    """


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    return start_daemon(night())


async def test_a_guard_raises_at_once_and_nobody_hears_of_the_request(
    daemon: RunningDaemon,
) -> None:
    person = Person(daemon)
    async with Safety("code", data_dir=daemon.data_dir) as safety:
        with pytest.raises(Blocked, match="nobody who may answer can be notified") as blocked:
            async with safety.guard("push", text="git push", wait=True):
                pytest.fail("the body must not run")

    assert blocked.value.decision.cause == "unreachable"
    assert person.waiting("code") == []
    (cancelled,) = (one for one in events(daemon.data_dir) if isinstance(one, Cancelled))
    assert (cancelled.request_id, cancelled.by) == (blocked.value.decision.request_id, "code")
    shown = daemon.safetyd("show", cancelled.request_id).stdout
    assert "Cancelled by code" in shown


def test_the_synchronous_client_raises_too_and_may_wait_anyway(daemon: RunningDaemon) -> None:
    with SyncSafety("code", data_dir=daemon.data_dir) as safety:
        with pytest.raises(Blocked) as blocked, safety.guard("push", text="git push", wait=True):
            pytest.fail("the body must not run")
        decision = safety.propose("push", text="git push")
    with SyncSafety("code", data_dir=daemon.data_dir, wait_if_unreachable=True) as patient:
        waited = patient.propose("push", text="git push 2", wait=True, timeout_s=0.5)

    assert blocked.value.decision.cause == "unreachable"
    # Without `wait`, the request outlasts the night.
    assert decision.status == "pending"
    assert decision.expires_at
    assert decision.reachable_from
    assert decision.reachable_from < decision.expires_at
    assert waited.cause == "expired_no_response"
    (expired,) = (one for one in events(daemon.data_dir) if isinstance(one, Expired))
    assert "the time that the agent stated" in expired.reasons[0]
    until(lambda: "stated" in daemon.safetyd("show", *expired.request_ids).stdout)


async def test_a_request_that_another_proposal_joined_is_not_withdrawn(
    daemon: RunningDaemon,
) -> None:
    async with Safety("code", data_dir=daemon.data_dir) as safety:
        queued = await safety.propose("push", text="git push")
        waited = await safety.propose("push", text="git push", wait=True, timeout_s=60)

    assert (waited.cause, waited.request_id) == ("unreachable", queued.request_id)
    (request,) = Person(daemon).waiting("code")
    assert request["id"] == queued.request_id


def test_a_hook_answers_at_once_and_its_request_outlasts_the_night(
    daemon: RunningDaemon,
) -> None:
    refused = hook(daemon.endpoint.hook, bash("git push origin night"))

    assert "Nobody can be notified before" in refused.words
    (request,) = json.loads(daemon.safetyd("list", "--json").stdout)["requests"]
    assert timedelta(hours=24) < _left(request["deadline"]) < timedelta(hours=30)


def test_a_hook_may_wait_anyway(start_daemon: StartDaemon) -> None:
    patient = night().replace("wait_s = 590", "wait_s = 590\nwait_if_unreachable = true")
    daemon = start_daemon(patient)
    person = Person(daemon)
    waiting = start_hook(daemon.endpoint.hook, bash("git push origin night"))
    until(lambda: person.waiting("claude-code"))

    person.approve(person.waiting("claude-code")[0]["id"])

    out, _ = waiting.communicate(timeout=120)
    assert json.loads(out)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_an_operator_who_is_there_is_waited_for(daemon: RunningDaemon) -> None:
    daemon.safetyd("ack")

    with SyncSafety("code", data_dir=daemon.data_dir) as safety:
        decision = safety.propose("push", text="git push")

    assert not decision.reachable_from


async def test_the_mcp_proxy_answers_at_once(daemon: RunningDaemon, tmp_path: Path) -> None:
    command, *arguments = proxy_command(
        [sys.executable, str(NOTES), str(tmp_path / "notes")], "--wait-s", "3600"
    )
    variables = environment(SAFETYD_DATA_DIR=str(daemon.data_dir))
    server = StdioServerParameters(command=command, args=arguments, env=variables)

    async with Client(server) as client:
        with anyio.fail_after(120):
            pending = await client.call_tool("add_note", {"text": "tea"})

    assert pending.is_error
    assert "Nobody can be notified before" in str(pending.content)


def _left(deadline: str) -> timedelta:
    return datetime.fromisoformat(deadline) - datetime.now(UTC)
