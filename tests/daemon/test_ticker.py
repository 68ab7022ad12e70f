import socket
from pathlib import Path

import anyio
import pytest

from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.agents.refusals import Refusals
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Refused
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.policy import Policy
from safetyd.daemon import ticker as module
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings
from safetyd.daemon.ticker import Ticker, feed_watchdog, repeat_state, tell_trouble
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from tests.captured_connection import CapturedPublisher, work_off
from tests.servers import until
from tests.story import at, stop


class Clockwork:
    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.clock = Clock()
        self.refusals = Refusals()
        self.ticker = Ticker(self.mailbox, self.clock, self.refusals)

    async def until_an_envelope(self, task) -> None:
        """Run a task until it has put something into the mailbox."""
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(task)
                await self.mailbox.wait()
                tasks.cancel_scope.cancel()

    def events(self) -> list[Event]:
        """Return what the envelopes in the mailbox are about."""
        heard: list[Event] = []
        while (envelope := self.mailbox.take()) is not None:
            assert isinstance(envelope, EventEnvelope)
            event = envelope._make(Engine(Policy()), Moment(at(9), 9.0))
            assert event is not None
            envelope.deliver(late=False)
            heard.append(event)
        return heard


async def test_time_passes_for_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.daemon.ticker.TICK_S", 0.0)
    clockwork = Clockwork()

    await clockwork.until_an_envelope(clockwork.ticker.tick)

    assert clockwork.events()[0] == Ticked(at=at(9), t=9.0)
    assert clockwork.ticker.lag_s >= 0.0


async def test_refusals_are_counted_into_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.daemon.ticker.WINDOW_S", 0.0)
    clockwork = Clockwork()
    for _ in range(3):
        clockwork.refusals.count("code", "malformed", "not JSON")

    await clockwork.until_an_envelope(clockwork.ticker.count)

    assert clockwork.events() == [
        Refused(at=at(9), t=9.0, agent="code", cause="malformed", count=3, example="not JSON")
    ]


def test_time_never_runs_backwards_in_the_journal() -> None:
    clockwork, engine = Clockwork(), Engine(Policy())
    clockwork.refusals.count("code", "malformed", "not JSON")
    clockwork.ticker.put(lambda moment: ClockStepped(at=moment.at, t=moment.t, seconds=9.0))
    clockwork.ticker.count_refusals()

    events = work_off(clockwork.mailbox, engine, clockwork.clock)

    times = [event.t for event in events]
    assert times == sorted(times)


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
    monkeypatch.setattr(module, "TICK_S", 0.001)
    monkeypatch.setattr(module, "TROUBLE_S", 0.0)
    found, done = ["", "no room", "no room", "", ""], anyio.Event()

    def problem() -> str:
        if not found:
            done.set()
        return found.pop(0) if found else ""

    with caplog.at_level("INFO"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell_trouble, problem)
            await done.wait()
            tasks.cancel_scope.cancel()

    told = [record.getMessage() for record in caplog.records]
    assert told == ["nothing is allowed: no room"] * 2 + ["all is well again"]
