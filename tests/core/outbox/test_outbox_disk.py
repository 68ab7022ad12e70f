"""A disk that fills: people are told while there is time left, and when there is room again."""

from typing import Final

from msgspec.structs import replace

from safetyd.core.events.daemon_events import DiskLevel, DiskMoved, DiskUse
from safetyd.core.events.notification_events import Due
from safetyd.core.recipients import TellingConfig
from tests.core.outbox.outbox_story import (
    ALL,
    MINUTE,
    MORNING,
    NIGHT,
    OutboxStory,
    channels,
    config,
    refs,
)
from tests.story import at

GIB: Final = 1024**3
FULL: Final = "the disk at /var is 95 % full: 2.0 GiB of 40.0 GiB is free"
USE: Final = DiskUse(level="warn", disk="/var", free_bytes=2 * GIB, total_bytes=40 * GIB)


def moved(t: float, level: DiskLevel, **facts: object) -> DiskMoved:
    return DiskMoved(at=at(t), t=float(t), use=replace(USE, level=level, **facts))


def titles(story: OutboxStory, dues: list[Due]) -> list[str]:
    notes = [story.outbox.note(ref) for due in dues for ref in refs(due)]
    return [note.title for note in notes if note is not None]


def test_a_disk_that_fills_is_told_by_day_and_one_that_is_nearly_full_at_night_too() -> None:
    story = OutboxStory(config(ALL))

    assert story.dues(moved(NIGHT, "warn")) == []
    nearly = story.tells_at(NIGHT + 1) + story.dues(moved(NIGHT + 2, "critical"))

    assert set(titles(story, nearly)) == {f"DISK NEARLY FULL: {FULL}"}
    assert set(channels(nearly)) == set(ALL)
    story.tells(NIGHT + 3, *nearly)
    assert titles(story, story.ticks(MORNING + MINUTE)) == [], "it is known to be worse"


def test_who_was_told_hears_that_there_is_room_again() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(moved(0, "critical")))

    story.happens(moved(60, "good", free_bytes=30 * GIB))

    assert titles(story, story.ticks(60 + 2 * MINUTE)) == ["DISK: there is room again"]


def test_what_is_over_before_anybody_heard_of_it_is_not_told() -> None:
    story = OutboxStory()
    assert story.dues(moved(0, "warn"), moved(1, "good")) == []

    assert story.ticks(5 * MINUTE) == []


def test_a_disk_that_fills_again_is_told_again() -> None:
    story = OutboxStory()
    for t in (0, 60):
        dues = story.dues(moved(t, "critical"))
        assert titles(story, dues) == [f"DISK NEARLY FULL: {FULL}"]
        story.tells(t + 1, *dues)
        story.happens(moved(t + 2, "good"))

    story.tells(70, *story.dues(moved(66, "critical")))
    assert titles(story, story.ticks(10 * MINUTE)) == [], "there is no room again"


def test_the_level_that_people_know_of_is_kept_over_a_restart() -> None:
    story = OutboxStory()
    known = [story.outbox.disk_level]
    for t, level in ((0, "warn"), (1, "critical"), (2, "warn")):
        story.happens(moved(t, level))  # type: ignore[arg-type]
        known.append(story.restored().outbox.disk_level)

    assert known == ["good", "warn", "critical", "warn"]
    assert story.replayed().state() == story.state()
    story.happens(moved(3, "good"))
    assert story.outbox.disk_level == "good"


def test_without_anybody_to_tell_nobody_knows_a_level() -> None:
    story = OutboxStory(TellingConfig())

    story.happens(moved(0, "critical"))

    assert story.outbox.disk_level == "good"
