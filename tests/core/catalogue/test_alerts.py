"""Which events are alerts: how urgent each is, where it is told, and in which words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from safetyd.core.actor import counts
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.catalogue.catalogue import alert_of
from safetyd.core.catalogue.entry import Alert
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import KeysChanged
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event, Level
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BudgetMarked,
    Paused,
    SafeModeEntered,
    Stopped,
)
from safetyd.core.events.history_events import RollbackFailed, RollbackOffered, SnapshotMissed
from safetyd.core.events.notification_events import ChannelMoved, NotTold, Told
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.presence import NoHuman
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.policy import Policy
from tests.snapshot import check_snapshot
from tests.story import at, outcome, play, propose, stop, tick

HOUR_S: Final = 3600.0
FILE: Final = "file:/srv/EMERGENCY_STOP"
CHAT: Final = ("chat", "webhook")
EVERYWHERE: Final = {"sms", "desktop", "email", *CHAT}
WORDS: Final = Path(__file__).with_name("alerts.txt")
Kind = TypeVar("Kind", bound=Event)


def happens(kind: type[Kind], **fields: Any) -> Kind:
    return kind(at=at(1), t=1.0, **fields)


def found(severity: Level = "medium", **fields: Any) -> AnomalyFound:
    given = {"rule": "anomaly.error_rate", "message": "Errors: 9 of 10", "agent": "code"}
    return happens(AnomalyFound, severity=severity, **given | fields)


def stopped(source: str, reason: str = "drill", **fields: Any) -> Stopped:
    return happens(Stopped, source=source, reason=reason, **{"by": "alice", "epoch": 1} | fields)


def marked(mark: str, scope: str, **fields: Any) -> BudgetMarked:
    given = {"id": "x1", "spent": 4.0, "reserved": 0.5, "limit": 5.0, "estimate": 1.0}
    return happens(BudgetMarked, mark=mark, scope=scope, **given | fields)


def not_told(state: str, error: str = "550 no such user", by: str = "") -> NotTold:
    return happens(NotTold, delivery="dlv_1", channel="email", state=state, error=error, by=by)


def not_back(**fields: Any) -> RollbackFailed:
    return happens(RollbackFailed, project="shop", commit="4f2a", error="no room", **fields)


# Every form of an alert; `alerts.txt` beside this test has their words.
EVENTS: Final[tuple[Event, ...]] = (
    found("critical"),
    found("high"),
    found("high", agent=None, breaker="api.example.com"),
    found("medium"),
    found("medium", rule="anomaly.no_human", message="No person seen for 25 h", agent=None),
    stop(1),
    stop(1, agent="code"),
    stopped(FILE, "/srv/EMERGENCY_STOP exists", by="file"),
    stopped(FILE),
    stopped(FILE, "/srv/EMERGENCY_STOP exists"),
    stopped("environment", by="file"),
    stopped("operator", ""),
    marked("exceeded", "day"),
    marked("exceeded", "day", estimate=0.0),
    marked("exceeded", "chain", agent="code"),
    marked("exceeded", "model"),
    marked("exceeded", "agent", id="code", agent="code"),
    marked("warning", "day"),
    marked("warning", "session", id="", agent="code"),
    happens(SafeModeEntered, by="safetyd", agent="code", reason="3 errors in a row"),
    happens(SafeModeEntered, by="alice"),
    happens(SafeModeEntered, by="alice", agent=ANONYMOUS),
    not_told("dead"),
    not_told("undelivered"),
    not_told("parked", "535 wrong password"),
    happens(ChannelMoved, channel="email", up=False),
    happens(ChannelMoved, channel="email", up=True),
    not_back(),
    not_back(agents=("a", "b"), paths=("src/my cart.py",)),
    not_back(half=True),
    happens(RollbackOffered, project="shop", agent="code", errors=3, commit="4f2a"),
    happens(SnapshotMissed, since="2026-03-01", day="2026-03-03", error="off"),
)


def alerts(*journal: Event) -> list[Alert]:
    return [alert for event in journal if counts(event) and (alert := alert_of(event))]


def alert_about(event: Event) -> Alert:
    (alert,) = alerts(event)
    return alert


def told(policy: Policy, *story: Event) -> Alert:
    """Return the one thing that people are told of a story."""
    (alert,) = alerts(*play(Engine(policy), *story))
    return alert


def repeating(severity: Level) -> tuple[Policy, list[Event]]:
    """Return rules, and a story in which an agent repeats itself too often."""
    detector = RapidIdentical(severity=severity, count=3)
    policy = Policy(anomaly=AnomalyConfig(rapid_identical=detector))
    return policy, [propose(n, id=f"p{n}", type="create_file", text="x") for n in range(3)]


def shown(alert: Alert) -> Iterator[str]:
    where = " ".join(alert.kinds) or "every channel"
    later = f"; after {alert.after_s:g} s {' '.join(alert.later)}" if alert.later else ""
    but = f" but {' '.join(alert.not_on)}" if alert.not_on else ""
    who = f"; about {alert.agent}" if alert.agent else ""
    how = " at once" * alert.always + " batched" * alert.batched
    yield f"[{alert.urgency}{how}; {where}{but}{later}{who}]"
    yield alert.title
    yield from (f"  {line}" for line in alert.text.splitlines())
    yield ""


def test_words_and_ways_of_alerts_are_those_of_the_snapshot() -> None:
    lines = [line for alert in map(alert_about, EVENTS) for line in shown(alert)]

    check_snapshot(WORDS, "\n".join(lines))


@pytest.mark.req("S2.34")
def test_a_critical_anomaly_and_the_stop_that_it_causes_are_told_once_by_sms_first() -> None:
    policy, story = repeating("critical")
    journal = play(Engine(policy), *story)

    (alert,) = alerts(*journal)

    assert any(isinstance(event, Stopped) for event in journal)
    assert (alert.urgency, alert.always, alert.agent) == ("high", True, None)
    assert (alert.kinds[0], set(alert.kinds)) == ("sms", EVERYWHERE)


@pytest.mark.req("S2.35")
def test_a_high_anomaly_is_mailed_and_a_quarter_of_an_hour_later_sent_by_sms() -> None:
    policy, story = repeating("high")

    alert = told(policy, *story)

    assert (alert.urgency, alert.kinds, alert.always) == ("high", ("email",), False)
    assert (alert.later, alert.after_s) == (("sms",), 900.0)


@pytest.mark.req("S2.36")
def test_a_medium_anomaly_goes_to_chat_alone_and_waits_for_others() -> None:
    policy, story = repeating("medium")

    alert = told(policy, *story)

    assert (alert.urgency, alert.kinds, alert.batched) == ("low", CHAT, True)
    assert (alert.later, alert.always) == ((), False)


def test_that_nobody_is_there_is_mailed_and_shown_once_a_day() -> None:
    journal = play(Engine(Policy()), *(tick(hour * HOUR_S) for hour in range(48)))

    (alert,) = alerts(*journal)
    assert (alert.urgency, alert.kinds, alert.batched) == ("normal", ("email", "desktop"), False)


@pytest.mark.parametrize("severity", ["high", "critical"])
def test_that_nobody_is_there_is_as_severe_as_an_operator_says(severity: Level) -> None:
    policy = Policy(anomaly=AnomalyConfig(no_human=NoHuman(severity=severity)))

    assert told(policy, tick(0), tick(25 * HOUR_S)).urgency == "high"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (found(), found(agent="web")),
        (found(), found(agent=None)),
        (found(), found(rule="anomaly.outlier")),
        (found(), found("high")),
        (found(), found("critical")),
        (found(), found(breaker="api.example.com")),
        (stopped("operator"), stopped("operator", "fire")),
        (stopped("operator"), stopped("operator", agent="code")),
        (stopped("operator"), stopped(FILE, "/srv/EMERGENCY_STOP exists", by="file")),
        (marked("warning", "day"), marked("exceeded", "day")),
        (not_told("dead"), not_told("parked")),
    ],
)
def test_another_event_is_another_alert(one: Event, other: Event) -> None:
    assert alert_about(one).key != alert_about(other).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (found(), found()),
        (stopped("operator"), stopped(FILE, epoch=2)),
        (stopped("operator", "two  words"), stopped(FILE, "two words", epoch=2)),
        (stopped("operator", ""), stopped(FILE, "/srv/EMERGENCY_STOP exists", epoch=2)),
        (stopped("operator", ""), stopped(FILE, "/srv/EMERGENCY_STOP is there", epoch=2)),
        (not_told("parked"), happens(ChannelMoved, channel="email", up=False, why="timed out")),
    ],
)
def test_the_same_event_again_is_the_same_alert(one: Event, other: Event) -> None:
    assert alert_about(one).key == alert_about(other).key


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"mark": "warning", "scope": "session", "agent": "a"}, "costs more needs approval"),
        ({"mark": "exceeded", "scope": "day"}, "Every action of every agent that costs more"),
        ({"mark": "exceeded", "scope": "day"}, "safetyd budgets raise day AMOUNT --reason WHY"),
        ({"mark": "exceeded", "scope": "share", "agent": "a"}, "raise agent:a AMOUNT"),
        ({"mark": "exceeded", "scope": "model", "id": "m1"}, "Every call of m1 that costs more"),
        ({"mark": "exceeded", "scope": "day"}, "About $1.00 more was refused."),
        ({"mark": "warning", "scope": "day"}, "$0.50 is left."),
    ],
)
def test_an_alert_about_a_budget_says_what_is_left_and_how_to_raise_it(
    fields: dict[str, Any], said: str
) -> None:
    alert = alert_of(marked(**fields, renewed="at 00:00Z"))

    assert alert is not None
    assert said in alert.text
    assert "The budget is full again at 00:00Z." in alert.text


def test_a_chain_cannot_be_raised_and_what_costs_nothing_was_not_refused() -> None:
    alert = alert_of(
        marked("exceeded", "chain", agent="a", estimate=0.0, renewed="in another chain")
    )

    assert alert is not None
    assert "raise" not in alert.text
    assert "refused" not in alert.text


@pytest.mark.parametrize(
    ("fields", "title", "said"),
    [
        (
            {"severity": "high", "agent": "a"},
            "HIGH: a: m",
            "a is paused until `safetyd unpause a`. Usual is at most 5 (anomaly.x).\nTo look: ",
        ),
        (
            {"severity": "critical", "agent": "a"},
            "CRITICAL: a: m",
            "All agents are stopped until you run `safetyd resume`. Usual is at most 5",
        ),
        ({"severity": "high", "breaker": "b"}, "HIGH: m", "To look: safetyd breakers"),
        ({"severity": "high"}, "HIGH: m", "To look: safetyd status"),
    ],
)
def test_an_alert_about_an_anomaly_says_what_is_usual_and_where_to_look(
    fields: dict[str, Any], title: str, said: str
) -> None:
    alert = alert_of(
        happens(AnomalyFound, rule="anomaly.x", message="m", usual="at most 5", **fields)
    )

    assert alert is not None
    assert alert.title == title
    assert said in alert.text


@pytest.mark.req("S2.4")
def test_a_day_budget_that_is_used_up_is_told_everywhere_at_once() -> None:
    policy = Policy(budget=BudgetConfig(day_usd=1.0))

    alert = told(policy, propose(1, cost_usd=1.5))

    assert (alert.urgency, alert.kinds, alert.agent) == ("high", (), None)


def test_a_session_budget_that_is_used_up_is_told_by_its_request() -> None:
    policy = Policy(budget=BudgetConfig(session_usd=1.0))

    journal = play(Engine(policy), propose(1, cost_usd=1.5))

    assert any(isinstance(event, Decided) and event.asks is not None for event in journal)
    assert any(isinstance(event, Paused) for event in journal)
    assert alerts(*journal) == []


def test_safe_mode_of_an_agent_is_told_to_who_hears_of_it() -> None:
    story: list[Event] = []
    for n in range(3):
        story += [propose(2 * n, id=f"p{n}"), outcome(2 * n + 1, f"p{n}", ok=False)]

    alert = told(Policy(), *story)

    assert (alert.urgency, alert.kinds, alert.agent) == ("normal", (), "code")


@pytest.mark.req("S2.16")
def test_a_prohibited_proposal_is_mailed_and_goes_to_chat() -> None:
    alert = told(Policy(), propose(1, type="change_password"))

    assert (alert.urgency, alert.kinds) == ("normal", ("email", *CHAT))
    assert alert.agent == "code"


@pytest.mark.req("S2.16")
def test_a_prohibited_proposal_is_told_whatever_else_blocks_it() -> None:
    _, prohibited = alerts(*play(Engine(Policy()), stop(1), propose(2, type="change_password")))

    assert prohibited.key == "prohibited code change_password"


@pytest.mark.req("S2.16")
def test_prohibited_proposals_of_one_agent_and_type_are_one_alert() -> None:
    story = [
        propose(1, id="p1", type="change_password"),
        propose(2, id="p2", type="change_password", text="another"),
        propose(3, id="p3", type="change_api_key"),
        propose(4, "web", id="p4", type="change_password"),
    ]

    first, again, other_type, other_agent = alerts(*play(Engine(Policy()), *story))

    assert first.key == again.key
    assert len({first.key, other_type.key, other_agent.key}) == 3


def test_attempts_on_safetyd_itself_are_one_alert_as_urgent_as_prohibited_ones() -> None:
    story = [
        propose(1, id="p1", type="run_shell", text="cat ~/.config/safetyd/operator.nk"),
        propose(2, id="p2", type="run_shell", text="safetyd approve req_1"),
        propose(3, "web", id="p3", type="run_shell", text="safetyd approve req_1"),
    ]
    prohibited = told(Policy(), propose(1, type="change_password"))

    first, again, other_agent = alerts(*play(Engine(Policy()), *story))

    assert first.key == again.key != other_agent.key
    assert (first.urgency, first.kinds) == (prohibited.urgency, prohibited.kinds)
    assert "safetyd stop --agent code" in first.text


def test_a_new_operator_key_is_told_and_an_agents_is_not() -> None:
    def changed(*added: str) -> KeysChanged:
        return KeysChanged(at=at(1), t=1.0, added=added, removed=(), by="local")

    alert = alert_about(changed("agent code U1", "operator mallory U2"))

    assert "mallory" in alert.title
    assert "safetyd operator revoke mallory" in alert.text
    assert alerts(changed("agent code U1", "old operator alice U3")) == []


def test_a_prohibited_proposal_that_people_are_asked_about_is_told_by_its_request() -> None:
    policy = Policy(rules=RulesConfig(prohibited_means="require_confirmation"))

    asked = play(Engine(policy), propose(1, type="change_password"))
    halted = play(Engine(policy), stop(1), propose(2, type="change_password"))

    assert alerts(*asked) == []
    assert [alert.key for alert in alerts(*halted)] == ["stop * drill"]


def test_names_that_are_one_too_many_are_not_told_of() -> None:
    policy = Policy(max_agents=1)
    known, stranger = (propose(n, f"a{n}", type="change_password", keyless=True) for n in range(2))
    held = Paused(at=at(0), t=0, agent="a0", source="operator", by="alice")

    journal = play(Engine(policy), known, held, stranger)

    assert [alert.agent for alert in alerts(*journal)] == ["a0"]


def test_what_names_without_a_key_propose_again_and_again_is_one_alert() -> None:
    story = [propose(n, f"a{n}", type="change_password", keyless=n < 2) for n in range(4)]

    keys = [alert.key for alert in alerts(*play(Engine(Policy()), *story))]

    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_what_is_allowed_asked_about_or_blocked_otherwise_is_no_alert() -> None:
    story = [
        propose(1, id="p1"),
        propose(2, id="p2", type="push", text="git push"),
        propose(3, id="p3", type="run_shell", text="rm -rf /"),
    ]

    assert alerts(*play(Engine(Policy()), *story)) == []


@pytest.mark.parametrize(
    "event",
    [
        found("low"),
        not_told("cancelled"),
        not_told("expired"),
        not_told("quiet"),
        not_told("dead", by="alice"),
        happens(Told, delivery="dlv_1", channel="email", state="accepted"),
        happens(Paused, agent="code", source="budget", by="safetyd"),
    ],
)
def test_what_nobody_has_to_know_is_no_alert(event: Event) -> None:
    assert alerts(event) == []
