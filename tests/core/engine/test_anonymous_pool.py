"""Whatever comes without a key, an agent with one that keeps to its own limits hears the same.

Two engines hear the same agents with keys, and one of them a crowd of made-up names as well. Rate,
money, safe mode, breakers, names and words are all in force, and small enough to be reached.
"""

from itertools import count
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from safetyd.core.anonymous_pool import ANONYMOUS, counted_as
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import Checkpoint
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Proposed, Reported
from safetyd.core.events.event import Event
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.circuit import BreakerConfig
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.guards.rate.rate_limits import (
    ProductionAgent,
    ProductionGlobal,
    ProductionModel,
    ProductionRates,
)
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.telemetry import Outcome, SessionStarted
from safetyd.core.policy import Policy
from tests.examples import examples
from tests.story import at, play, propose, tick

# What two agents may take together is half of what all may.
RATES = ProductionRates(
    global_=ProductionGlobal(tokens_per_minute=60, burst=60),
    agent=ProductionAgent(tokens_per_minute=12, burst=12),
    model=ProductionModel(tokens_per_minute=60, burst=60),
)
POLICY = Policy(
    max_agents=4,
    rate=RateConfig(production=RATES),
    budget=BudgetConfig(day_usd=40, model_usd=30),
    safe_mode=SafeModeConfig(global_after_agents=2),
    breaker=BreakerConfig(
        min_calls=4, max_consecutive_failures=3, open_s=5, probe_count=2, probe_interval_s=1
    ),
)
KEYED = ("code", "ops")


class Keyed(msgspec.Struct, frozen=True):
    """An agent with a key does something, and says how it went."""

    agent: str
    type: str
    fields: dict[str, str | float]
    ok: bool | None  # None: it does not say


class Crowd(msgspec.Struct, frozen=True):
    """So many messages without a key, each under the name and with the words of its number."""

    first: int
    number: int
    type: str
    shared: bool  # it names what the others call, and not what it made up
    cost_usd: float
    ok: bool

    def words(self, n: int) -> dict[str, str]:
        if self.shared:
            return {"model": "llama", "dependency": "api", "session": "s"}
        return {"model": f"m{n}", "dependency": f"d{n}", "session": f"s{n}", "chain": f"c{n}"}


class Pause(msgspec.Struct, frozen=True):
    seconds: float


Step = Keyed | Crowd | Pause

words = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["llama", "mine"]),
        "dependency": st.sampled_from(["api", "db"]),
        "session": st.sampled_from(["s", "own"]),
        "chain": st.just("c"),
        "cost_usd": st.sampled_from([0.0, 0.1]),
    },
)
keyed = st.builds(
    Keyed,
    st.sampled_from(KEYED),
    st.sampled_from(["read_file", "edit_file", "model_call", "push"]),
    words,
    st.sampled_from([None, True, True, False]),
)
crowds = st.builds(
    Crowd,
    st.sampled_from([0, 0, 50, 1000]),
    st.sampled_from([1, 3, 9, 40]),
    st.sampled_from(["read_file", "edit_file", "model_call", "push", "change_password", "outcome"]),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 9.0, 1e9]),
    st.booleans(),
)
pauses = st.builds(Pause, st.sampled_from([0.1, 1.0, 6.0, 30.0]))
stories = st.lists(keyed | keyed | crowds | pauses, max_size=40)


