from collections.abc import Callable
from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Settled
from safetyd.core.events.guard_events import Forgotten, Paused
from safetyd.core.guards.known_words import (
    FORGET_S,
    MAX_COMMON,
    MAX_KEYLESS,
    MAX_WORDS,
    REFRESH_S,
    Vocabulary,
)
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Observation, Proposal
from safetyd.core.messages.telemetry import EpisodeEnded, Outcome, SessionEnded
from safetyd.core.messages.verdict import Severity, Verdict
from safetyd.core.policy import Policy
from tests.story import ask, at, outcome, play, propose, report

HOME = Observation(window_title="Home")
OWN = ("session", "chain", "episode", "task")


def fill(engine: Engine, kind: str, most: int = MAX_WORDS, agents: int = 1) -> None:
    """Let agents use `most` names of a kind, a second apart to stay below the rate limit."""
    for n in range(most):
        agent = "code" if agents == 1 else f"a{n % agents}"
        word: dict[str, Any] = {kind: f"w{n}"}
        assert ask(engine, propose(n, agent, f"p{n}", text=f"page {n}", **word)).allowed


def names(engine: Engine, t: float, agent: str = "code", **words: str | None) -> Decision:
    said = propose(t, agent, f"n{t}", text=f"new {t} {words}", **words)  # type: ignore[arg-type]
    return ask(engine, said)


def reset(t: float, session: str | None = None, episode: str | None = None) -> Forgotten:
    return Forgotten(at=at(t), t=t, agent="code", by="alice", session=session, episode=episode)


def settled(engine: Engine, t: float, told: Outcome) -> Settled:
    (event,) = [e for e in play(engine, report(t, told)) if isinstance(e, Settled)]
    return event


@pytest.mark.parametrize("kind", OWN)
def test_one_word_of_an_agent_too_many_is_refused(kind: str) -> None:
    engine = Engine(Policy())
    fill(engine, kind)

    decision = names(engine, 100, **{kind: "one more"})

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "rate_limit")
    assert (decision.triggered_rules, decision.limit_id) == ((f"keys.{kind}",), f"keys.{kind}:code")
    assert f"64 {kind}s" in decision.reason
    assert names(engine, 101, **{kind: "w0"}).allowed
    assert names(engine, 102).allowed
    assert names(engine, 103, "ops", **{kind: "one more"}).allowed


@pytest.mark.parametrize(("kind", "plural"), [("model", "models"), ("dependency", "dependencies")])
def test_names_without_a_key_have_half_of_the_words_that_are_everybodys(
    kind: str, plural: str
) -> None:
    engine = Engine(Policy())
    for n in range(MAX_KEYLESS):
        word: dict[str, Any] = {kind: f"w{n}"}
        said = propose(n, f"k{n % 10}", f"p{n}", text=f"page {n}", keyless=True, **word)
        assert ask(engine, said).allowed

    one_more: dict[str, Any] = {kind: "one more"}
    decision = ask(engine, propose(501, "k0", "q1", text="a", keyless=True, **one_more))

    assert (decision.triggered_rules, decision.limit_id) == ((f"keys.{kind}",), f"keys.{kind}")
    assert f"500 {plural}" in decision.reason
    assert names(engine, 502, **one_more).allowed
    assert ask(engine, propose(503, "k0", "q2", text="b", keyless=True, **one_more)).allowed
    t = 503 + FORGET_S
    another: dict[str, Any] = {kind: "another"}
    assert ask(engine, propose(t, "k0", "q3", text="c", keyless=True, **another)).allowed


def test_a_made_up_word_that_an_agent_with_a_key_uses_makes_room_for_another() -> None:
    words = Vocabulary()
    for n in range(MAX_KEYLESS):
        words.take(f"k{n % 4}", Proposal(type="x", model=f"w{n}"), n, keyless=True)
    one_more = Proposal(type="x", model="one more")
    assert dict(words.too_many("k9", one_more, 501, keyless=True)) == {"model": MAX_KEYLESS}

    words.take("code", Proposal(type="x", model="w0"), 502, keyless=False)

    assert dict(words.too_many("k9", one_more, 503, keyless=True)) == {}
    assert words.knows("k0", Proposal(type="x", model="w0"))


@pytest.mark.parametrize("kind", ["model", "dependency"])
def test_what_a_paused_agent_proposes_takes_no_place(kind: str) -> None:
    engine = Engine(Policy())
    play(engine, Paused(at=at(0), t=0, agent="code", source="operator", by="alice"))
    for n in range(MAX_COMMON + 40):
        assert not names(engine, n, **{kind: f"w{n}"}).allowed

    assert names(engine, 1100, "ops", **{kind: "new"}).allowed


