"""For any story: breakers follow their state diagram, and a replayed guard is the same."""

from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.guards.breaker import BreakerGuard
from safetyd.core.guards.circuit import BreakerConfig
from tests.core.guards.guard_rig import GuardRig, decided, settled
from tests.examples import examples
from tests.story import propose, tick

KEYLESS = "kim"  # who has no key
CONFIG = BreakerConfig(
    min_calls=4, max_consecutive_failures=2, open_s=4, probe_timeout_s=9, per_task=True
)
DIAGRAM = {
    ("closed", "open"),
    ("open", "half_open"),
    ("half_open", "open"),
    ("half_open", "closed"),
}

agents = st.sampled_from(["code", "ops", KEYLESS])
ids = st.sampled_from(["a", "b", "c", "d", "e", "f"])
names = st.sampled_from([None, "api", "api/code", "code:t"])
tasks = st.sampled_from([None, "t"])
steps = st.one_of(
    st.tuples(st.just("ask"), agents, ids, names, tasks, st.booleans()),
    st.tuples(st.just("forced"), agents, ids, names, tasks, st.booleans()),
    st.tuples(st.just("end"), agents, ids, names, tasks, st.booleans()),
    st.tuples(st.just("end"), agents, ids, st.just("api"), tasks, st.just(value=False)),
    st.tuples(st.just("tick"), agents, ids, names, tasks, st.booleans()),
)


def happen(breakers: GuardRig[BreakerGuard], t: float, step) -> list[BreakerMoved]:
    what, agent, id_, name, task, flag = step
    keyless = agent == KEYLESS
    fields = {"agent": agent, "id": id_, "dependency": name, "task": task, "keyless": keyless}
    match what:
        case "ask":
            verdict = breakers.looks(t, **fields)
            events = breakers.hears(decided(propose(t, **fields), verdict, first=flag))
        case "forced":
            events = breakers.hears(decided(propose(t, **fields)))
        case "end":
            said = {"dependency": name, "task": task, "keyless": keyless}
            events = breakers.hears(settled(t, id_, agent, ok=flag, **said))
        case _:
            events = breakers.hears(tick(t))
    return [event for event in events if isinstance(event, BreakerMoved)]


@given(st.lists(st.tuples(st.floats(0, 6), steps), max_size=60))
@examples(2)
def test_breakers_move_along_their_diagram_with_few_probes_out(story) -> None:
    breakers = GuardRig(lambda: BreakerGuard(CONFIG))
    states: dict[tuple[str, str | None, bool], str] = {}
    t = 0.0
    for seconds, step in story:
        t += seconds
        for moved in happen(breakers, t, step):
            key = (moved.breaker, moved.agent, moved.keyless)
            assert (states.get(key, "closed"), moved.state) in DIAGRAM
            states[key] = moved.state
        for status in breakers.guard.breakers:
            key = (status.breaker, status.agent, status.keyless)
            assert status.state == states.get(key, "closed")
            assert status.probes_out <= CONFIG.probe_count


@given(
    st.lists(st.tuples(st.floats(0, 6), steps), max_size=60),
    st.tuples(agents, names, tasks, st.floats(0, 20)),
)
def test_replayed_breakers_are_the_same(story, last) -> None:
    breakers = GuardRig(lambda: BreakerGuard(CONFIG))
    t = 0.0
    for seconds, step in story:
        t += seconds
        happen(breakers, t, step)

    agent, name, task, later_s = last
    said = {"dependency": name, "task": task, "keyless": agent == KEYLESS}
    breakers.assert_rebuilt(propose(t + later_s, agent, **said))
