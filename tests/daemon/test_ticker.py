import anyio
import pytest

from safetyd.agents.refusals import Refusals
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Refused
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.policy import Policy
from safetyd.daemon.ticker import Ticker
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from tests.captured_connection import work_off
from tests.story import at


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
    clockwork.mailbox.record(lambda moment: ClockStepped(at=moment.at, t=moment.t, seconds=9.0))
    clockwork.ticker.count_refusals()

    events = work_off(clockwork.mailbox, engine, clockwork.clock)

    times = [event.t for event in events]
    assert times == sorted(times)
