"""For any story: a guard rebuilt from the journal is the same guard."""

from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, BreakerMoved, PersonSeen, SafeModeExited
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.presence import HumanConfig
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical, RepeatedAction
from safetyd.core.guards.anomaly.usage_detectors import CostPerHour
from safetyd.core.messages.proposal import Target, Tokens
from safetyd.core.messages.telemetry import Commit, Iteration, Metrics
from safetyd.core.messages.verdict import Severity
from tests.core.guards.anomaly.anomaly_rig import AnomalyRig
from tests.core.guards.guard_rig import KINDS, decided, settled
from tests.story import at, propose, report, resume, stop, tick

CONFIGS = [
    AnomalyConfig(),
    AnomalyConfig(
        rapid_identical=RapidIdentical(severity="high", count=2),
        repeated_action=RepeatedAction(severity="critical", max=2),
        cost_per_hour=CostPerHour(severity="critical"),
    ),
]
PER_MODEL = {"anomaly.outlier", "anomaly.ewma_latency"}
HUMAN = HumanConfig(confirm_after_h=1, safe_mode_after_h=2)

agents = st.sampled_from(["code", "ops"])
labels = st.sampled_from([Target(label="Next"), Target(label="Back")])
proposals = st.fixed_dictionaries(
    {
        "agent": agents,
        "type": st.sampled_from(["click", "scroll", "key", "read_file", "dispatch", "push"]),
        "target": labels,
        "at": st.sampled_from([None, at(0)]),
        "keyless": st.booleans(),
    }
)
numbers = st.none() | st.floats(0, 50)
outcomes = st.fixed_dictionaries(
    {
        "agent": agents,
        "ok": st.booleans(),
        "model": st.sampled_from([None, "m"]),
        "latency_ms": numbers,
        "cost_usd": numbers,
        "tokens": st.sampled_from([None, Tokens(input=5)]),
        "type": st.sampled_from(["", "git_commit"]),
        "files_changed": st.none() | st.integers(0, 20),
    }
)
telemetry = st.one_of(
    st.just(Iteration()),
    st.builds(Commit, ref=st.just("a"), files_changed=st.none() | st.integers(0, 20)),
    st.builds(
        Metrics,
        iterations_per_hour=numbers,
        api_cost_last_hour=numbers,
        files_changed_per_commit=numbers,
        error_rate=numbers,
    ),
)
others = st.sampled_from(["stop", "resume", "person", "exit", "trip", "tick", "long tick"])
steps = st.one_of(proposals, outcomes, st.tuples(agents, telemetry), others)
decisions = st.sampled_from([None, None, Severity.BLOCK])


def other(what: str, t: float) -> Event:
    match what:
        case "stop":
            return stop(t, epoch=int(t) + 1)
        case "resume":
            return resume(t, epoch=int(t) + 1)
        case "person":
            return PersonSeen(at=at(t), t=t, by="alice", how="web")
        case "exit":
            return SafeModeExited(at=at(t), t=t, by="alice")
        case "trip":
            return BreakerMoved(
                at=at(t), t=t, breaker="api/code", state="open", reason="", agent="code"
            )
    return tick(t)


def happen(
    watch: AnomalyRig, t: float, step, decision: Severity | None, *, first: bool
) -> list[Event]:
    if isinstance(step, str):
        return watch.hears(other(step, t))
    if isinstance(step, tuple):
        return watch.hears(report(t, step[1], step[0]))
    if "ok" in step:
        return watch.hears(settled(t, **step))
    proposed = propose(t, **step)
    verdict = watch.guard.check(proposed, KINDS.of(proposed.proposal))
    return watch.hears(decided(proposed, verdict, decision=decision, first=first))


@given(
    st.sampled_from(CONFIGS),
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 4.0, 700.0, 90_000.0]), steps, decisions, st.booleans()
        ),
        max_size=60,
    ),
    proposals,
)
def test_a_replayed_guard_is_the_same_guard(config, story, last) -> None:
    watch = AnomalyRig(config, HUMAN)
    t = 0.0
    for seconds, step, decision, first in story:
        t += seconds
        happen(watch, t, step, decision, first=first)

    watch.assert_rebuilt(propose(t + 1, **last))


@given(
    st.sampled_from(CONFIGS),
    st.lists(st.tuples(st.floats(0, 300), steps, decisions, st.booleans()), max_size=80),
)
def test_no_finding_of_one_severity_is_raised_twice_within_ten_minutes(config, story) -> None:
    watch = AnomalyRig(config, HUMAN)
    raised: dict[tuple[str, str | None, str], float] = {}
    t = 0.0
    for seconds, step, decision, first in story:
        t += seconds
        for event in happen(watch, t, step, decision, first=first):
            # Outliers and drift are found per model, and these agents have two.
            if isinstance(event, AnomalyFound) and event.rule not in PER_MODEL:
                key = (event.rule, event.agent, event.severity)
                assert t - raised.get(key, -600.0) >= 600
                raised[key] = t


@given(st.lists(st.tuples(st.floats(0, 12), proposals), min_size=5, max_size=60))
def test_what_blocks_a_proposal_is_what_it_raises(story) -> None:
    watch = AnomalyRig(CONFIGS[1], HumanConfig())
    t = 0.0
    for seconds, step in story:
        t += seconds
        proposed = propose(t, **step)
        verdict = watch.guard.check(proposed, KINDS.of(proposed.proposal))
        caused = watch.hears(decided(proposed, verdict))
        severe = [
            event.rule
            for event in caused
            if isinstance(event, AnomalyFound) and event.severity in {"high", "critical"}
        ]
        assert severe == [rule for rule in (verdict.rule, *verdict.also) if rule]
