from datetime import timedelta

from safetyd.core.daily_report.recent_entries import RecentEntries
from tests.story import at

HOUR = timedelta(hours=1)


def test_an_entry_is_found_for_so_long_and_no_longer() -> None:
    """Also if nothing else is put meanwhile that would push it out."""
    entries: RecentEntries[str, int] = RecentEntries(HOUR)
    entries.put("a", 1, at(0))

    assert entries.find("a", at(3600)) == 1
    assert entries.find("a", at(3601)) is None
    assert entries.pop("a", at(3601)) is None


def test_an_entry_that_is_put_again_is_as_new() -> None:
    entries: RecentEntries[str, int] = RecentEntries(HOUR)
    entries.put("a", 1, at(0))
    entries.put("a", 2, at(3000))

    assert entries.find("a", at(6000)) == 2
    assert entries.count(at(6000)) == 1


def test_only_what_is_not_too_old_is_counted() -> None:
    entries: RecentEntries[str, int] = RecentEntries(HOUR)
    entries.put("a", 1, at(0))
    entries.put("b", 2, at(3000))

    assert entries.count(at(3600)) == 2
    assert entries.count(at(3601)) == 1
    assert entries.count(at(9000)) == 0
