"""For any story: a fresh gate that heard only what was journalled is the same gate."""

from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.guard_events import Forgotten
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.messages.proposal import Observation, Target
from safetyd.core.messages.telemetry import EpisodeEnded, SessionEnded
from tests.core.guards.gate.gate_rig import GateRig
from tests.core.guards.guard_rig import assert_retold, stories
from tests.story import at, propose, report

names = st.sampled_from([None, "a", "b"])
agents = st.sampled_from(["code", "shop"])
proposals = st.builds(
    propose,
    st.just(0),
    agent=agents,
    type=st.sampled_from(["click", "TYPE", "scroll", "key", "read_file", "dance"]),
    text=st.sampled_from(["", "x", "hunter2", "hunter3", "delete", "[masked, 7 characters]"]),
    target=st.sampled_from([None, Target(label="Password"), Target(label="Send", name="é")]),
    observation=st.sampled_from([None, Observation(), Observation(url="x"), Observation(url="y")]),
    session=names,
    episode=names,
)
ends = st.one_of(
    st.builds(report, st.just(0), st.builds(EpisodeEnded, episode=st.just("a")), agents),
    st.builds(report, st.just(0), st.builds(SessionEnded, session=st.just("a")), agents),
    st.builds(
        Forgotten,
        at=st.just(at(0)),
        t=st.just(0.0),
        agent=agents,
        by=st.just("alice"),
        session=names,
        episode=names,
    ),
)
configs = st.sampled_from(
    [GateConfig(), GateConfig(loop_counts="states"), GateConfig(loop_threshold=1)]
)


@given(configs, stories(proposals | ends), proposals)
def test_a_replayed_gate_is_the_same_gate(config, story, last) -> None:
    assert_retold(lambda: GateRig(config).gate, story, last)
