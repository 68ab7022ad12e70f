from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from prometheus_client.core import GaugeMetricFamily

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import BreakerMoved, PersonSeen, SafeModeEntered
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.iterations import IterationsConfig
from safetyd.core.messages.telemetry import Commit, Outcome
from safetyd.core.policy import AgentConfig, Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from safetyd.monitoring.gauges import MAX_BREAKERS, Gauges
from safetyd.operators.contract.notification_contract import ChannelState
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, play, propose, report

Values = dict[str, float]


class Reading(NamedTuple):
    """Gauges of an engine at a moment."""

    gauges: Gauges
    engine: Engine
    t: float

    def families(self) -> Iterator[GaugeMetricFamily | None]:
        return self.gauges.families(self.engine, Moment(at(self.t), self.t))


def read(
    engine: Engine,
    t: float = 60.0,
    keys: Sequence[str] = (),
    channels: Sequence[ChannelState] = (),
) -> Reading:
    return Reading(Gauges(lambda: engine.policy, lambda: keys, lambda: channels), engine, t)


def values(reading: Reading, name: str) -> Values:
    """Return a family's values by label, "" if it has none."""
    family = next(found for found in reading.families() if found and found.name == name)
    return {"".join(sample.labels.values()): sample.value for sample in family.samples}


def told(*story: Event, name: str, policy: Policy | None = None, t: float = 60.0) -> Values:
    engine = Engine(policy or Policy())
    play(engine, *story)
    return values(read(engine, t), name)


def entered(t: float, agent: str | None) -> SafeModeEntered:
    return SafeModeEntered(at=at(t), t=t, by="alice", agent=agent)


def moved(t: float, breaker: str, state: str = "open", agent: str | None = None) -> Event:
    return BreakerMoved(at=at(t), t=t, breaker=breaker, state=state, reason="x", agent=agent)  # type: ignore[arg-type]


@pytest.mark.req("S0.21")
@pytest.mark.parametrize("agent", ["code", None])
def test_safe_mode_is_active_while_one_agent_or_everybody_is_in_it(agent: str | None) -> None:
    assert told(name="autonomy_safe_mode_active") == {"": 0}
    assert told(entered(0, agent), name="autonomy_safe_mode_active") == {"": 1}


@pytest.mark.req("S2.43")
def test_time_since_a_person_was_seen_goes_on_between_events() -> None:
    seen = PersonSeen(at=at(10), t=10.0, by="alice", how="ack")

    assert told(seen, name="safetyd_seconds_since_human", t=70) == {"": 60}


def test_state_of_each_breaker_is_a_number() -> None:
    story = (moved(0, "db"), moved(0, "api"), moved(1, "api", "half_open"))

    assert told(*story, name="safetyd_breaker_state") == {"db": 2, "api": 1}


def test_what_cannot_be_seen_in_a_breakers_name_is_spelt_out() -> None:
    story = moved(0, "db\x1b[31m\u202e"), moved(0, "naïve")

    shown = told(*story, name="safetyd_breaker_state")

    assert shown == {"db\\x1b[31m\\u202e": 2, "naïve": 2}


def test_breakers_after_the_first_hundred_share_a_label_that_shows_the_worst() -> None:
    engine = Engine(Policy())
    play(engine, *(moved(0, f"b{n}", agent="code") for n in range(MAX_BREAKERS)))
    gauges = read(engine)
    values(gauges, "safetyd_breaker_state")
    play(engine, moved(1, "late"), moved(1, "later"), moved(2, "later", "half_open"))
    play(engine, moved(3, "b7", "closed", agent="code"))

    shown = values(gauges, "safetyd_breaker_state")

    assert len(shown) == MAX_BREAKERS
    assert shown["other"] == 2
    assert "b7" not in shown
    assert shown["b8"] == 2


def test_two_breakers_of_one_name_are_one_series() -> None:
    story = (moved(0, "api/code"), moved(0, "api/code", agent="code"))

    assert told(*story, moved(1, "api/code", "half_open"), name="safetyd_breaker_state") == {
        "api/code": 2
    }


def spends(t: float, session: str, cost_usd: float, agent: str = "code") -> list[Event]:
    outcome = Outcome(ok=True, session=session, cost_usd=cost_usd)
    return [report(t, outcome, agent)]


def test_the_fullest_session_is_shown_and_not_the_dearest() -> None:
    agents = {"ops": AgentConfig(session_usd=100.0)}
    policy = Policy(agents=agents, budget=BudgetConfig(party_share=1.0))
    story = [*spends(0, "a", 6), *spends(1, "b", 4), *spends(2, "c", 30, "ops")]

    spent = told(*story, name="safetyd_budget_spent_usd", policy=policy)
    limit = told(*story, name="safetyd_budget_limit_usd", policy=policy)

    assert (spent["session"], limit["session"]) == (6, 10)
    assert (spent["day"], limit["day"]) == (40, 50)


def test_what_is_set_aside_is_shown_beside_what_is_spent() -> None:
    story = propose(0, chain="c-1", cost_usd=2.0)

    assert told(story, name="safetyd_budget_spent_usd")["chain"] == 0
    assert told(story, name="safetyd_budget_reserved_usd")["chain"] == 2
    assert told(story, name="safetyd_budget_limit_usd")["chain"] == 5


