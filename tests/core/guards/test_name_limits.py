"""Whatever agents propose and report, the number of remembered names stays limited."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Reported
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BreakerMoved, Forgotten
from safetyd.core.guards.anomaly.agent_profile import MAX_MODELS
from safetyd.core.guards.breaker import MAX_BREAKERS
from safetyd.core.guards.budget.accounts import FORGET_CHAIN_S
from safetyd.core.guards.circuit import BreakerConfig
from safetyd.core.guards.known_words import FORGET_S, MAX_COMMON, MAX_WORDS
from safetyd.core.messages.proposal import Observation
from safetyd.core.messages.telemetry import (
    AnyTelemetry,
    EpisodeEnded,
    Iteration,
    Outcome,
    SessionEnded,
    SessionStarted,
)
from safetyd.core.open_actions import GIVEN_UP, MAX_UNDER_WAY
from safetyd.core.policy import Policy
from safetyd.core.reporting.session_transcripts import MAX_ANNOUNCED, MAX_ENDED, MAX_KEPT
from safetyd.core.sessions import MAX_SESSIONS
from tests.examples import examples
from tests.story import at, play, propose, report, tick

LIVE = MAX_SESSIONS + 1
CENT = 10_000_000  # nano-dollars

POLICY = Policy(breaker=BreakerConfig(per_task=True))
KINDS = ("session", "chain", "episode", "task", "model", "dependency")
TYPES = ("read_file", "dispatch", "memory_write", "click", "dance")


class Agents:
    """Agents that invent names, and what they spent on each chain."""

    def __init__(self) -> None:
        self.engine = Engine(POLICY)
        self.journal: list[bytes] = []
        self.t = 0.0
        self.ids = 0
        self.spent: dict[tuple[str, str], int] = defaultdict(int)
        self.heard_t: dict[tuple[str, str], float] = {}

    def plays(self, *story: Event) -> None:
        self.journal += [encode(event) for event in play(self.engine, *story)]

    def proposes(self, agent: str, type_: str, words: dict[str, str], *, keyless: bool) -> None:
        """Propose and, if allowed, report a cost of one cent."""
        self.ids += 1
        id_ = f"p{self.ids}"
        proposed = propose(
            self.t, agent, id_, type_, keyless=keyless, observation=Observation(url=id_), **words
        )
        decision, events = self.engine.decide(proposed)
        self.journal += [encode(event) for event in events]
        whose = agent, words.get("chain", "")
        if not any(rule.startswith("keys.") for rule in decision.triggered_rules):
            if not self.remembered(whose):
                self.spent[whose] = 0
            self.heard_t[whose] = self.t
        if decision.allowed:
            self.plays(report(self.t, Outcome(id=id_, ok=True, cost_usd=0.01), agent))
            self.spent[whose] += CENT

    def remembered(self, chain: tuple[str, str]) -> bool:
        return self.t < self.heard_t.get(chain, self.t) + FORGET_CHAIN_S

    def tells(self, agent: str, telemetry: AnyTelemetry, *, keyless: bool) -> None:
        told = Reported(at=at(self.t), t=self.t, agent=agent, telemetry=telemetry, keyless=keyless)
        self.plays(told)

    def saved(self, actor: str) -> Any:
        return msgspec.msgpack.decode(self.engine.save()().actors[actor], strict=False)


class Batch(msgspec.Struct, frozen=True):
    """Messages of one agent, each with new names of some kinds."""

    agent: str
    keyless: bool
    what: str
    kinds: frozenset[str]
    first: int
    count: int
    gap_s: float

    def words(self, n: int) -> dict[str, str]:
        return {kind: f"{kind}{n}" for kind in KINDS if kind in self.kinds}

    def sent_by(self, agents: Agents) -> None:
        for n in range(self.first, self.first + self.count):
            agents.t += self.gap_s
            if self.what in TYPES:
                agents.proposes(self.agent, self.what, self.words(n), keyless=self.keyless)
            else:
                agents.tells(self.agent, self.telemetry(n), keyless=self.keyless)

    def telemetry(self, n: int) -> AnyTelemetry:
        said = self.words(n)
        session = said.get("session", "")
        match self.what:
            case "outcome":
                return Outcome(
                    ok=True,
                    session=session,
                    task=said.get("task"),
                    model=said.get("model"),
                    dependency=said.get("dependency"),
                    cost_usd=0.01,
                )
            case "iteration":
                return Iteration(session=session)
            case "session_started":
                return SessionStarted(session=session)
            case "session_ended":
                return SessionEnded(session=session)
        return EpisodeEnded(episode=f"episode{n}")


class Reset(msgspec.Struct, frozen=True):
    agent: str

    def sent_by(self, agents: Agents) -> None:
        agents.plays(Forgotten(at=at(agents.t), t=agents.t, agent=self.agent, by="alice"))


class Silence(msgspec.Struct, frozen=True):
    seconds: float

    def sent_by(self, agents: Agents) -> None:
        agents.t += self.seconds
        agents.plays(tick(agents.t))


telling = ("outcome", "iteration", "session_started", "session_ended", "episode_ended")
names = st.sampled_from(["code", "ops", "shop"])
batches = st.builds(
    Batch,
    names,
    st.booleans(),
    st.sampled_from(TYPES * 2 + telling),
    st.frozensets(st.sampled_from(KINDS), min_size=1),
    st.sampled_from([0, 30, 60, 200, 900]),
    st.sampled_from([1, 40, 70, 130, 400]),
    st.sampled_from([0.0, 0.5, 1.0, 1000.0]),
)
steps = st.one_of(
    batches,
    batches,
    batches,
    st.builds(Reset, names),
    st.builds(Silence, st.sampled_from([10.0, 2000.0, FORGET_S])),
)


def counts(agents: Agents) -> Iterator[tuple[str, int, int]]:
    """Yield every collection that names could fill, its size and its limit."""
    keys, budget, breaker = (agents.saved(name) for name in ("keys", "budget", "breaker"))
    words = keys["words"]
    yield "models", len(words["models"]), MAX_COMMON
    yield "dependencies", len(words["dependencies"]), MAX_COMMON
    for mine in words["agents"].values():
        for kind, heard in mine.items():
            yield kind, len(heard), MAX_WORDS
    for kind, by_agent, most in (
        ("live", agents.saved("sessions")["live"], LIVE),
        ("rounds", agents.saved("iterations")["agents"], LIVE),
        ("memory", agents.saved("classify")["memory"], LIVE),
        ("visits", agents.saved("gate"), 2 * MAX_WORDS + 1),
        ("under way", agents.saved("actions")["under_way"], MAX_UNDER_WAY + GIVEN_UP),
    ):
        for mine in by_agent.values():
            yield kind, len(mine), most
    for books in budget["agents"].values():
        yield "chain accounts", len(books["chains"]), MAX_WORDS
        yield "session accounts", len(books["sessions"]), LIVE
    yield "model accounts", len(budget["day"]["models"]), MAX_COMMON
    yield "buckets", len(agents.saved("rate")["models"]), MAX_COMMON
    yield "breakers", len(breaker["closed"]) + len(breaker["tripped"]), MAX_BREAKERS
    for mine in agents.saved("anomaly")["agents"].values():
        yield "baselines", len(mine["models"]), MAX_MODELS
    transcripts = agents.saved("transcripts")
    for mine in transcripts["live"].values():
        yield "records", len(mine), LIVE
    yield "entries", transcripts["kept"], MAX_KEPT
    yield "ended", len(transcripts["ended"]), MAX_ENDED
    yield "announced", len(transcripts["announced"]), MAX_ANNOUNCED


def accounts(agents: Agents) -> dict[tuple[str, str], int]:
    """Return the spending by agent and chain."""
    standings = agents.engine.guards.budget.standings(at(agents.t))
    return {(s.agent or "", s.id): s.spent for s in standings if s.scope == "chain"}


@pytest.mark.req("S1.38")
@examples(0.4)
@given(st.lists(steps, max_size=10))
def test_no_words_fill_the_memory_and_no_limit_is_forgotten(story) -> None:
    agents = Agents()

    for step in story:
        step.sent_by(agents)

        assert [count for count in counts(agents) if count[1] > count[2]] == []
        known = accounts(agents)
        for whose, spent in agents.spent.items():
            if spent and whose[1] and agents.remembered(whose):
                assert known[whose] == spent

    fresh = Engine(POLICY)
    fresh.replay(decode(line) for line in agents.journal)
    assert fresh.save()() == agents.engine.save()()


def test_buckets_that_are_full_again_make_room_for_models() -> None:
    engine = Engine(Policy())
    guard = engine.guards.rate
    for n in range(MAX_COMMON):
        play(engine, propose(n, f"a{n % 10}", f"p{n}", model=f"m{n}"))

    play(engine, propose(999, "ops", "q", model="m998"), propose(FORGET_S, "ops", model="new"))

    assert len(msgspec.msgpack.decode(guard.save()())["models"]) == 1
    assert guard.model_bucket("new", FORGET_S).tokens < guard.model_bucket("m0", FORGET_S).tokens


def test_of_open_breakers_those_for_one_agent_make_room_first() -> None:
    engine = Engine(Policy())
    for n in range(MAX_BREAKERS):
        agent = "code" if n == 5 else None
        play(engine, opened(f"d{n}", agent))

    play(engine, opened("one more"))

    known = {status.breaker for status in engine.guards.breaker.tripped}
    assert len(known) == MAX_BREAKERS
    assert "d5" not in known
    assert {"d0", "one more"} <= known


def opened(breaker: str, agent: str | None = None) -> BreakerMoved:
    return BreakerMoved(at=at(0), t=0.0, breaker=breaker, state="open", reason="drill", agent=agent)
