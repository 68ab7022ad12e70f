from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from safetyd.client import Rollback, Safety, SyncSafety
from safetyd.client.rollback_inbox import MAX_HEARD, RollbackInbox
from tests.client.daemon_stand_in import DaemonStandIn
from tests.nats_process import NatsProcess

NOTICE: dict[str, Any] = {
    "project": "shop",
    "kind": "soft",
    "commit": "4f2a",
    "files": 1,
    "agents": ["code"],
    "reason": "wrong way",
    "at": "2026-03-01T12:00:00Z",
}


def notice(minute: int = 0, **fields: object) -> dict[str, Any]:
    return {**NOTICE, "at": f"2026-03-01T12:{minute:02}:00Z", **fields}


def answers(daemon: DaemonStandIn, *rollbacks: dict[str, Any]) -> list[dict[str, Any]]:
    """Make the daemon return these rollbacks. Return the list of queries that it receives."""
    asked: list[dict[str, Any]] = []

    def answer(fields: dict[str, Any]) -> dict[str, Any]:
        asked.append(fields)
        return {"rollbacks": rollbacks}

    daemon.permit = answer
    return asked


async def connected(safety: Safety, daemon: DaemonStandIn) -> None:
    await safety.heartbeat()
    await daemon.told("heartbeat")


async def test_a_rollback_is_returned_once_to_an_agent_of_the_project(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    answers(daemon)
    async with Safety("code", url=bus.url) as safety:
        await connected(safety, daemon)
        await daemon.say("state.rollback", notice(agents=["other"], project="theirs"))
        await daemon.say("state.rollback", notice(1), marked=False)  # not from the daemon
        await daemon.say("state.rollback", notice(2))

        heard = await safety.rolled_back(timeout_s=20)
        again = await safety.rolled_back(timeout_s=0.2)

    assert heard is not None
    assert (heard.project, heard.kind, heard.files) == ("shop", "soft", 1)
    assert (heard.reason, heard.at.minute) == ("wrong way", 2)
    assert again is None


async def test_a_waiting_agent_receives_a_rollback_when_it_happens(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    asked = answers(daemon)
    heard: list[Rollback | None] = []

    async def wait(safety: Safety) -> None:
        heard.append(await safety.rolled_back())

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(wait, safety)
        with anyio.fail_after(20):
            while not asked:
                await anyio.lowlevel.checkpoint()
            await daemon.say("state.rollback", notice())

    assert [one and one.commit for one in heard] == ["4f2a"]
    assert asked == [{"rollbacks": True}]


async def test_a_rollback_during_a_broken_connection_is_returned_later(
    bus: NatsProcess,
) -> None:
    async with Safety("code", url=bus.url) as safety:
        async with DaemonStandIn(bus.url) as before:
            answers(before, notice(1), notice(1, project="api"))
            assert await safety.rolled_back(timeout_s=0.5) is None, "that was before"
        bus.stop()
        bus.start()
        async with DaemonStandIn(bus.url) as after:
            answers(after, notice(1), notice(2, project="api"))
            heard = await safety.rolled_back(timeout_s=20)
            again = await safety.rolled_back(timeout_s=0.2)

    assert heard is not None
    assert (heard.project, heard.at.minute) == ("api", 2)
    assert again is None


async def test_an_agent_that_just_started_can_query_the_last_rollbacks(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    answers(daemon, notice(1), notice(2, project="api"))
    async with Safety("code", url=bus.url) as safety:
        found = await safety.last_rollbacks()

    assert [rollback.project for rollback in found] == ["shop", "api"]


@pytest.mark.parametrize("said", [{"approved": False, "reason": "r", "cause": "malformed"}, None])
async def test_an_unknown_query_returns_no_rollback(
    bus: NatsProcess, daemon: DaemonStandIn, said: dict[str, Any] | None
) -> None:
    daemon.permit = lambda _fields: said
    async with Safety("code", url=bus.url, deadline_s=0.2) as safety:
        assert await safety.last_rollbacks() == ()
        assert await safety.rolled_back(timeout_s=0.3) is None
        await daemon.say("state.rollback", notice())
        heard = await safety.rolled_back(timeout_s=20)

    assert heard is not None


async def test_a_client_that_is_not_open_returns_no_rollback() -> None:
    safety = Safety("code")

    assert await safety.rolled_back() is None
    assert await safety.last_rollbacks() == ()


def test_a_closed_blocking_client_returns_no_rollback(bus: NatsProcess) -> None:
    with SyncSafety("code", url=bus.url) as safety:
        pass

    assert safety.rolled_back() is None
    assert safety.last_rollbacks() == ()


@pytest.mark.parametrize("said", [b"", b"{}", b"[]", b"\xff", b'{"project": "shop"}'])
def test_an_invalid_notice_is_ignored(said: bytes) -> None:
    inbox = RollbackInbox("code")

    inbox.hear(said)

    assert not inbox._heard


async def test_a_full_inbox_drops_the_oldest_rollbacks() -> None:
    inbox = RollbackInbox("code")
    for number in range(MAX_HEARD + 1):
        at = f'"2026-03-01T{number // 60:02}:{number % 60:02}:00Z"'
        said = '{"project":"p","kind":"soft","commit":"4f2a","files":1,"agents":["code"],'
        inbox.hear(f'{said}"reason":"r","at":{at}}}'.encode())

    async def ask() -> Sequence[Rollback]:
        return ()

    found = [(await inbox.next(ask)).at.minute for _ in range(MAX_HEARD)]  # type: ignore[arg-type]
    assert found[0] == 1
