"""For any story: safe mode has one entry and one exit, and a replayed guard is the same."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.decision_events import Decided, Settled
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import SafeModeEntered, SafeModeExited
from safetyd.core.guards.kernel import KernelStep
from safetyd.core.guards.safe_mode import SafeMode
from safetyd.core.messages.verdict import ALLOWED, Severity
from tests.core.guards.guard_rig import KINDS, GuardRig, decided, settled
from tests.core.guards.safe_mode_rig import enter, errors, guarded, leave, overdue, state
from tests.examples import examples
from tests.story import propose

AGENTS = ("code", "ops", "new")
EDGES = {step.value for step in KernelStep}

agents = st.sampled_from(AGENTS)
whom = st.sampled_from([None, *AGENTS])
ids = st.sampled_from([None, "p1"])
types = st.sampled_from(["read_file", "edit_file", "push", "frobnicate"])
gaps = st.sampled_from([0.0, 0.25, 1.0, 59.0, 600.0, 3600.0])

asks = st.tuples(st.just("ask"), agents, types, st.booleans())
ends = st.tuples(st.just("end"), agents, ids, st.booleans())
failures = st.tuples(st.just("end"), agents, ids, st.just(value=False))
outages = st.tuples(st.just("outage"), agents, ids, st.just(value=False))
lates = st.tuples(st.just("late"), agents, ids, st.booleans())
entries = st.tuples(st.just("enter"), whom, ids, st.booleans())
exits = st.tuples(st.just("exit"), whom, ids, st.booleans())
stories = st.lists(
    st.tuples(gaps, asks | ends | failures | failures | outages | lates | entries | exits),
    max_size=60,
)


def small() -> GuardRig[SafeMode]:
    return guarded(global_after_agents=2, global_share=0.5)


def happening(held: GuardRig[SafeMode], t: float, step) -> Event:
    what, agent, which, flag = step
    match what:
        case "ask":
            proposed = propose(t, agent, type=which, keyless=agent == "ops")
            verdict = held.guard.check(proposed, KINDS.of(proposed.proposal))
            return decided(proposed, verdict, first=flag)
        case "end":
            return settled(t, which, agent, ok=flag, keyless=agent == "ops")
        case "outage":
            return settled(t, which, agent, ok=flag, failed_dependency=True)
        case "late":
            return overdue(t, agent)
        case "enter":
            return enter(t, agent)
        case _:
            return leave(t, agent)


@pytest.mark.req("S0.8")
@pytest.mark.req("S0.11")
@pytest.mark.req("S0.14")
@given(stories, types)
@examples(2)
def test_safe_mode_begins_by_an_entry_ends_by_an_exit_and_reading_never_stops(story, type_) -> None:
    held, t = small(), 0.0
    for gap, step in story:
        t += gap
        before = {agent: held.guard.status(agent, t).active for agent in AGENTS}
        event = happening(held, t, step)
        caused = [event, *held.hears(event)]
        entered = any(isinstance(one, SafeModeEntered) for one in caused)
        exited = any(isinstance(one, SafeModeExited) for one in caused)

        for agent in AGENTS:
            active = held.guard.status(agent, t).active
            assert active <= (before[agent] or entered)
            assert active >= (before[agent] and not exited)
            assert held.looks(t, agent=agent, type="read_file") is ALLOWED
            refused = held.looks(t, agent=agent, type=type_) is not ALLOWED
            assert refused == (active and type_ != "read_file")


@pytest.mark.req("S0.7")
@given(stories)
def test_the_count_is_the_failures_in_a_row_that_count(story) -> None:
    held, t = small(), 0.0
    in_a_row = dict.fromkeys(AGENTS, 0)
    for gap, step in story:
        t += gap
        active = {agent: held.guard.status(agent, t).agents for agent in AGENTS}
        event = happening(held, t, step)
        held.hears(event)
        match event:
            case Settled(failed_dependency=False) if not active[event.agent]:
                in_a_row[event.agent] = 0 if event.ok else in_a_row[event.agent] + 1
            case SafeModeExited(agent=name):
                left = [agent for agent in AGENTS if (name or "*") in active[agent]]
                alone = [agent for agent in AGENTS if agent in active[agent] and name is None]
                in_a_row |= {agent: 0 for agent in left if agent not in alone}

        assert {agent: errors(held, agent) for agent in AGENTS} == in_a_row


one_by_one = st.lists(
    st.sampled_from(["propose", "refused", "ok", "fail", "fail", "late", "exit"]), max_size=60
)


@pytest.mark.req("S0.2")
@pytest.mark.req("S0.7")
@pytest.mark.req("S0.8")
@given(one_by_one)
def test_with_one_action_at_a_time_the_kernel_only_moves_along_the_diagram(story) -> None:
    held, t = guarded(), 0.0
    for what in story:
        t += 1
        now = state(held, t)
        todo: list[Event] = _one_by_one(what, t, now)
        for event in todo:
            before = state(held, t)
            todo += held.guard.observe(event)
            assert _reachable(before, state(held, t), event)


def _one_by_one(what: str, t: float, now: str) -> list[Event]:
    match what, now:
        case "propose", "ready":
            return [decided(propose(t))]
        case "refused", _:
            return [decided(propose(t), decision=Severity.BLOCK)]
        case "ok" | "fail", "executing":
            return [settled(t, ok=what == "ok")]
        case "late", "executing":
            return [overdue(t)]
        case "exit", "safe_mode":
            return [leave(t)]
    return []


def _reachable(before: str, after: str, event: Event) -> bool:
    """Return whether the event may move the action from `before` to `after`."""
    if isinstance(event, Decided) and event.decision is Severity.ALLOW:
        way = [before, "planning", after]
    elif before == "executing" and after == "ready":
        way = [before, "evaluating", after]
    else:
        way = [before, after] if before != after else []
    return set(pairwise(way)) <= EDGES


@given(stories, agents, types, gaps)
def test_a_replayed_guard_is_the_same_guard(story, agent, type_, later_s) -> None:
    held, t = small(), 0.0
    for gap, step in story:
        t += gap
        held.hears(happening(held, t, step))

    guards = held.assert_rebuilt(propose(t + later_s, agent, type=type_))
    assert len({guard.status(agent, t + later_s) for guard in guards}) == 1
