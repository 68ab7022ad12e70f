from datetime import date, timedelta
from pathlib import Path

import pytest

from safetyd.core.daily_report.day_numbers import DayNumbers
from safetyd.core.daily_report.report_fold import ReportFold
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.policy import Policy
from safetyd.extras.reports.day_reading import DayReading, policy_now
from safetyd.journal.audit import files
from safetyd.journal.audit_reading import Rests
from tests.core.daily_report.day_events import DAY, FIRST, HOUR, anomaly, configured, happens
from tests.extras.reports.audit_story import POLICY, AuditFolder, numbered, rich_day

QUICKLY = Rests(0.0)


def day_of(audit: Path, day: date = FIRST) -> DayNumbers:
    reading = DayReading(audit, day, day)
    reading.read(QUICKLY)
    return reading.fold.days[day]


def counted(events: list[Event], day: date = FIRST) -> DayNumbers:
    fold = ReportFold()
    for event in events:
        fold.fold(event)
    return fold.days[day]


def test_the_files_say_the_same_as_the_events(tmp_path: Path) -> None:
    journal = rich_day()
    AuditFolder(tmp_path).write(journal)

    assert day_of(tmp_path / "audit") == counted(journal)


def test_a_day_is_the_same_however_the_files_are_cut_and_whatever_came_later(
    tmp_path: Path,
) -> None:
    journal = rich_day()
    later = [anomaly("low", n * HOUR) for n in range(48, 200, 3)]
    folder = AuditFolder(tmp_path, max_bytes=4096)
    folder.write(journal)
    before = day_of(folder.path)
    folder.write(numbered(later, journal[-1].seq))

    assert len(files(folder.path)) > 5
    assert day_of(folder.path) == before == counted(journal)


def test_what_was_configured_long_before_still_says_the_zone_and_the_limits(
    tmp_path: Path,
) -> None:
    """Files from before the week are not read, but for the rules that hold."""
    folder = AuditFolder(tmp_path, max_bytes=4096)
    old = [configured(-40 * DAY), configured(-30 * DAY, POLICY)]
    some = [anomaly("low", n * HOUR) for n in range(-700, 12)]
    folder.write(numbered([*old, *some]))

    reading = DayReading(folder.path, FIRST, FIRST)
    reading.read(QUICKLY)

    assert reading.fold.policies[FIRST] == POLICY
    first_days = sorted(reading.fold.days)[1:]  # the first is when it was configured
    assert first_days[0] >= FIRST - timedelta(days=3)
    # In Berlin the day ends an hour earlier than in UTC.
    assert reading.fold.days[FIRST].anomalies == {"low": 24}
    assert policy_now(folder.path) == POLICY


def test_a_person_is_looked_for_in_the_week_before(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    seen = happens(PersonSeen, -5 * DAY, by="alice", how="ack")
    early = configured(-9 * DAY)
    folder.write(numbered([early, seen, anomaly("low", -4 * DAY), anomaly("low", 0.0)]))

    assert day_of(folder.path).without_person.value == 5 * DAY


def test_with_nobody_seen_in_the_files_their_begin_counts(tmp_path: Path) -> None:
    young, old = AuditFolder(tmp_path / "young"), AuditFolder(tmp_path / "old")
    young.write(numbered([anomaly("low", -3 * DAY), anomaly("low", 0.0)]))
    old.write(numbered([anomaly("low", -20 * DAY), anomaly("low", 0.0)]))

    assert day_of(young.path).without_person.value == 3 * DAY
    assert day_of(old.path).without_person.value == 7 * DAY


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    journal = rich_day()
    folder = AuditFolder(tmp_path, max_bytes=4096)
    reading = DayReading(folder.path, FIRST, FIRST)
    for begin in range(0, len(journal), 7):
        folder.write(journal[begin : begin + 7])
        reading.read(QUICKLY)

    assert reading.fold.days[FIRST] == counted(journal)
    assert reading.passed
    assert reading.broken == ""


def test_a_line_that_is_not_whole_waits(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.write(numbered([anomaly("low"), anomaly("low", DAY)]))
    (path,) = files(folder.path)
    whole = path.read_bytes()
    reading = DayReading(folder.path, FIRST, FIRST)

    path.write_bytes(whole[:-10])
    reading.read(QUICKLY)
    unfinished = reading.passed
    path.write_bytes(whole)
    reading.read(QUICKLY)

    assert not unfinished
    assert reading.passed
    assert reading.broken == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: [*lines[:5], lines[5].replace(b"code", b"c0de"), *lines[6:]], ":6:"),
        (lambda lines: [*lines[:5], *lines[6:]], ":6:"),
        (lambda lines: [*lines[:5], b"rubbish\n", *lines[6:]], ":6: not a complete line"),
        (lambda lines: [b"rubbish\n", *lines[1:]], ":1: not the first line"),
    ],
)
def test_a_broken_chain_is_told_and_the_rest_is_counted(tmp_path: Path, change, says: str) -> None:
    folder = AuditFolder(tmp_path)
    folder.write(rich_day())
    (path,) = files(folder.path)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    reading = DayReading(folder.path, FIRST, FIRST)

    reading.read(QUICKLY)

    assert says in reading.broken
    assert reading.fold.days[FIRST].stops == 1


def test_a_file_that_is_missing_breaks_the_chain(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path, max_bytes=4096)
    folder.write(rich_day())
    files(folder.path)[2].unlink()
    reading = DayReading(folder.path, FIRST, FIRST)

    reading.read(QUICKLY)

    assert "does not continue the previous file" in reading.broken


def test_what_is_broken_after_the_day_is_not_told_of_it(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.write(numbered([anomaly("low"), anomaly("low", DAY), anomaly("low", 1.2 * DAY)]))
    (path,) = files(folder.path)
    path.write_bytes(path.read_bytes().replace(b'"low"', b'"LOW"').replace(b'"LOW"', b'"low"', 2))
    reading = DayReading(folder.path, FIRST, FIRST)

    reading.read(QUICKLY)

    assert reading.broken == ""


def test_how_far_it_is_is_told(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.write(numbered([anomaly("low", n / 100) for n in range(2500)]))
    told: list[float] = []

    DayReading(folder.path, FIRST, FIRST).read(QUICKLY, told.append)

    assert len(told) == 2
    assert 0 < told[0] < told[1] < 1


def test_without_files_nothing_is_known(tmp_path: Path) -> None:
    reading = DayReading(tmp_path, FIRST, FIRST)

    reading.read(QUICKLY)

    assert reading.fold.days == {}
    assert policy_now(tmp_path) == Policy()


def test_an_empty_or_torn_file_says_nothing_of_the_rules(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.write(numbered([configured(0.0, POLICY)]))
    (tmp_path / "audit/audit-00000002.jsonl").write_bytes(b"")
    (tmp_path / "audit/audit-00000003.jsonl").write_bytes(b'\n{"event":"configured",')

    assert policy_now(folder.path) == POLICY
