from datetime import date, timedelta
from pathlib import Path

import pytest

from safetyd.extras.reports.report_maker import KEPT, MAX_DAYS, ReportDays, ReportMaker, days_of
from safetyd.journal.audit import files
from safetyd.journal.audit_reading import Rests
from safetyd.operators.contract.report_contract import ReportQuestion
from safetyd.operators.replies import CommandRefused
from tests.core.daily_report.day_events import DAY, FIRST, HOUR, SECOND, anomaly
from tests.extras.reports.audit_story import AuditFolder, numbered, rich_day
from tests.story import stop

QUICKLY = Rests(0.0)


class ReportRig:
    """Reports over audit files that grow, on a day that can be set."""

    def __init__(self, data_dir: Path) -> None:
        self.today = FIRST
        self.folder = AuditFolder(data_dir)
        self.reports = ReportMaker(self.folder.path, lambda: self.today, lambda: self.folder.seq)


@pytest.fixture
def rig(tmp_path: Path) -> ReportRig:
    return ReportRig(tmp_path)


def test_a_report_of_today_grows_and_is_known_until_something_happens(rig: ReportRig) -> None:
    today = ReportQuestion()
    rig.folder.write(numbered([anomaly("low")]))
    unknown = rig.reports.find(today)
    first = rig.reports.make(today, QUICKLY)
    known = rig.reports.find(today)
    rig.folder.write(numbered([stop(1)], 1))
    old = rig.reports.find(today)
    second = rig.reports.make(today, QUICKLY)

    assert (unknown, old) == (None, None)
    assert known == first
    assert (first.report.colour, second.report.colour) == ("GREEN", "RED")
    assert first.report.so_far


def test_what_is_over_is_read_once(rig: ReportRig) -> None:
    """Also without the files it is known, and the same as it was."""
    day = rich_day()
    rig.folder.write(day)
    rig.folder.write(numbered([anomaly("low", 2 * DAY)], len(day)))
    rig.today = FIRST + timedelta(days=3)
    asked = ReportQuestion(date=FIRST.isoformat())
    made = rig.reports.make(asked, QUICKLY)
    for path in files(rig.folder.path):
        path.unlink()
    rig.today += timedelta(days=1)

    assert rig.reports.find(asked) == made
    assert not made.report.so_far


def test_of_what_is_over_so_much_is_kept(rig: ReportRig) -> None:
    rig.folder.write(numbered([anomaly("low", n * DAY) for n in range(KEPT + 3)]))
    rig.today = FIRST + timedelta(days=KEPT + 2)
    for n in range(KEPT + 1):
        rig.reports.make(ReportQuestion(date=str(FIRST + timedelta(days=n))), QUICKLY)

    assert rig.reports.find(ReportQuestion(date=str(FIRST))) is None
    assert rig.reports.find(ReportQuestion(date=str(SECOND))) is not None


def test_a_day_that_is_over_may_still_grow_until_another_day_has_an_event(rig: ReportRig) -> None:
    """What was decided a moment before midnight may be written down a moment after it."""
    rig.folder.write(numbered([anomaly("low")]))
    rig.today = SECOND
    asked = ReportQuestion(date="yesterday")
    rig.reports.make(asked, QUICKLY)
    rig.folder.write(numbered([stop(11 * HOUR)], 1))

    assert rig.reports.find(asked) is None
    assert rig.reports.make(asked, QUICKLY).report.colour == "RED"


def test_several_days_are_the_sum_of_each(rig: ReportRig) -> None:
    rig.folder.write(numbered([anomaly("low"), anomaly("high", DAY), anomaly("low", DAY + 1)]))
    rig.today = SECOND

    made = rig.reports.make(ReportQuestion(since=str(FIRST)), QUICKLY).report

    assert (made.since, made.until, made.anomalies.total) == (str(FIRST), str(SECOND), 3)
    assert [row.colour for row in made.days] == ["GREEN", "YELLOW"]


def test_a_day_without_files_says_so(rig: ReportRig) -> None:
    assert rig.reports.make(ReportQuestion(), QUICKLY).report.events == 0


@pytest.mark.parametrize(
    ("asked", "days"),
    [
        (ReportQuestion(), (SECOND, SECOND)),
        (ReportQuestion(date="today"), (SECOND, SECOND)),
        (ReportQuestion(date="yesterday"), (FIRST, FIRST)),
        (ReportQuestion(since="2026-02-20"), (date(2026, 2, 20), SECOND)),
    ],
)
def test_days_are_named_by_words_or_dates(asked: ReportQuestion, days: tuple[date, date]) -> None:
    assert days_of(asked, SECOND) == ReportDays(*days, SECOND)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (ReportQuestion(date="soon"), "'soon' is not a day: use a date such as 2026-03-01"),
        (ReportQuestion(since="1h"), "`safetyd decisions --only-events --since 1h`"),
        (ReportQuestion(date="2026-03-09"), "2026-03-09 is in the future: today is 2026-03-02"),
        (ReportQuestion(date="today", since="today"), "not both"),
        (ReportQuestion(since="2020-01-01"), f"more than {MAX_DAYS} days ago; use 2025-12-01"),
    ],
)
def test_what_is_no_day_is_refused_with_what_to_give(asked: ReportQuestion, says: str) -> None:
    with pytest.raises(CommandRefused, match=says):
        days_of(asked, SECOND)
