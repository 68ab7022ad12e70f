"""Store the report of each past day as a file, and send the newest one to its recipients.

Missed reports of the last week are made at the next start. A day without events has no report.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from safetyd.core.daily_report.day_report import DailyReport
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Announced, Note
from safetyd.core.recipients import ChannelKind, Recipient, TellingConfig
from safetyd.extras.reports.report_maker import ReportDays, ReportMaker
from safetyd.extras.reports.report_words import markdown, note_sheet, note_text, note_title
from safetyd.host import Spare, write_whole
from safetyd.journal.audit_reading import Rests
from safetyd.journal.mailbox import Envelope, EventEnvelope

LOOK_S: Final = 30.0
SETTLED: Final = timedelta(minutes=2)  # a day counts as complete this long after midnight
DAYS_BACK: Final = 7

_WORDY: Final[tuple[ChannelKind, ...]] = ("email", "chat", "webhook")

log = logging.getLogger("safetyd.reports")


class ReportDelivery(NamedTuple):
    """The time at which the previous day's report is sent, and its recipients."""

    at: str
    readers: tuple[str, ...]


class ReportKeeper:
    """`now` returns the time in the configured zone; `put` sends an envelope to the engine."""

    def __init__(
        self,
        directory: Path,
        reports: ReportMaker,
        now: Callable[[], datetime],
        delivery: Callable[[], ReportDelivery],
        put: Callable[[Envelope], None],
        spare: Callable[[Path], Spare],
    ) -> None:
        self._directory = directory
        self._reports = reports
        self._now = now
        self._delivery = delivery
        self._put = put
        self._spare = spare
        self._empty: set[date] = set()  # days on which nothing was recorded
        self._sent: set[date] = set()

    async def run(self) -> None:
        while True:
            await self.look()
            await anyio.sleep(LOOK_S)

    async def look(self) -> None:
        """Store and send the reports that are due."""
        now = self._now()
        try:
            await self._keep(now)
            await self._send(now)
        except OSError as exc:
            log.error("cannot store the daily report, will retry: %s", exc)  # noqa: TRY400 - the cause is in the text

    async def _keep(self, now: datetime) -> None:
        today = (now - SETTLED).date()
        await anyio.to_thread.run_sync(self._remove_early, now.date())
        for back in range(DAYS_BACK, 0, -1):
            day = today - timedelta(days=back)
            path = self._path(day)
            if day in self._empty or await anyio.Path(path).exists():
                continue
            report = await self._of(day)
            if report.events:
                await anyio.to_thread.run_sync(self._write, path, markdown(report).encode())
            else:
                self._empty.add(day)

    async def _send(self, now: datetime) -> None:
        """Send the newest report if its time has come."""
        delivery = self._delivery()
        if not delivery.readers or now.time() < time.fromisoformat(delivery.at):
            return
        days = [now.date() - timedelta(days=back) for back in range(1, DAYS_BACK + 1)]
        for day in days:
            if day in self._sent:
                return
            if await anyio.Path(self._path(day)).exists():
                report = await self._of(day)
                for reader in delivery.readers:
                    self._put(EventEnvelope(announcing(report, reader), lambda: None))
                self._sent.add(day)
                return

    async def _of(self, day: date) -> DailyReport:
        days = ReportDays(day, day, self._now().date())
        return await anyio.to_thread.run_sync(self._reports.of, days, Rests())

    def _path(self, day: date) -> Path:
        return self._directory / f"{day.isoformat()}.md"

    def _remove_early(self, today: date) -> None:
        """Remove reports of days that are not over, made while the clock was ahead."""
        for path in self._directory.glob("????-??-??.md"):
            with suppress(ValueError):
                if date.fromisoformat(path.stem) >= today:
                    log.warning("removing %s, because its day is not over", path)
                    path.unlink(missing_ok=True)

    def _write(self, path: Path, text: bytes) -> None:
        spare = self._spare(self._directory.parent)
        if spare.bytes < len(text) or spare.files < 1:
            raise OSError(f"the disk of {self._directory} is nearly full")
        self._directory.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, text)


def announcing(report: DailyReport, reader: str) -> Callable[[EngineState, Moment], Event | None]:
    """Return a function that makes the event to send a report, or None if it was already sent."""
    id_ = f"report_{report.until}_{reader}"

    def made(state: EngineState, moment: Moment) -> Event | None:
        channels = reader_channels(state.policy.telling, reader)
        if not channels or state.outbox.note(id_) is not None:
            return None
        note = Note(
            id=id_,
            kind="summary",
            urgency="normal",
            title=note_title(report),
            text=note_text(report),
            at=moment.at,
            sheet=note_sheet(report),
        )
        return Announced(
            at=moment.at, t=moment.t, note=note, recipients=(reader,), channels=channels
        )

    return made


def reader_channels(telling: TellingConfig, reader: str) -> tuple[str, ...]:
    """Return the channels for a report: mail, chat and webhook, or else the first channel."""
    people = {person.name: person for person in telling.recipients}
    person = people.get(reader, Recipient(name=reader, channels=()))
    known = [channel for channel in person.channels if channel in telling.channels]
    wordy = [channel for channel in known if telling.channels[channel] in _WORDY]
    return tuple(wordy or known[:1])
