"""Calls that wait through a restart of the daemon, or longer than the bus routes replies."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import anyio
import pytest
from anyio.to_thread import run_sync

from safetyd.bus.keyring import Keyring
from safetyd.bus.server_config import RESPONSE
from safetyd.client import Approved, Safety, Timeout
from tests.client.person import Person
from tests.conftest import StartDaemon, safetyd
from tests.nats_process import NatsProcess
from tests.servers import until

PUSH: Final = "git push origin main"
JETSTREAM: Final = """
jetstream {{ store_dir: "{store}", max_file: 2GB, sync_interval: always }}
max_payload: 256KB
include "accounts.conf"
"""


async def _during(work: Callable[[], Awaitable[object]], meanwhile: Awaitable[None]) -> object:
    """Run `work` and `meanwhile` concurrently and return the result of `work`."""
    results: list[object] = []

    async def keep() -> None:
        results.append(await work())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep)
        await meanwhile
    return results[0]


@pytest.mark.journey
@pytest.mark.req("S3.22")
async def test_a_waiting_call_survives_a_kill_of_the_daemon(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    person = Person(daemon)

    async def restart_and_approve() -> None:
        request_id = await person.asked("code")
        await run_sync(daemon.kill)
        await run_sync(daemon.start)
        person.approve(request_id, "go on")

    async with Safety("code", data_dir=daemon.data_dir) as safety:
        proposed = await _during(
            lambda: safety.propose("push", text=PUSH, wait=True), restart_and_approve()
        )
        asked = await _during(
            lambda: safety.request_permission("push", wait=True), restart_and_approve()
        )
        again = await safety.propose("push", text=PUSH)

    assert getattr(proposed, "cause", "") == "human_approved"
    assert asked == Approved(message="go on")
    assert again.status == "pending", "each approval was used"


WAITING: Final = """
import sys
from safetyd.client import SyncSafety
with SyncSafety("code", data_dir=sys.argv[1]) as safety:
    safety.propose("push", text=sys.argv[2], wait=True, timeout_s=float(sys.argv[3]))
"""
KILLED_S: Final = 4.0


@pytest.mark.journey
async def test_a_waiting_client_gets_the_answer_though_an_earlier_client_was_killed(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon()
    person = Person(daemon)
    arguments = (WAITING, str(daemon.data_dir), PUSH, str(KILLED_S))

    async def approve_later(request_id: str) -> None:
        await until(lambda: person.card(request_id)["repeats"])
        async with Safety("other", data_dir=daemon.data_dir) as other:
            silence = await other.propose("push", text=PUSH, wait=True, timeout_s=KILLED_S)
        assert silence.cause == "expired_no_response"
        person.approve(request_id)

    async with (
        await anyio.open_process([sys.executable, "-c", *arguments]) as killed,
        Safety("code", data_dir=daemon.data_dir) as safety,
    ):
        request_id = await person.asked("code")
        killed.kill()
        decision = await _during(
            lambda: safety.propose("push", text=PUSH, wait=True, timeout_s=60),
            approve_later(request_id),
        )

    assert getattr(decision, "cause", "") == "human_approved"


class Forgetful:
    """A bus that stops routing a reply after two seconds, and its keys."""

    def __init__(self, directory: Path) -> None:
        keys = Keyring(directory / "keys")
        keys.make_own()
        self.operator = keys.operator
        self.agent = keys.add("agents", "code")
        printed = safetyd("nats-config", "--data-dir", str(directory)).stdout
        assert f'response_threshold: "{RESPONSE}"' in printed
        (directory / "accounts.conf").write_text(printed.replace(f'"{RESPONSE}"', '"2s"'))
        self.bus = NatsProcess(directory, JETSTREAM.format(store=directory / "store"))
        self.config = f'[bus]\nurl = "{self.bus.url}"\nkey_file = "{keys.daemon}"\n'


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Forgetful]:
    forgetful = Forgetful(tmp_path)
    yield forgetful
    forgetful.bus.stop()


@pytest.mark.journey
async def test_a_call_can_wait_longer_than_the_bus_routes_replies(
    start_daemon: StartDaemon, forgetful: Forgetful
) -> None:
    person = Person(start_daemon(forgetful.config), forgetful.operator)

    async with Safety("code", url=forgetful.bus.url, key_file=forgetful.agent) as safety:

        async def approve_in_the_end() -> None:
            request_id = await person.asked("code")
            silence = await safety.request_permission("deploy", wait=True, timeout_minutes=0.05)
            assert silence == Timeout(timeout_minutes=0.05)
            person.approve(request_id)

        decision = await _during(
            lambda: safety.propose("push", text=PUSH, wait=True), approve_in_the_end()
        )

    assert getattr(decision, "cause", "") == "human_approved"
