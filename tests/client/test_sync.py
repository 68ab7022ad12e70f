import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import anyio
import pytest
from anyio.to_thread import run_sync

from safetyd.client import Blocked, Decision, SyncSafety
from tests.client.daemon_stand_in import DaemonStandIn, silent
from tests.nats_process import NatsProcess

NOWHERE = "nats://127.0.0.1:1"


def propose_and_report(url: str) -> Decision:
    with SyncSafety("code", url=url) as safety:
        decision = safety.propose("read_file", paths=["a"])
        assert safety.report(decision.id, ok=True, latency_ms=3)
        assert safety.iteration("s")
        assert not safety.stopped
    return decision


async def test_a_script_can_propose_report_and_close(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    decision = await run_sync(propose_and_report, bus.url)

    assert decision.allowed
    assert (await daemon.told())["id"] == decision.id


def propose_from_two_threads(url: str) -> list[Decision]:
    start = threading.Barrier(2)
    with SyncSafety("code", url=url) as safety, ThreadPoolExecutor(2) as threads:

        def some() -> list[Decision]:
            start.wait()
            return [safety.propose("read_file") for _ in range(20)]

        pair = [threads.submit(some), threads.submit(some)]
        return [decision for each in pair for decision in each.result()]


async def test_two_threads_can_use_one_client(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    decisions = await run_sync(propose_from_two_threads, bus.url)

    assert all(decision.allowed for decision in decisions)
    assert len({decision.id for decision in decisions}) == daemon.unread() == 40


def guard_both_ways(url: str) -> None:
    with SyncSafety("code", url=url) as safety:
        with safety.guard("read_file"):
            pass
        with pytest.raises(KeyError), safety.guard("read_file"):
            raise KeyError("k")


async def test_guard_reports_the_body(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    await run_sync(guard_both_ways, bus.url)

    assert (await daemon.told())["ok"] is True
    assert (await daemon.told())["error"] == "KeyError: 'k'"


def test_guard_does_not_run_the_body_without_a_daemon() -> None:
    with (
        SyncSafety("code", url=NOWHERE) as safety,
        pytest.raises(Blocked, match="ask the operator to start safetyd"),
        safety.guard("read_file"),
    ):
        pytest.fail("the body ran")


def test_a_wrong_argument_raises() -> None:
    with pytest.raises(ValueError, match="name"):
        SyncSafety("a b")
    with SyncSafety("code", url=NOWHERE) as safety, pytest.raises(TypeError):
        safety.propose("read_file", text=3)  # type: ignore[arg-type]


def test_a_closed_client_blocks_everything() -> None:
    safety = SyncSafety("code", url=NOWHERE)
    safety.close()
    safety.close()

    decision = safety.propose("read_file")

    assert (decision.allowed, decision.cause) == (False, "unavailable")
    assert not safety.report("p1", ok=True)
    assert not safety.heartbeat()


async def test_close_ends_a_proposal_of_another_thread(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent
    safety = await run_sync(partial(SyncSafety, "code", url=bus.url, deadline_s=60))
    answers: list[Decision] = []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_sync, lambda: answers.append(safety.propose("read_file")))
        await daemon.asked()
        await run_sync(safety.close)

    assert [decision.cause for decision in answers] == ["unavailable"]


FORGETFUL = """
import sys
from safetyd.client import SyncSafety
safety = SyncSafety("code", url=sys.argv[1])
decision = safety.propose("read_file")
safety.report(decision.id, ok=True)
print(decision.id)
"""


async def test_a_script_that_does_not_close_still_delivers_outcomes(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    with anyio.fail_after(10):
        done = await anyio.run_process([sys.executable, "-c", FORGETFUL, bus.url], check=True)

    assert (await daemon.told())["id"] == done.stdout.decode().strip()
    assert done.stderr == b""


HASTY = """
import sys, threading
from safetyd.client import SyncSafety
start = threading.Thread.start


def refuse(thread):
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("can't create new thread at interpreter shutdown")  # as later Pythons do
    start(thread)


threading.Thread.start = refuse
safety = SyncSafety("code", url=sys.argv[1])
assert all(safety.report(f"p{number}", ok=True) for number in range(3))
"""


async def test_a_script_that_ends_before_it_connects_still_delivers_outcomes(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    with anyio.fail_after(10):
        done = await anyio.run_process([sys.executable, "-c", HASTY, bus.url], check=True)

    assert [(await daemon.told())["id"] for _ in range(3)] == ["p0", "p1", "p2"]
    assert done.stderr == b""


UNHEARD = """
from safetyd.client import SyncSafety
safety = SyncSafety("code", url="nats://127.0.0.1:1")
assert all(safety.report(f"p{number}", ok=True) for number in range(3))
"""


async def test_a_script_that_does_not_close_logs_undelivered_outcomes() -> None:
    with anyio.fail_after(20):
        done = await anyio.run_process([sys.executable, "-c", UNHEARD], check=True)

    assert b"closed with 3 of 3 outcomes undelivered after" in done.stderr


FORKED = """
import os
from safetyd.client import SyncSafety
safety = SyncSafety("code", url="nats://127.0.0.1:1")
child = os.fork()
if child == 0:
    os._exit(0 if safety.propose("read_file").cause == "unavailable" else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("end", ["os._exit", "raise SystemExit"])
def test_a_forked_child_is_blocked_and_does_not_hang(end: str) -> None:
    script = FORKED.replace("os._exit", end)
    done = subprocess.run([sys.executable, "-c", script], timeout=10, check=False)

    assert done.returncode == 0
