from datetime import date, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Announced, Due
from safetyd.core.policy import Policy
from safetyd.core.recipients import ChannelKind, QuietHours, Recipient, TellingConfig
from safetyd.extras.reports.report_keeper import (
    DAYS_BACK,
    ReportDelivery,
    ReportKeeper,
    reader_channels,
)
from safetyd.extras.reports.report_maker import ReportDays, ReportMaker
from safetyd.extras.reports.report_words import markdown
from safetyd.host import Spare
from safetyd.journal.audit_reading import Rests
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import Envelope
from tests.core.daily_report.day_events import DAY, FIRST, HOUR, SECOND, anomaly
from tests.extras.reports.audit_story import AuditFolder, numbered
from tests.servers import until
from tests.story import NOON, at, stop, tick

CHANNELS: dict[str, ChannelKind] = {"email": "email", "sms": "sms", "desktop": "desktop"}
AWAKE = QuietHours(start="00:00", end="00:00")
TELLING = TellingConfig(
    recipients=(
        Recipient(name="alice", channels=("email", "sms"), quiet=AWAKE),
        Recipient(name="bob", channels=("sms", "desktop"), quiet=AWAKE),
    ),
    channels=CHANNELS,
    batch_interval_s=0.0,
)


class KeeperRig:
    """A keeper at a time that can be set, and an engine that hears of what it puts."""

    def __init__(self, data_dir: Path) -> None:
        self.now = NOON
        self.spare = Spare(1e9, 1e6)
        self.delivery = ReportDelivery("07:00", ())
        self.folder = AuditFolder(data_dir)
        self.directory = data_dir / "reports"
        self.engine = Engine(Policy(telling=TELLING))
        self.journal: list[Event] = []
        self.reports = ReportMaker(self.folder.path, self._today, lambda: self.folder.seq)
        self.keeper = self.restarted()

    def restarted(self) -> ReportKeeper:
        return ReportKeeper(
            self.directory,
            self.reports,
            lambda: self.now,
            lambda: self.delivery,
            self._put,
            lambda _directory: self.spare,
        )

    def _today(self) -> date:
        return self.now.date()

    async def look(self, now: datetime) -> None:
        self.now = now
        await self.keeper.look()

    @property
    def kept(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*"))

    @property
    def announced(self) -> list[Announced]:
        return [event for event in self.journal if isinstance(event, Announced)]

    def _put(self, envelope: Envelope) -> None:
        moment = Moment(self.now, (self.now - NOON).total_seconds())
        self.journal += put(self.engine, envelope, moment)


@pytest.fixture
def rig(tmp_path: Path) -> KeeperRig:
    rig = KeeperRig(tmp_path)
    rig.folder.write(numbered([anomaly("low"), stop(1), anomaly("low", DAY)]))
    return rig


MIDNIGHT = NOON + timedelta(hours=12)
IN_THE_MORNING = MIDNIGHT + timedelta(hours=7)


async def test_a_day_is_kept_shortly_after_it_is_over(rig: KeeperRig) -> None:
    await rig.look(MIDNIGHT + timedelta(minutes=1))
    early = rig.kept
    await rig.look(MIDNIGHT + timedelta(minutes=3))

    assert early == []
    assert rig.kept == ["2026-03-01.md"]
    made = rig.reports.of(ReportDays(FIRST, FIRST, SECOND), Rests(0.0))
    assert (rig.directory / "2026-03-01.md").read_text() == markdown(made)


async def test_no_report_is_kept_on_a_disk_that_is_nearly_full(
    rig: KeeperRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.spare = Spare(-1.0, 1e6)
    await rig.look(MIDNIGHT + timedelta(minutes=3))
    assert rig.kept == []
    assert "is nearly full" in caplog.text

    rig.spare = Spare(1e9, 1e6)
    await rig.look(MIDNIGHT + timedelta(minutes=4))
    assert rig.kept == ["2026-03-01.md"]


async def test_a_report_that_was_kept_while_the_clock_was_ahead_is_made_again(
    rig: KeeperRig,
) -> None:
    await rig.look(NOON + timedelta(days=3))
    early = rig.kept
    await rig.look(NOON)
    back = rig.kept
    await rig.look(MIDNIGHT + timedelta(minutes=3))

    assert early == ["2026-03-01.md", "2026-03-02.md"]
    assert back == []
    assert rig.kept == ["2026-03-01.md"]


async def test_days_that_were_missed_are_made_up_for(rig: KeeperRig) -> None:
    """But for those on which nothing was recorded, and those too long ago."""
    await rig.look(NOON + timedelta(days=5))
    first = rig.kept
    await rig.look(NOON + timedelta(days=5, minutes=1))
    late = KeeperRig(rig.directory.parent / "late")
    late.folder.write(numbered([anomaly("low")]))
    await late.look(NOON + timedelta(days=DAYS_BACK + 1))

    assert first == rig.kept == ["2026-03-01.md", "2026-03-02.md"]
    assert late.kept == []


async def test_what_is_kept_already_stays_as_it_is(rig: KeeperRig) -> None:
    rig.directory.mkdir()
    (rig.directory / "2026-03-01.md").write_text("mine")

    await rig.look(MIDNIGHT + timedelta(hours=1))

    assert (rig.directory / "2026-03-01.md").read_text() == "mine"


async def test_the_report_is_sent_at_its_hour_to_who_wants_it(rig: KeeperRig) -> None:
    rig.delivery = ReportDelivery("07:00", ("alice", "bob", "nobody"))
    await rig.look(IN_THE_MORNING - timedelta(minutes=1))
    early = rig.announced
    await rig.look(IN_THE_MORNING)
    await rig.look(IN_THE_MORNING + timedelta(minutes=1))

    assert early == []
    assert [(event.recipients, event.channels) for event in rig.announced] == [
        (("alice",), ("email",)),
        (("bob",), ("sms",)),
    ]
    note = rig.announced[0].note
    assert note.title == "RED: daily report of 2026-03-01 (UTC)"
    assert "RED 1 emergency stop: 12:00 by alice: drill." in note.text
    assert "safetyd report --date 2026-03-01" in note.text
    assert note.sheet is not None
    assert [(rule.colour, rule.says) for rule in note.sheet.rules] == [
        ("RED", "1 emergency stop: 12:00 by alice: drill")
    ]
    made = rig.reports.of(ReportDays(FIRST, FIRST, SECOND), Rests(0.0))
    shown = [(part.title, part.lines) for part in note.sheet.sections]
    assert shown == [tuple(part) for part in made.sections]
    dues = [event for event in rig.journal if isinstance(event, Due)]
    dues += [e for e in rig.engine.handle(tick(19 * HOUR + 5)) if isinstance(e, Due)]
    assert {(event.recipient, event.channel) for event in dues} == {
        ("alice", "email"),
        ("bob", "sms"),
    }
    assert {item.kind for event in dues for item in event.items} == {"summary"}


async def test_after_a_restart_it_is_not_sent_again(rig: KeeperRig) -> None:
    rig.delivery = ReportDelivery("07:00", ("alice",))
    await rig.look(IN_THE_MORNING)
    rig.keeper = rig.restarted()
    await rig.look(IN_THE_MORNING + timedelta(hours=1))

    assert len(rig.announced) == 1


async def test_nobody_who_wants_it_gets_nothing(rig: KeeperRig) -> None:
    await rig.look(IN_THE_MORNING)

    assert (rig.kept, rig.announced) == (["2026-03-01.md"], [])


async def test_a_folder_that_cannot_be_written_is_told_and_tried_again(
    rig: KeeperRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.directory.write_text("a file is in the way")
    await rig.look(MIDNIGHT + timedelta(hours=1))
    rig.directory.unlink()
    await rig.look(MIDNIGHT + timedelta(hours=2))

    assert "cannot store the daily report" in caplog.text
    assert rig.kept == ["2026-03-01.md"]


def test_a_report_goes_where_there_is_room_for_words() -> None:
    assert reader_channels(TELLING, "alice") == ("email",)
    assert reader_channels(TELLING, "bob") == ("sms",)
    assert reader_channels(TELLING, "nobody") == ()


async def test_reports_are_kept_as_soon_as_it_runs(rig: KeeperRig) -> None:
    rig.now = at(DAY)
    file = rig.directory / "2026-03-01.md"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.keeper.run)
        await until(file.exists)
        tasks.cancel_scope.cancel()

    assert "Overall Health: RED" in file.read_text()
