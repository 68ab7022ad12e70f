import socket
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.policy import Policy
from safetyd.daemon import background_tasks
from safetyd.daemon.background_tasks import feed_watchdog, log_problems, repeat_state
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings
from safetyd.journal.mailbox import Mailbox
from tests.captured_connection import CapturedPublisher
from tests.servers import until
from tests.story import stop


async def test_stop_and_mode_are_repeated_for_those_who_came_late(tmp_path: Path) -> None:
    ear, stop_flag = CapturedPublisher(), StopFlag()
    engine = Engine(Policy())
    engine.handle(stop(0))
    stop_flag.set(engine.stop.stops[0])
    emergency_stop = EmergencyStop(stop_flag, Mailbox(), ear.publisher, Subjects(), Clock())
    settings = Settings(Config(mode="hybrid"), None, tmp_path)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(repeat_state, emergency_stop, ear.publisher, Subjects(), settings)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    stopped, mode = ear.said()
    assert (stopped.subject, stopped.fields["active"]) == ("safety.v1.state.stop", True)
    assert mode.subject == "safety.v1.state.mode"
    assert mode.fields == {"mode": "hybrid", "profile": "strict"}


async def test_watchdog_hears_from_us_only_while_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "2000")
    asked: list[int] = []

    def problem() -> str:
        asked.append(1)
        return "" if len(asked) == 1 else "the bus is deaf"

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed_watchdog, problem)
            await until(lambda: len(asked) >= 3)
            tasks.cancel_scope.cancel()

        assert sock.recv(64) == b"WATCHDOG=1"
        with pytest.raises(BlockingIOError):
            sock.recv(64)


async def test_without_a_watchdog_there_is_nothing_to_feed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)

    with anyio.fail_after(30):
        await feed_watchdog(lambda: "never asked")


async def test_trouble_is_told_when_it_begins_goes_on_and_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background_tasks, "LOOK_S", 0.001)
    monkeypatch.setattr(background_tasks, "TROUBLE_S", 0.0)
    found, done = ["", "no room", "no room", "", ""], anyio.Event()

    def problem() -> str:
        if not found:
            done.set()
        return found.pop(0) if found else ""

    with caplog.at_level("INFO"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log_problems, problem)
            await done.wait()
            tasks.cancel_scope.cancel()

    told = [record.getMessage() for record in caplog.records]
    assert ["no room" in line for line in told] == [True, True, False]
