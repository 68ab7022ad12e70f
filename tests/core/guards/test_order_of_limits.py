"""The limits in the chain: which of several gives the reason, and what each of them takes."""

import pytest

from safetyd.core.engine.engine import Engine, _listeners
from safetyd.core.events.guard_events import Stopped
from safetyd.core.guards.cooldown import Cooldown, CooldownConfig
from safetyd.core.guards.iterations import Iterations, IterationsConfig
from safetyd.core.guards.mode import ModeGuard, ModesConfig
from safetyd.core.guards.rate.rate import RateConfig, RateLimiter
from safetyd.core.guards.rate.rate_limits import BucketConfig
from safetyd.core.guards.scores import ScoresConfig, ScoresGuard
from safetyd.core.messages.proposal import Scores
from safetyd.core.messages.telemetry import Iteration, SessionEnded
from safetyd.core.policy import Policy
from tests.story import ask, at, play, propose, report, stop, tick

POOR = Scores(
    strategic_alignment=3,
    autonomy_appropriateness=3,
    output_quality=3,
    resource_efficiency=3,
    learning_application=3,
)


def limited() -> Engine:
    """An engine in development, in which agent `code` may propose four times at once."""
    engine = Engine(Policy(mode="development"))
    stop_guard, keys, *gate = (
        guard for guard in engine._guards if guard.name in {"stop", "keys", "gate"}
    )
    engine._guards = (
        stop_guard,
        keys,
        ModeGuard("development", ModesConfig()),
        *gate,
        ScoresGuard(ScoresConfig()),
        Iterations(IterationsConfig(), {}, engine.sessions.admits),
        Cooldown(CooldownConfig(), {}),
        RateLimiter(
            RateConfig(),
            "development",
            {"code": BucketConfig(tokens_per_minute=1, burst=4)},
            engine.keys.others,
        ),
    )
    engine._listeners = _listeners((*engine._guards, engine.sessions, engine.actions))
    return engine


def exhausted() -> Engine:
    """At second 121 the agent has no iteration, no cooldown and no token left."""
    engine = limited()
    play(
        engine,
        propose(0, id="p1", type="dispatch"),
        propose(60, id="p2", type="dispatch"),
        propose(120, id="p3", type="dispatch"),
        *(propose(120, id=f"r{number}") for number in range(3)),
    )
    return engine


@pytest.mark.req("S2.38")
def test_all_speak_and_the_first_of_the_strictest_gives_the_reason() -> None:
    engine = exhausted()
    disabled = Stopped(
        at=at(121), t=121, source="environment", by="environment", reason="off", epoch=2
    )
    play(engine, stop(121, "file:/x"), disabled)

    last = propose(
        121, id="p4", type="dispatch", provider="openai", scores=POOR, text="rm -rf /tmp/x"
    )
    decision = ask(engine, last)

    assert decision.triggered_rules == (
        "stop.file",
        "mode.cloud",
        "gate.blocklist:rm_rf",
        "scores.average",
        "iterations.limit",
        "cooldown.dispatch",
        "rate.agent",
    )
    assert decision.reason.startswith("emergency stop is active")


def test_a_proposal_that_was_refused_takes_nothing_anywhere() -> None:
    engine, spared = exhausted(), exhausted()

    for number in range(5):
        decision = ask(engine, propose(121, id=f"n{number}", type="dispatch"))
        assert not decision.allowed
    play(spared, propose(121, id="once", type="dispatch"))

    for guard, other in zip(engine._guards, spared._guards, strict=True):
        if guard.name in {"iterations", "cooldown", "rate"}:
            assert guard.save()() == other.save()()


def test_a_session_that_ends_or_rests_begins_its_rounds_anew() -> None:
    engine = limited()
    story = [report(0, Iteration(session=name)) for name in ("a", "b") for _ in range(4)]
    play(engine, *story)
    assert ask(engine, propose(1, id="p1", session="a")).cause == "iteration_limit"

    play(engine, report(2, SessionEnded(session="a")))
    assert ask(engine, propose(3, id="p2", session="a")).allowed
    assert ask(engine, propose(3, id="p3", session="b")).cause == "iteration_limit"

    play(engine, tick(3 + 1800))
    assert ask(engine, propose(1804, id="p4", session="b")).allowed