class World:
    """The two engines, and what happens in both or in the crowded one only."""

    def __init__(self) -> None:
        self.quiet, self.crowded = Engine(POLICY), Engine(POLICY)
        self.journal: list[bytes] = []  # of the crowded one
        self.t = 0.0
        self._ids = count(1)
        for agent in KEYED:
            self.happens(Keyed(agent, "read_file", {}, ok=True))

    def happens(self, step: Step) -> None:
        match step:
            case Keyed():
                self._same(step)
            case Crowd():
                for n in range(step.first, step.first + step.number):
                    self._anybody(step, f"k{n % 97}", n)
            case Pause(seconds=seconds):
                self.t += seconds
                self._both(tick(self.t))

    def _same(self, step: Keyed) -> None:
        id_ = f"p{next(self._ids)}"
        asked = propose(self.t, step.agent, id_, step.type, text=id_, **step.fields)  # type: ignore[arg-type]
        quiet, crowded = self.quiet.decide(asked)[0], self._asks(asked)
        assert heard(crowded) == heard(quiet), (step, crowded.reason)
        if quiet.allowed and step.ok is not None:
            self._both(told(self.t, step.agent, Outcome(id=id_, ok=step.ok, cost_usd=0.1)))

    def _anybody(self, step: Crowd, name: str, n: int) -> None:
        id_, said = f"p{next(self._ids)}", step.words(n)
        if step.type == "outcome":
            began = SessionStarted(session=said["session"])
            self._crowd(told(self.t, name, began, keyless=True))
            ended = Outcome(ok=step.ok, cost_usd=step.cost_usd, model=said["model"])
        else:
            terms: dict[str, Any] = {**said, "cost_usd": min(step.cost_usd, 5.0)}
            asked = propose(self.t, name, id_, step.type, text=id_, keyless=True, **terms)
            if not self._asks(asked).allowed:
                return
            ended = Outcome(id=id_, ok=step.ok, cost_usd=step.cost_usd)
        self._crowd(told(self.t, name, ended, keyless=True))

    def _asks(self, proposed: Proposed) -> Decision:
        decision, events = self.crowded.decide(proposed)
        self.journal += map(encode, events)
        return decision

    def _both(self, event: Event) -> None:
        play(self.quiet, event)
        self._crowd(event)

    def _crowd(self, event: Event) -> None:
        self.journal += map(encode, play(self.crowded, event))


def told(
    t: float, agent: str, telemetry: Outcome | SessionStarted, *, keyless: bool = False
) -> Reported:
    return Reported(at=at(t), t=t, agent=agent, telemetry=telemetry, keyless=keyless)


def heard(decision: Decision) -> tuple[object, ...]:
    return decision.decision, decision.cause, decision.triggered_rules, decision.limit_id


def crowd(type_: str, number: int = 40, first: int = 0, cost_usd: float = 0.0) -> Crowd:
    return Crowd(first, number, type_, shared=True, cost_usd=cost_usd, ok=False)


EDITS = [Keyed(agent, "edit_file", {"dependency": "api"}, ok=True) for agent in KEYED]
FAILS = Keyed("code", "edit_file", {}, ok=False)
CALLS = [
    Keyed(agent, "model_call", {"model": "llama", "cost_usd": 0.1}, ok=None) for agent in KEYED
]


@given(stories)
@example([crowd("outcome", cost_usd=1e9), *CALLS])
@example([crowd("model_call", cost_usd=5.0), crowd("model_call", cost_usd=5.0), *CALLS])
@example([crowd("read_file"), crowd("read_file", first=50), *(EDITS * 8)])
@example([crowd("outcome")] * 3 + EDITS)
@example([crowd("outcome")] * 3 + [FAILS] * 3 + EDITS)
@example([crowd("edit_file"), *EDITS])
@example([Crowd(1000, 1001, "read_file", shared=False, cost_usd=0.0, ok=True), *CALLS])
def test_no_stream_of_events_without_a_key_changes_what_an_agent_with_one_hears(
    story: list[Step],
) -> None:
    world = World()
    for step in story:
        world.happens(step)


@given(stories)
@examples(0.4)
def test_a_crowded_engine_is_rebuilt_from_its_journal_and_its_checkpoint(
    story: list[Step],
) -> None:
    world, replayed = World(), Engine(POLICY)
    for step in story:
        world.happens(step)

    replayed.replay(map(decode, world.journal))
    encoded = msgspec.msgpack.encode(world.crowded.save()())
    restored = Engine.restore(msgspec.msgpack.decode(encoded, type=Checkpoint))

    assert replayed.save()() == world.crowded.save()() == restored.save()()


def test_agents_without_a_key_count_as_one_and_each_with_one_as_itself() -> None:
    assert (
        counted_as(propose(0, "a", keyless=True))
        == counted_as(propose(0, "b", keyless=True))
        == ANONYMOUS
    )
    assert counted_as(propose(0, "a")) == "a"
