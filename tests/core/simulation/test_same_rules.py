"""The rules of the record change nothing, however much is put in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical
from safetyd.core.guards.anomaly.usage_detectors import ErrorRate
from safetyd.core.policy import Policy
from safetyd.core.recipients import TellingConfig
from safetyd.core.simulation.recorded_lines import read_line
from safetyd.core.simulation.simulation import Simulation, under
from tests.core.simulation.recorded_story import TELLING, BatchedStory, RandomStory
from tests.examples import examples

POLICIES = (
    Policy(profile="coding", telling=TELLING),
    Policy(telling=TELLING),
    Policy(mode="development", telling=TellingConfig()),
    Policy(
        profile="coding",
        telling=TELLING,
        anomaly=AnomalyConfig(
            error_rate=ErrorRate(severity="high", max=0.1, at_least=3),
            rapid_identical=RapidIdentical(severity="critical", count=3),
        ),
    ),
)
seeds = st.integers(0, 2**32)
policies = st.sampled_from(POLICIES)


@pytest.mark.req("S4.28")
@examples(0.3)
@given(seeds, policies)
def test_what_was_recorded_is_decided_the_same_under_the_same_rules(seed, policy):
    story = RandomStory(policy, seed)
    engine = Engine(policy)
    simulation = Simulation(engine)

    for line in story.play(80):
        simulation.put(read_line(line))

    report = simulation.report()
    assert report.changes_nothing
    assert report.same == report.decisions
    assert report.events == len(story.lines)
    assert report.answers.missing == report.answers.alike == report.answers.not_taken == 0
    assert engine.save()() == story.engine.save()()


@examples(0.2)
@given(seeds, policies)
def test_nothing_differs_either_where_a_tick_shares_the_moment_of_something_else(seed, policy):
    simulation = Simulation(Engine(policy))

    for line in BatchedStory(policy, seed).play(80):
        simulation.put(read_line(line))

    assert simulation.report().changes_nothing


@examples(0.1)
@given(seeds, policies)
def test_the_same_holds_from_any_moment_on(seed, policy):
    story = RandomStory(policy, seed)
    lines = story.play(80)
    half = len(lines) // 2
    engine = Engine(policy)
    engine.replay(map(decode, lines[:half]))
    engine = under(policy, engine)
    # What the second half begins with may follow from the end of the first.
    begin = next((n for n in range(half, len(lines)) if _begins(lines, n)), len(lines))
    engine.replay(map(decode, lines[half:begin]))

    simulation = Simulation(engine)
    for line in lines[begin:]:
        simulation.put(read_line(line))

    report = simulation.report()
    assert report.changes_nothing
    assert engine.save()() == story.engine.save()()


def _begins(lines: list[bytes], number: int) -> bool:
    """Say whether an event is of another second than the one before it."""
    return read_line(lines[number]).t != read_line(lines[number - 1]).t
