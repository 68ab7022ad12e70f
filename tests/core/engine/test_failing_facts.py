"""A fault in finding facts blocks the action, and ends nothing."""

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.policy import Policy
from tests.story import ask, propose


def test_an_action_whose_facts_cannot_be_found_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(Policy(profile="coding"))

    def fail(*_given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(engine.facts, "of", fail)
    proposed = propose(0, type="run_shell", text="make test")

    assert engine.facts_of(proposed).findings is None
    assert ask(engine, proposed).cause == "guard_error"
