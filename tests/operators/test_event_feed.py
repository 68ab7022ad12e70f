from pathlib import Path

import anyio
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.journal.audit_reading import newest_events
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.operators.event_feed import PAGE, safety_events
from tests.story import play, propose, resume, stop


class Daemon:
    """What happens, its audit files, and what is kept of it in memory."""

    def __init__(self, directory: Path, kept: int = 10) -> None:
        self.directory = directory
        self._kept = kept
        self._engine = Engine(Policy())
        self._audit = Audit(directory, 1024 * 1024)
        self._audit.open()
        self.recent = RecentEvents(0, self._earlier)
        self.told: list[int] = []

    def happen(self, t: int) -> None:
        events = play(self._engine, propose(t, id=f"p{t}"), stop(t, epoch=t), resume(t))
        self._audit.append([encode(event) for event in events], events[-1].seq)
        self.recent.observe(events)
        self.told += [event.seq for event in events if isinstance(event, SafetyEvent)]

    async def restart(self) -> None:
        """Forget what is in memory."""
        self.recent = RecentEvents(self._engine.seq, self._earlier)
        await self.recent.refill()

    def _earlier(self, before: int) -> tuple[list[Event], int]:
        return newest_events(self.directory, self._kept, before)


async def heard(daemon: Daemon, after: int, count: int) -> list[int]:
    """Return the numbers of so many events that follow."""
    found: list[int] = []
    with anyio.fail_after(10):
        async for page in safety_events(daemon.recent, daemon.directory, after):
            assert len(page) <= PAGE
            found += [event.seq for event in page]
            if len(found) >= count:
                break
    return found


@pytest.mark.req("S1.26")
@pytest.mark.parametrize("place", [0, 1, 50, -3, -1])
async def test_a_reader_goes_on_from_any_event_without_gap_or_double(
    tmp_path: Path, place: int
) -> None:
    daemon = Daemon(tmp_path)
    for t in range(300):
        daemon.happen(t)
    await daemon.restart()
    daemon.happen(300)
    daemon.happen(301)
    wanted = [seq for seq in daemon.told if seq > daemon.told[place]]

    if not wanted:
        daemon.happen(302)
        wanted = daemon.told[-2:]
    assert await heard(daemon, wanted[0] - 1, len(wanted)) == wanted


async def test_a_slow_reader_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.monitoring.recent_events.MAX_EVENTS", 10)
    monkeypatch.setattr("safetyd.monitoring.recent_events._SLACK", 5)
    daemon = Daemon(tmp_path)
    found: list[int] = []

    with anyio.fail_after(10):
        daemon.happen(0)
        async for page in safety_events(daemon.recent, daemon.directory, 0):
            found += [event.seq for event in page]
            if len(daemon.told) < 200:
                for t in range(50):
                    daemon.happen(len(daemon.told) + t)
            elif len(found) >= len(daemon.told):
                break

    assert found == daemon.told


async def test_what_is_new_is_heard_when_it_happens(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    got: list[int] = []

    async with anyio.create_task_group() as tasks:

        async def follow() -> None:
            got.extend(await heard(daemon, 0, 2))

        tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        assert got == []
        daemon.happen(1)

    assert got == daemon.told