def test_scope_without_a_limit_shows_none_and_the_largest_amount() -> None:
    policy = Policy(budget=BudgetConfig(session_usd=0.0))
    story = [*spends(0, "a", 1), *spends(1, "b", 3), *spends(2, "c", 2)]

    assert told(*story, name="safetyd_budget_spent_usd", policy=policy)["session"] == 3
    assert told(*story, name="safetyd_budget_limit_usd", policy=policy) == {"day": 50}


def test_no_limit_of_single_agents_or_models_becomes_a_label() -> None:
    story = propose(0, chain="c-1", session="s-1", model="m-1", cost_usd=1.0)

    assert told(story, name="safetyd_budget_spent_usd").keys() == {"chain", "session", "day"}


def test_only_names_that_an_operator_gave_are_labels() -> None:
    policy = Policy(
        agents={"nightly": AgentConfig()}, iterations=IterationsConfig(agents={"code": 3})
    )
    gauges = read(Engine(policy), keys=["keyed", "silent"]).gauges

    assert [gauges.label(agent) for agent in ("nightly", "code", "keyed")] == [
        "nightly",
        "code",
        "keyed",
    ]
    assert gauges.label("stranger") == "other"
    assert gauges.labels() == {"nightly", "code", "keyed", "silent"}


@pytest.mark.req("S2.43")
def test_agents_without_a_label_show_the_highest_of_them() -> None:
    commits = (report(1, Commit(ref="r", files_changed=n), f"a{n}") for n in (3, 14, 5))
    story = (report(1, Commit(ref="r", files_changed=11)), *commits)

    assert told(*story, name="safetyd_files_per_commit") == {"code": 11, "other": 14}


@pytest.mark.req("S2.43")
def test_repeated_actions_are_counted_and_forgotten_with_another_one() -> None:
    same = [propose(n, id=f"p{n}", text="x") for n in range(6)]
    another = propose(6, id="p6", text="y")

    assert told(*same, name="safetyd_repeated_actions") == {"code": 6}
    assert told(*same, another, name="safetyd_repeated_actions") == {"code": 1}


@pytest.mark.req("S2.43")
def test_error_ratio_is_of_the_last_hundred_outcomes() -> None:
    story = [report(n, Outcome(ok=n >= 6)) for n in range(103)]

    assert told(propose(0), *story, name="safetyd_error_ratio", t=200) == {"code": 0.03}


def test_reading_changes_nothing() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, chain="c-1", cost_usd=2.0), moved(1, "db"))
    before = engine.save()()

    list(read(engine).families())

    assert engine.save()() == before


def test_requests_that_wait_are_counted_and_the_oldest_has_an_age() -> None:
    queue = QueueStory()
    queue.asks(10, "p1")
    queue.asks(30, "p2", text="git push origin dev")
    gauges = read(queue.engine, t=70)

    assert values(gauges, "safetyd_requests_pending") == {"": 2}
    assert values(gauges, "safetyd_request_oldest_seconds") == {"": 60}


def test_without_requests_the_oldest_has_no_age() -> None:
    gauges = read(Engine(Policy()))

    assert values(gauges, "safetyd_request_oldest_seconds") == {"": 0}


def test_requests_that_nobody_was_told_of_in_time_are_counted() -> None:
    awake = QuietHours(start="00:00", end="00:00")
    alice = Recipient(name="alice", channels=("email",), quiet=awake)
    queue = QueueStory(
        Policy(telling=TellingConfig(recipients=(alice,), channels={"email": "email"}))
    )
    queue.asks(10)

    # A first message may wait for fourteen minutes, and its delivery may take two.
    asked_s = 10.0
    for waited_s, unnotified in ((14 * 60, 0), (16 * 60 - 1, 0), (16 * 60 + 1, 1)):
        reading = read(queue.engine, t=asked_s + waited_s)
        assert values(reading, "safetyd_requests_unnotified") == {"": unnotified}


def state(name: str, **fields: object) -> ChannelState:
    given: dict[str, object] = {
        "up": True,
        "waiting_high": 0,
        "waiting_normal": 0,
        "under_way": 0,
        "oldest_s": None,
        "last_success_s_ago": None,
        "last_error": "",
        "failing": False,
        "fuse": "closed",
        "next_try_s": None,
    }
    return ChannelState(name=name, **given | fields)  # type: ignore[arg-type]


def test_each_channel_shows_what_waits_how_long_and_whether_it_takes_anything() -> None:
    email = state("email", up=False, waiting_high=1, waiting_normal=2, under_way=1, oldest_s=90.0)
    gauges = read(Engine(Policy()), channels=(email, state("sms")))

    assert values(gauges, "safetyd_notify_queue_depth") == {"email": 4, "sms": 0}
    assert values(gauges, "safetyd_notify_oldest_pending_seconds") == {"email": 90, "sms": 0}
    assert values(gauges, "safetyd_notify_up") == {"email": 0, "sms": 1}


def test_without_channels_nothing_is_shown_of_them() -> None:
    gauges = read(Engine(Policy()))

    assert values(gauges, "safetyd_notify_up") == {}
