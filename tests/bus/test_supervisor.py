import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from safetyd.bus.connections import Connection
from safetyd.bus.supervisor import Supervisor
from safetyd.clock import uptime
from tests.bus.server_rig import Embedded, singing
from tests.servers import until


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the intervals of the checks."""
    monkeypatch.setattr("safetyd.bus.connections.CANARY_S", 0.05)
    monkeypatch.setattr("safetyd.bus.supervisor.LOOK_S", 0.05)
    monkeypatch.setattr("safetyd.bus.supervisor.FROZEN_S", 0.75)


def deaf_for(seconds: float) -> Connection:
    link = Connection("test", list[str]().append)
    link._heard = uptime() - seconds
    return link


def judged(
    server: Embedded, link: Connection, *, started_s: float, unwritten_s: float = 0.0
) -> str:
    """Return the problem that a supervisor finds with a server of this age."""
    supervisor = Supervisor(server, link, Path("/"), lambda: unwritten_s)
    supervisor._started -= started_s
    return supervisor._problem()


async def test_killed_server_is_restarted(
    server: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    async with singing(server, []) as link, anyio.create_task_group() as tasks:
        tasks.start_soon(Supervisor(server, link, Path("/"), float).restart)
        first = server.pid

        server.kill()
        await until(lambda: server.pid != first and link.deaf_s < 0.5)
        tasks.cancel_scope.cancel()

    assert "exit code -9" in caplog.text


async def test_frozen_server_is_restarted(
    server: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    async with singing(server, []) as link, anyio.create_task_group() as tasks:
        supervisor = Supervisor(server, link, Path("/"), float)
        supervisor._started -= 60
        tasks.start_soon(supervisor.restart)
        tasks.start_soon(supervisor.watch)
        first = server.pid

        server.freeze()
        await until(lambda: server.pid != first and link.deaf_s < 0.5)
        tasks.cancel_scope.cancel()

    assert "killing nats-server: it has not answered for" in caplog.text


async def test_server_is_not_blamed_while_the_daemon_itself_is_busy(
    server: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    async with singing(server, []) as link, anyio.create_task_group() as tasks:
        supervisor = Supervisor(server, link, Path("/"), float)
        supervisor._started -= 60
        tasks.start_soon(supervisor.watch)
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            time.sleep(1.0)  # noqa: ASYNC251 - this is what blocks the daemon
            await anyio.lowlevel.checkpoint()

        await until(lambda: link.deaf_s < 0.25)
        tasks.cancel_scope.cancel()

    assert "killing" not in caplog.text


def test_server_that_answers_has_no_problem(server: Embedded) -> None:
    assert judged(server, deaf_for(0.1), started_s=60) == ""


def test_server_that_does_not_answer_has_a_problem(server: Embedded) -> None:
    assert judged(server, deaf_for(3.0), started_s=60) == "it has not answered for 3.0 s"


def test_server_has_time_to_start(server: Embedded) -> None:
    assert judged(server, deaf_for(100.0), started_s=4) == ""
    assert judged(server, deaf_for(100.0), started_s=6) != ""


def test_server_that_answered_before_gets_no_time_to_start(server: Embedded) -> None:
    assert judged(server, deaf_for(3.0), started_s=4) != ""


def test_server_that_cannot_write_despite_free_space_has_a_problem(server: Embedded) -> None:
    said = judged(server, deaf_for(0.1), started_s=60, unwritten_s=10.0)

    assert "10.0 s" in said


def test_server_without_time_to_write_has_no_problem(server: Embedded) -> None:
    assert judged(server, deaf_for(0.1), started_s=1, unwritten_s=10.0) == ""


def test_full_disk_is_no_problem_of_the_server(
    server: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.bus.supervisor.ROOM_BYTES", 2**63)

    assert judged(server, deaf_for(0.1), started_s=60, unwritten_s=10.0) == ""