@pytest.mark.parametrize(("keyless", "part"), [(False, 250), (True, 125)], ids=["key", "anonymous"])
@pytest.mark.parametrize(("kind", "plural"), [("model", "models"), ("dependency", "dependencies")])
def test_each_agent_has_its_own_part_of_the_places(
    kind: str, plural: str, part: int, *, keyless: bool
) -> None:
    engine = Engine(Policy())
    for n in range(part):
        said: dict[str, Any] = {kind: f"w{n}", "text": f"page {n}"}
        assert ask(engine, propose(n, "code", f"p{n}", keyless=keyless, **said)).allowed

    one_more: dict[str, Any] = {kind: "one more", "text": "x"}
    decision = ask(engine, propose(600, "code", "q1", keyless=keyless, **one_more))

    assert (decision.triggered_rules, decision.limit_id) == ((f"keys.{kind}",), f"keys.{kind}:code")
    assert f"code reached the limit of {part} {plural}" in decision.reason
    assert ask(engine, propose(601, "ops", "q2", keyless=keyless, **one_more)).allowed
    again: dict[str, Any] = {kind: "one more", "text": "y"}
    assert ask(engine, propose(602, "code", "q3", keyless=keyless, **again)).allowed
    later: dict[str, Any] = {kind: "tomorrow", "text": "z"}
    assert ask(engine, propose(600 + FORGET_S, "code", "q4", keyless=keyless, **later)).allowed


def test_words_of_agents_with_keys_may_fill_all_places() -> None:
    words = Vocabulary()
    for n in range(MAX_COMMON):
        words.take(f"a{n % 4}", Proposal(type="x", model=f"w{n}"), n, keyless=False)
    one_more = Proposal(type="x", model="one more")

    assert dict(words.too_many("k0", one_more, 1000, keyless=True)) == {"model": MAX_COMMON}
    assert dict(words.too_many("k0", one_more, FORGET_S, keyless=True)) == {}


@pytest.mark.parametrize(("kind", "plural"), [("model", "models"), ("dependency", "dependencies")])
def test_one_word_of_all_agents_too_many_is_refused(kind: str, plural: str) -> None:
    engine = Engine(Policy())
    fill(engine, kind, MAX_COMMON, agents=10)

    decision = names(engine, 1001, "ops", **{kind: "one more"})

    assert (decision.triggered_rules, decision.limit_id) == ((f"keys.{kind}",), f"keys.{kind}")
    assert f"1000 {plural}" in decision.reason
    assert names(engine, 1002, "ops", **{kind: "w0"}).allowed


def test_every_kind_that_is_full_is_named() -> None:
    engine = Engine(Policy())
    for n in range(MAX_WORDS):
        names(engine, n, session=f"s{n}", chain=f"c{n}")

    decision = names(engine, 100, session="s", chain="c", task="t")

    assert decision.triggered_rules == ("keys.session", "keys.chain")
    assert decision.limit_id == "keys.session:code"


def test_what_is_refused_for_its_words_is_remembered_by_nobody() -> None:
    engine = Engine(Policy())
    fill(engine, "chain")
    before = engine.save()().actors
    said: dict[str, Any] = {
        "session": "s",
        "episode": "e",
        "task": "t",
        "model": "m",
        "dependency": "d",
    }

    for type_ in ("dispatch", "memory_write", "dance"):
        proposed = propose(100, id=type_, type=type_, chain="c", observation=HOME, **said)
        assert not ask(engine, proposed).allowed

    after = engine.save()().actors
    changed = {name for name in after if after[name] != before[name]}
    # That it was decided is known, without its words.
    assert changed == {"keys", "recall", "reporter", "last_decisions"}
    assert engine.keys.agents["code"].blocked == 3
    assert names(engine, 101, **said).allowed


def test_an_unknown_agent_that_is_refused_for_its_words_stays_unknown() -> None:
    engine = Engine(Policy())
    fill(engine, "model", MAX_COMMON, agents=10)

    names(engine, 1001, "stranger", model="one more")

    assert "stranger" not in engine.keys.agents


def test_a_guard_that_fails_makes_nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(Policy())

    def fail(*_: object) -> Verdict:
        raise RuntimeError("broken")

    monkeypatch.setattr(engine.keys, "check", fail)
    before = engine.sessions.save()()

    assert names(engine, 0, session="s").triggered_rules == ("keys.failed",)
    assert engine.sessions.save()() == before


@pytest.mark.parametrize("kind", ["chain", "episode", "task"])
def test_a_word_is_forgotten_a_day_after_it_was_heard_and_only_for_a_new_one(kind: str) -> None:
    engine = Engine(Policy())
    fill(engine, kind)
    used_t = REFRESH_S + 10
    names(engine, used_t, **{kind: "w0"})

    assert not names(engine, 1 + FORGET_S - 0.5, **{kind: "new"}).allowed
    assert names(engine, 1 + FORGET_S, **{kind: "new"}).allowed
    assert not names(engine, 1 + FORGET_S + 0.5, **{kind: "w1"}).allowed
    assert names(engine, 1 + FORGET_S + 0.7, **{kind: "w0"}).allowed


