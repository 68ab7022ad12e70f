from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.history_events import (
    ArchiveFailed,
    SnapshotMissed,
    SnapshotTaken,
    WeekArchived,
)
from safetyd.core.policy import Policy
from safetyd.core.reporting.kept_days import MissingSnapshots
from tests.story import at, play

GAP = MissingSnapshots("2026-03-02", "2026-03-04", "off")


def missed(day: str, error: str = "full", since: str = "") -> SnapshotMissed:
    return SnapshotMissed(at=at(0), t=0.0, day=day, error=error, since=since)


def taken(day: str) -> SnapshotTaken:
    return SnapshotTaken(at=at(1), t=1.0, day=day, files=1, size=1)


@pytest.fixture
def engine() -> Engine:
    engine = Engine(Policy())
    play(engine, missed("2026-03-04", "off", since="2026-03-02"))
    return engine


def missing(engine: Engine) -> MissingSnapshots | None:
    return engine.records.kept_days.missing


def test_days_are_missing_until_the_last_of_them_is_made_up_for(engine: Engine) -> None:
    assert missing(engine) == GAP

    play(engine, taken("2026-03-03"))
    assert missing(engine) == GAP

    play(engine, taken("2026-03-04"))
    assert missing(engine) is None


def test_a_later_snapshot_makes_up_for_earlier_days(engine: Engine) -> None:
    play(engine, taken("2026-03-05"))

    assert missing(engine) is None


def test_a_failure_that_follows_keeps_the_first_day(engine: Engine) -> None:
    play(engine, missed("2026-03-05"))

    assert missing(engine) == MissingSnapshots("2026-03-02", "2026-03-05", "full")


def test_what_is_missing_is_known_after_a_restart(engine: Engine) -> None:
    assert missing(Engine.restore(engine.save()())) == GAP


def test_a_week_without_an_archive_is_known_until_it_has_one() -> None:
    engine = Engine(Policy())
    kept: dict[str, Any] = {"at": at(0), "t": 0.0}
    play(engine, ArchiveFailed(week="2026-W10", error="no disk", **kept))

    play(engine, WeekArchived(week="2026-W09", size=1, **kept))
    assert engine.records.kept_days.unarchived == "2026-W10"

    play(engine, WeekArchived(week="2026-W10", size=1, **kept))
    assert engine.records.kept_days.unarchived == ""


def test_a_snapshot_when_none_is_missing_changes_nothing() -> None:
    engine = Engine(Policy())

    play(engine, taken("2026-03-04"))

    assert missing(engine) is None
    assert engine.records.kept_days.taken == "2026-03-04"
