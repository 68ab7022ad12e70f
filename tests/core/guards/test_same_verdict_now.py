from collections.abc import Callable

import pytest

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Moment
from safetyd.core.guards.projects import ProjectConfidence, ProjectConfig
from safetyd.core.messages.verdict import ALLOWED, Verdict
from safetyd.core.policy import Policy
from tests.core.engine.remedy_story import HOME, half_open, opened, paused, scores, several
from tests.core.guards.budget.budget_rig import NO_LIMITS
from tests.story import at, outcome, play, propose, stop


def now(engine: Engine, name: str, t: float, proposed: Proposed) -> str:
    decided = engine._judge(proposed, first=False)
    guard = next(guard for guard in engine.guards if guard.name == name)
    return guard.now(decided, Moment(at(t), t))


def spent(engine: Engine) -> None:
    play(engine, propose(0, id="b", cost_usd=1.2, chain="c-7", model="m", dependency="api"))


def looping(engine: Engine) -> None:
    play(engine, *several(1, type="click", observation=HOME))


def failing(engine: Engine) -> None:
    play(engine, propose(0, id="b", dependency="api"), outcome(1, "b", ok=False))


def held(engine: Engine) -> None:
    play(engine, stop(0, agent="code"), paused(0), opened(0, "api"))


def probed(engine: Engine) -> None:
    play(engine, opened(0, "api"), half_open(30, "api"))


def repeating(engine: Engine) -> None:
    play(engine, *several(6))


def dispatched(engine: Engine) -> None:
    play(engine, propose(0, id="b", type="dispatch"))


def nothing(_engine: Engine) -> None:
    pass


@pytest.mark.parametrize(
    ("name", "happened", "proposed", "said"),
    [
        ("stop", nothing, propose(9), "none"),
        ("stop", held, propose(9), "emergency stop is active since 12:00Z by alice: drill"),
        ("keys", nothing, propose(9), "0 of 1000 names of anonymous agents"),
        ("pause", nothing, propose(9), "none"),
        ("pause", held, propose(9), "code was paused at 12:00Z by alice"),
        ("mode", nothing, propose(9), "production"),
        ("safe_mode", failing, propose(9), "ready, 1 of 3 errors in a row"),
        ("classify", nothing, propose(9), "read_file: auto_allowed, low, read_only"),
        ("classify", nothing, propose(9, type="fly"), "unknown type fly"),
        ("gate", nothing, propose(9), "no confidence given"),
        ("gate", nothing, propose(9, confidence=0.91), "Passed: 91% >= 50%"),
        ("gate", nothing, propose(9, type="fly", confidence=0.2), "Failed: 20% < 70%"),
        (
            "gate",
            looping,
            propose(9, type="click", observation=HOME),
            "no confidence given; visit 2 of 3",
        ),
        ("scores", nothing, propose(9), "no scores given"),
        ("scores", nothing, propose(9, scores=scores(autonomy=1)), "average 4.2, required 4"),
        ("iterations", dispatched, propose(9), "1 of 3 rounds"),
        ("cooldown", nothing, propose(9), "dispatches only"),
        ("cooldown", nothing, propose(9, type="dispatch"), "ready"),
        ("cooldown", dispatched, propose(9, type="dispatch"), "51 s left"),
        ("rate", nothing, propose(9), "agent 120 of 120 tokens, all 1500 of 1500"),
        ("rate", spent, propose(9, model="m"), "agent 120 of 120 tokens, model 400 of 400, all "),
        (
            "budget",
            spent,
            propose(9, chain="c-7"),
            "chain c-7 $1.20 of $5.00, session $1.20 of $10.00, day $1.20 of $50.00",
        ),
        ("breaker", nothing, propose(9), "no dependency or model named"),
        ("breaker", nothing, propose(9, dependency="api"), "api closed, no calls recorded"),
        ("breaker", failing, propose(9, dependency="api"), "api closed, 1 of 1 calls failed in"),
        (
            "breaker",
            held,
            propose(9, dependency="api"),
            "api open, 5 calls in a row failed, 21 s left",
        ),
        (
            "breaker",
            probed,
            propose(9, dependency="api"),
            "api half open, a probe may begin",
        ),
        ("anomaly", nothing, propose(9), "nothing unusual"),
        (
            "anomaly",
            repeating,
            propose(9),
            "rapid_identical is active, seen 2 times, repeated_action",
        ),
    ],
)
def test_a_guard_describes_its_current_state(
    name: str, happened: Callable[[Engine], None], proposed: Proposed, said: str
) -> None:
    engine = Engine(Policy())
    happened(engine)
    before = engine.save()()

    assert now(engine, name, 9, proposed).startswith(said)
    assert engine.save()() == before


def test_in_a_project_of_others_every_threshold_is_shown() -> None:
    project = ProjectConfig(agents=("other",), confidence=ProjectConfidence(low=0.9))
    engine = Engine(Policy(projects={"shop": project}))

    said = now(engine, "gate", 9, propose(9, project="shop", confidence=0.6))

    assert said == "Passed: 60% >= 50%; Failed: 60% < 90% (escalate to human)"


def test_without_limits_no_budget_is_shown() -> None:
    engine = Engine(Policy(budget=NO_LIMITS))

    assert now(engine, "budget", 9, propose(9)) == "no limits"


def test_a_guard_may_have_nothing_to_say() -> None:
    class Silent(Guard):
        name = "silent"

        def check(self, proposed: Proposed, kind: Kind) -> Verdict:
            return ALLOWED

    decided = Engine(Policy())._judge(propose(9), first=False)

    assert Silent().now(decided, Moment(at(9), 9.0)) == ""
