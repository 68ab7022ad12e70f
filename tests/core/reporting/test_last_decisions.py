from safetyd.core.engine.engine import Engine
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from tests.story import play, propose


def last(engine: Engine, agent: str) -> tuple[str, str, Severity] | None:
    found = engine.records.last_decisions.of(agent)
    return None if found is None else (found.id, found.type, found.decision)


def test_the_last_decision_of_each_agent_is_kept() -> None:
    engine = Engine(Policy())

    play(engine, propose(0, id="p1"), propose(1, "ops"), propose(2, id="p2", type="push"))

    assert last(engine, "code") == ("p2", "push", Severity.ASK)
    assert last(engine, "ops") == ("p1", "read_file", Severity.ALLOW)
    assert last(engine, "nobody") is None


def test_a_dry_run_and_a_repeat_are_no_decisions_of_their_own() -> None:
    engine = Engine(Policy())

    play(engine, propose(0, id="p1"), propose(1, id="p2", dry_run=True), propose(2, id="p1"))

    assert last(engine, "code") == ("p1", "read_file", Severity.ALLOW)


def test_names_that_nobody_knows_are_not_kept() -> None:
    engine = Engine(Policy(max_agents=1))

    play(engine, propose(0, "one", keyless=True, type="push"), propose(1, "two", keyless=True))

    assert last(engine, "one") is not None
    assert last(engine, "two") is None


def test_a_name_that_is_forgotten_takes_its_decision_with_it() -> None:
    engine = Engine(Policy(max_agents=1))

    play(engine, propose(0, "one", keyless=True), propose(1, "two", keyless=True))

    assert last(engine, "one") is None
    assert last(engine, "two") is not None
