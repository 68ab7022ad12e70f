import pytest

from safetyd.core import decision_cache as module
from safetyd.core.decision_cache import DecisionsConfig
from safetyd.core.engine.engine import Engine
from safetyd.core.messages.proposal import Observation
from safetyd.core.policy import Policy
from tests.story import ask, at, propose


def test_a_reply_is_forgotten_after_its_time() -> None:
    engine = Engine(Policy(decisions=DecisionsConfig(recall_s=10)))
    ask(engine, propose(0, text="rm -rf /"))

    assert ask(engine, propose(9.9, digest="sha256:d2")).cause == "conflict"
    assert ask(engine, propose(10, digest="sha256:d2")).cause == "policy"


def test_an_id_keeps_its_content_after_its_allow_has_expired() -> None:
    engine = Engine(Policy(decisions=DecisionsConfig(ttl_s=1)))
    first = ask(engine, propose(0))

    other = ask(engine, propose(5, digest="sha256:d2"))
    again = ask(engine, propose(6))

    assert other.cause == "conflict"
    assert (again.allowed, again.at) == (True, at(6))
    assert first.at != again.at


def test_the_agent_message_about_a_loop_agrees_with_its_reason() -> None:
    engine = Engine(Policy())
    home = Observation(url="https://shop/home", screen_hash="h")
    steps = [propose(n, id=f"p{n}", type="click", observation=home) for n in range(3)]

    looped = [ask(engine, step) for step in steps][-1]

    assert looped.reason.endswith("nothing new was tried")
    assert "not tried yet" in looped.agent_message
    assert "do not try another way" not in looped.agent_message


def test_the_oldest_replies_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GENERATION", 2)
    monkeypatch.setattr(module, "MAX_ANSWERS", 4)
    engine = Engine(Policy())
    for n in range(5):
        ask(engine, propose(n, id=f"p{n}"))

    assert ask(engine, propose(6, id="p0", digest="sha256:d2")).cause == "policy"
    assert ask(engine, propose(6, id="p2", digest="sha256:d2")).cause == "conflict"


def test_a_repeated_reply_outlives_its_first_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GENERATION", 2)
    monkeypatch.setattr(module, "MAX_ANSWERS", 4)
    engine = Engine(Policy(decisions=DecisionsConfig(ttl_s=1)))
    for t, name in enumerate(("p0", "p1", "p0", "p3", "p4")):
        ask(engine, propose(t, id=name))

    assert ask(engine, propose(2.5, id="p0", digest="sha256:d2")).cause == "conflict"
