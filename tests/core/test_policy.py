from datetime import UTC
from zoneinfo import ZoneInfo

from safetyd.core.engine.engine import Engine
from safetyd.core.policy import AgentConfig, Policy
from tests.story import ask, play, propose


def test_rules_follow_utc_unless_a_zone_is_set() -> None:
    assert Policy().zone is UTC
    assert Policy(timezone="Europe/Berlin").zone == ZoneInfo("Europe/Berlin")


def test_missing_limits_of_an_agent_are_the_common_ones() -> None:
    policy = Policy(agents={"a": AgentConfig(burst=7), "b": AgentConfig(iterations=2)})

    (name,) = policy.buckets()
    assert name == "a"
    assert policy.buckets()["a"].burst == 7
    assert policy.buckets()["a"].tokens_per_minute == policy.rate.production.agent.tokens_per_minute


def test_limits_of_one_agent_do_not_affect_others() -> None:
    policy = Policy(agents={"a": AgentConfig(burst=1, dispatch_s=0, session_usd=1, iterations=9)})
    engine = Engine(policy)
    play(engine, propose(0, agent="a"), propose(0, agent="b"))

    assert ask(engine, propose(0, agent="a", id="p2")).cause == "rate_limit"
    assert ask(engine, propose(0, agent="b", id="p2")).allowed
