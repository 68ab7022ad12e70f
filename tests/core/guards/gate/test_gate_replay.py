"""For any story: a fresh gate that heard only what was journalled is the same gate."""

from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Forgotten
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.messages.proposal import Observation, Target
from safetyd.core.messages.telemetry import EpisodeEnded, SessionEnded
from tests.core.guards.gate.gate_rig import GateRig, decided, kinds
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


@given(configs, st.lists(st.tuples(proposals | ends, st.booleans()), max_size=40), proposals)
def test_a_replayed_gate_is_the_same_gate(config, story, last) -> None:
    live, replayed, restored = GateRig(config), GateRig(config), GateRig(config)
    journal: list[bytes] = []
    for event, first in story:
        happened: Event = event
        if isinstance(event, Proposed):
            verdict = live.gate.check(event, kinds().of(event.proposal))
            happened = decided(event, verdict, first=first)
        live.gate.observe(happened)
        journal.append(encode(happened))

    for line in journal:
        replayed.gate.observe(decode(line))
    restored.gate.load(live.gate.save()())

    kind = kinds().of(last.proposal)
    expected = live.gate.check(last, kind)
    assert replayed.gate.save()() == restored.gate.save()() == live.gate.save()()
    assert replayed.gate.check(last, kind) == restored.gate.check(last, kind) == expected