def test_words_that_are_in_use_are_not_forgotten() -> None:
    engine = Engine(Policy())
    fill(engine, "chain")
    for t in (40_000, 80_000):
        for n in range(MAX_WORDS):
            names(engine, t + n, chain=f"w{n}")

    assert not names(engine, FORGET_S + 100, chain="new").allowed


def test_an_outcome_keeps_its_chain_and_task_known() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, chain="c", task="t"))
    for n in range(1, MAX_WORDS):
        names(engine, 1000 + n, chain=f"c{n}", task=f"t{n}")
    play(engine, outcome(2000))

    assert not names(engine, FORGET_S + 1000, chain="new").allowed
    assert not names(engine, FORGET_S + 1000.5, task="new").allowed


@pytest.mark.parametrize(
    "end",
    [
        lambda engine: play(engine, report(100, EpisodeEnded(episode="w3"))),
        lambda engine: play(engine, reset(100, episode="w3")),
        lambda engine: play(engine, reset(100)),
    ],
)
def test_the_end_of_an_episode_or_a_reset_makes_room(end: Callable[[Engine], object]) -> None:
    engine = Engine(Policy())
    fill(engine, "episode")

    end(engine)

    assert names(engine, 101, episode="new").allowed


def test_a_session_takes_its_episodes_with_it() -> None:
    engine = Engine(Policy())
    for n in range(MAX_WORDS):
        names(engine, n, episode=f"e{n}", session=f"s{n % 4}")

    play(engine, report(100, SessionEnded(session="s0")), reset(101, session="s1"))

    allowed = [names(engine, 102 + n, episode=f"new{n}").allowed for n in range(33)]
    assert allowed == [True] * 32 + [False]


@pytest.mark.parametrize(
    "event",
    [
        reset(100, session="other"),
        reset(100, session="other", episode="w3"),
        report(100, EpisodeEnded(episode="other")),
        report(100, EpisodeEnded(episode="w3"), "ops"),
    ],
)
def test_the_end_of_another_episode_makes_no_room(event: Forgotten) -> None:
    engine = Engine(Policy())
    fill(engine, "episode")

    play(engine, event)

    assert not names(engine, 101, episode="new").allowed


def test_an_episode_that_moves_on_ends_with_its_last_session() -> None:
    engine = Engine(Policy())
    names(engine, 0, episode="e", session="s0")
    names(engine, 1, episode="e", session="s1")
    for n in range(1, MAX_WORDS):
        names(engine, 1 + n, episode=f"e{n}")
    play(engine, report(100, SessionEnded(session="s0")))

    assert not names(engine, 101, episode="new").allowed

    play(engine, report(102, SessionEnded(session="s1")))
    assert names(engine, 103, episode="new").allowed


def test_an_episode_that_was_forgotten_is_in_no_session_either() -> None:
    engine = Engine(Policy())
    for n in range(MAX_WORDS):
        names(engine, n, episode=f"e{n}", session="s")
    later = FORGET_S + 100
    names(engine, later, episode="new", session="s")

    play(engine, report(later + 1, SessionEnded(session="s")))

    assert engine.keys.words("code") == {"chain": 0, "episode": 0, "task": 0}


def test_a_reset_frees_no_chain_because_its_budget_holds() -> None:
    engine = Engine(Policy())
    fill(engine, "chain")

    play(engine, reset(100))

    assert not names(engine, 101, chain="new").allowed


def test_an_outcome_makes_words_known_while_there_is_room() -> None:
    engine = Engine(Policy())
    names(engine, 0)
    told = Outcome(ok=True, session="s", task="t", model="m", dependency="d")

    event = settled(engine, 1, told)

    assert (event.session, event.task, event.model, event.dependency) == ("s", "t", "m", "d")


def test_an_outcome_counts_without_the_words_that_are_one_too_many() -> None:
    engine = Engine(Policy())
    for n in range(MAX_WORDS):
        names(engine, n, session=f"s{n}", task=f"t{n}")
    for n in range(250):
        play(engine, report(100, Outcome(ok=True, model=f"m{n}", dependency=f"d{n}")))
    told = Outcome(ok=True, session="s", task="t", model="m", dependency="d", cost_usd=2)

    event = settled(engine, 101, told)

    assert (event.session, event.task, event.model, event.dependency) == ("", None, None, None)
    assert event.cost_usd == 2


def test_the_cost_of_an_action_whose_session_is_over_counts_in_the_implicit_one() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, session="s"), report(1, SessionEnded(session="s")))

    event = settled(engine, 2, Outcome(ok=True, id="p1", cost_usd=2))

    assert event.session == ""


def test_a_name_without_a_key_that_only_talks_makes_no_word_known() -> None:
    engine = Engine(Policy())
    talk = report(0, Outcome(ok=True, session="s", task="t", model="m", dependency="d"))
    talk.keyless = True

    (event,) = [e for e in play(engine, talk) if isinstance(e, Settled)]

    assert (event.session, event.task, event.model, event.dependency) == ("", None, None, None)
