"""Days with agents, people and failures, and the goals that they meet.

The stories that come with safetyd are tuned against; those in `held_out` are not, except that the
load of `sessions` was lowered until it met the goals.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import asdict

from safetyd.console.daemon_config import read_config
from safetyd.rehearsal.day_facts import DayFacts
from safetyd.rehearsal.day_measures import Measure, measures
from safetyd.rehearsal.day_rehearsal import rehearse
from safetyd.rehearsal.day_timeline import timeline
from safetyd.rehearsal.story_file import DayGoals, Story, load_story, shipped_stories

HELD_OUT: Final = Path(__file__).parent / "held_out"
STORIES: Final = {
    **shipped_stories(),
    **{path.name.removesuffix(".story.toml"): path for path in HELD_OUT.glob("*.story.toml")},
}

# What every day must meet. `at_night` differs: 2 for a sleeper, 4 for a person on call.
GOALS: Final = DayGoals(
    mail_per_day=60,
    mail_worst_hour=10,
    phone_per_day=30,
    phone_worst_hour=8,
    could_wait=0,
    off_duty=0,
    repeats_percent=5,
    counted_only=0,
    never_notified=0,
    after_answer=0,
    too_late=0,
    undelivered=0,
    urgent_p95="10s",
    normal_p50="10m",
    normal_p95="15m",
    burst_messages=2,
    burst_entries=3,
    digest_lines=80,
)
ON_CALL: Final = {"omar", "boris"}  # who is on call while asleep


@pytest.mark.large
@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_day_meets_its_goals(name: str) -> None:
    story, found = load_story(STORIES[name]), played(name)
    table = {measure.name: measure for measure in measures(found)}
    missed = {measure.name for measure in table.values() if measure.missed}

    assert_goals(story)
    assert found.record.proposals > 1_000
    assert not missed, shown(table.values())
    assert all(row.at >= found.record.times.start for row in timeline(found))


def played(name: str) -> DayFacts:
    path = STORIES[name]
    story = load_story(path)
    config = path.parent / story.config
    return DayFacts(rehearse(story, read_config(config), config, None))


def assert_goals(story: Story) -> None:
    """A story has every goal, so that none can be left out to pass."""
    own = asdict(story.goals)
    nights = own.pop("at_night")
    wanted = asdict(GOALS)
    del wanted["at_night"]
    assert own == wanted
    assert nights == {person.name: 4 if person.name in ON_CALL else 2 for person in story.people}


def shown(table: Iterable[Measure]) -> str:
    rows = [measure for measure in table if measure.goal is not None]
    return "\n".join(f"{row.name}: {row.value} (at most {row.goal})" for row in rows)
