"""Which events are alerts: how urgent each is, where it is told, and in which words."""

from typing import Any, Literal

import pytest

from safetyd.core.actor import counts
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.catalogue.catalogue import alert_of
from safetyd.core.catalogue.entry import Alert
from safetyd.core.engine.engine import Engine
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
from tests.story import at, outcome, play, propose, stop, tick

HOUR_S = 3600.0
FILE = "file:/srv/EMERGENCY_STOP"
CHAT = ("chat", "webhook")
REFUSED = "About $1.00 more was refused: that makes $5.50."
COOLS = "Before its cooldown is over (by default a minute) that also needs --force --reason WHY."
EVERYWHERE = {"sms", "desktop", "email", "chat", "webhook"}
Lost = Literal["dead", "undelivered", "parked", "cancelled", "expired", "quiet"]


def alerts(*journal: Event) -> list[Alert]:
    found = [alert for event in journal if counts(event) and (alert := alert_of(event))]
    return [alert for alert in found if not alert.clears]


def told(policy: Policy, *story: Event) -> Alert:
    """Return the one thing that people are told of a story."""
    (alert,) = alerts(*play(Engine(policy), *story))
    return alert


def found(
    severity: Level = "medium",
    rule: str = "anomaly.error_rate",
    agent: str | None = "code",
    breaker: str | None = None,
) -> AnomalyFound:
    return AnomalyFound(
        at=at(1),
        t=1.0,
        rule=rule,
        severity=severity,
        message="Errors: 9 of 10",
        agent=agent,
        breaker=breaker,
    )


def stopped(source: str, reason: str = "drill", **fields) -> Stopped:
    given = {"by": "alice", "epoch": 1, **fields}
    return Stopped(at=at(1), t=1.0, source=source, reason=reason, **given)


def alert_about(event: Event) -> Alert:
    (alert,) = alerts(event)
    return alert


def marked(mark: Literal["warning", "exceeded"], scope: str, **fields) -> BudgetMarked:
    given = {"id": "x1", "spent": 4.0, "reserved": 0.5, "limit": 5.0, "estimate": 1.0, **fields}
    return BudgetMarked(at=at(1), t=1.0, mark=mark, scope=scope, **given)


def not_told(state: Lost, error: str = "550 no such user", by: str = "") -> NotTold:
    return NotTold(
        at=at(1), t=1.0, delivery="dlv_1", channel="email", state=state, error=error, by=by
    )


def repeating(severity: Level) -> tuple[Policy, list[Event]]:
    """Return rules, and a story in which an agent repeats itself too often."""
    detector = RapidIdentical(severity=severity, count=3)
    policy = Policy(anomaly=AnomalyConfig(rapid_identical=detector))
    return policy, [propose(n, id=f"p{n}", type="create_file", text="x") for n in range(3)]


@pytest.mark.req("S2.34")
def test_a_critical_anomaly_and_the_stop_that_it_causes_are_told_once_by_sms_first() -> None:
    policy, story = repeating("critical")
    journal = play(Engine(policy), *story)

    (alert,) = alerts(*journal)

    assert any(isinstance(event, Stopped) for event in journal)
    assert alert.title == "CRITICAL: Rapid identical requests: create_file 3 times in 10 s"
    assert "`safetyd resume`" in alert.text
    assert (alert.urgency, alert.always) == ("high", True)
    assert alert.kinds[0] == "sms"
    assert set(alert.kinds) == EVERYWHERE


def test_a_critical_anomaly_of_one_agent_is_told_to_everybody_since_all_stand_still() -> None:
    alert = alert_about(found("critical", agent="code"))

    assert alert.agent is None
    assert "in what code does" in alert.text


@pytest.mark.req("S2.35")
def test_a_high_anomaly_is_mailed_and_a_quarter_of_an_hour_later_sent_by_sms() -> None:
    policy, story = repeating("high")

    alert = told(policy, *story)

    assert alert.title == "HIGH: Rapid identical requests: create_file 3 times in 10 s"
    assert (alert.urgency, alert.kinds) == ("high", ("email",))
    assert (alert.later, alert.after_s) == (("sms",), 900.0)
    assert "The agent is paused" in alert.text
    assert not alert.always


def test_of_a_high_anomaly_of_nobody_it_is_not_said_that_an_agent_is_paused() -> None:
    alert = alert_about(found("high", agent=None, breaker="api.example.com"))

    assert alert.text == "anomaly.error_rate found it, at api.example.com."


@pytest.mark.req("S2.36")
def test_a_medium_anomaly_goes_to_chat_alone_and_waits_for_others() -> None:
    policy, story = repeating("medium")

    alert = told(policy, *story)

    assert alert.title == "MEDIUM: Rapid identical requests: create_file 3 times in 10 s"
    assert alert.text == "anomaly.rapid_identical found it in what code does."
    assert (alert.urgency, alert.kinds, alert.batched) == ("low", CHAT, True)
    assert (alert.later, alert.always) == ((), False)


def test_a_low_anomaly_is_for_the_log() -> None:
    assert alerts(found("low")) == []


def test_that_nobody_is_there_is_mailed_and_shown_once_a_day() -> None:
    engine = Engine(Policy())

    journal = play(engine, *(tick(hour * HOUR_S) for hour in range(48)))

    (alert,) = alerts(*journal)
    assert (alert.urgency, alert.kinds) == ("normal", ("email", "desktop"))
    assert alert.title == "No person seen for 25 h"
    assert "`safetyd ack`" in alert.text
    assert not alert.batched


@pytest.mark.parametrize("severity", ["high", "critical"])
def test_that_nobody_is_there_is_as_severe_as_an_operator_says(severity: Level) -> None:
    policy = Policy(anomaly=AnomalyConfig(no_human=NoHuman(severity=severity)))

    alert = told(policy, tick(0), tick(25 * HOUR_S))

    assert alert.title == f"{severity.upper()}: No person seen for 25 h"
    assert alert.urgency == "high"
    assert alert.text.startswith("anomaly.no_human found it.")


def test_the_same_finding_again_is_the_same_alert() -> None:
    assert alert_about(found()).key == alert_about(found()).key


@pytest.mark.parametrize(
    "other",
    [
        found(agent="web"),
        found(agent=None),
        found(rule="anomaly.outlier"),
        found("high"),
        found("critical"),
        found(breaker="api.example.com"),
    ],
)
def test_another_finding_is_another_alert(other: AnomalyFound) -> None:
    assert alert_about(found()).key != alert_about(other).key


def test_a_stop_is_told_everywhere_by_sms_first() -> None:
    alert = alert_about(stop(1))

    assert alert.title == "STOPPED by alice: drill"
    assert alert.text == "Nobody may do anything until `safetyd resume`."
    assert (alert.urgency, alert.agent, alert.always) == ("high", None, True)
    assert alert.kinds[0] == "sms"
    assert set(alert.kinds) == EVERYWHERE


def test_a_stop_of_one_agent_is_told_to_who_hears_of_it() -> None:
    alert = alert_about(stop(1, agent="code"))

    assert alert.agent == "code"
    assert alert.text == "code may do nothing until `safetyd resume --agent code`."


@pytest.mark.parametrize(
    ("source", "ends"),
    [
        (FILE, "until /srv/EMERGENCY_STOP is removed."),
        ("environment", "until safetyd is started without it."),
    ],
)
def test_a_stop_by_a_file_or_a_switch_says_how_it_ends(source: str, ends: str) -> None:
    assert alert_about(stopped(source, by="file")).text.endswith(ends)


def test_a_stop_by_a_file_that_the_command_wrote_ends_with_the_other_command() -> None:
    assert alert_about(stopped(FILE)).text == "Nobody may do anything until `safetyd resume`."


@pytest.mark.parametrize(
    ("reason", "in_file"),
    [("drill", "drill"), ("two  words", "two words"), ("", "/srv/EMERGENCY_STOP is there")],
)
def test_a_stop_and_the_file_that_it_writes_are_one_alert(reason: str, in_file: str) -> None:
    command, file = alerts(stopped("operator", reason), stopped(FILE, in_file, epoch=2))

    assert command.key == file.key
    assert file.title == (f"STOPPED by alice: {in_file}" if reason else "STOPPED by alice")


@pytest.mark.parametrize(
    "other",
    [
        stopped("operator", "fire"),
        stopped("operator", agent="code"),
        stopped(FILE, "/srv/EMERGENCY_STOP is there", by="file"),
    ],
)
def test_a_stop_for_another_reason_is_another_alert(other: Stopped) -> None:
    assert alert_about(other).key != alert_about(stopped("operator")).key


def test_a_stop_without_a_reason_has_a_title_without_one() -> None:
    assert alert_about(stopped("operator", "")).title == "STOPPED by alice"


@pytest.mark.req("S2.4")
def test_a_day_budget_that_is_used_up_is_told_everywhere_at_once() -> None:
    policy = Policy(budget=BudgetConfig(day_usd=1.0))

    alert = told(policy, propose(1, cost_usd=1.5))

    assert (alert.urgency, alert.kinds, alert.agent) == ("high", (), None)
    assert alert.title == "EXCEEDED: day budget 2026-03-01, $0.00 of $1.00 used"
    assert alert.text == (
        "About $1.50 more was refused: that makes $1.50. "
        "What does not fit is blocked for all agents until 00:00Z."
    )


def test_of_a_budget_that_is_used_up_it_is_not_said_what_more_would_cost() -> None:
    alert = alert_about(marked("exceeded", "day", estimate=0.0))

    assert alert.text == "What does not fit is blocked for all agents until 00:00Z."


@pytest.mark.parametrize(
    ("event", "title", "text"),
    [
        (
            marked("exceeded", "chain", agent="code"),
            "EXCEEDED: chain budget x1 of code, $4.50 of $5.00 used",
            f"{REFUSED} What does not fit is blocked.",
        ),
        (
            marked("exceeded", "model"),
            "EXCEEDED: model budget x1, $4.50 of $5.00 used",
            f"{REFUSED} What does not fit is blocked until 00:00Z.",
        ),
        (
            marked("exceeded", "agent", id="code", agent="code"),
            "EXCEEDED: agent budget code, $4.50 of $5.00 used",
            f"{REFUSED} What does not fit is blocked until 00:00Z.",
        ),
        (
            marked("warning", "day"),
            "WARNING: day budget x1, $4.50 of $5.00 used",
            "What does not fit any more will be refused.",
        ),
        (
            marked("warning", "session", id="", agent="code"),
            "WARNING: session budget of code, $4.50 of $5.00 used",
            "What does not fit any more will be refused.",
        ),
    ],
)
def test_other_budgets_and_warnings_are_mailed_and_go_to_chat(
    event: BudgetMarked, title: str, text: str
) -> None:
    alert = alert_about(event)

    assert (alert.title, alert.text) == (title, text)
    assert (alert.urgency, alert.kinds) == ("normal", ("email", *CHAT))
    assert alert.agent == event.agent


def test_a_budget_that_warned_and_then_refuses_is_another_alert() -> None:
    warning, exceeded = marked("warning", "day"), marked("exceeded", "day")

    assert alert_about(warning).key != alert_about(exceeded).key


def test_a_session_budget_that_is_used_up_is_told_by_its_request() -> None:
    policy = Policy(budget=BudgetConfig(session_usd=1.0))

    journal = play(Engine(policy), propose(1, cost_usd=1.5))

    assert any(isinstance(event, Decided) and event.asks is not None for event in journal)
    assert any(isinstance(event, Paused) for event in journal)
    assert alerts(*journal) == []


def test_safe_mode_is_told_with_the_errors_and_the_way_out() -> None:
    story: list[Event] = []
    for n in range(3):
        story += [propose(2 * n, id=f"p{n}"), outcome(2 * n + 1, f"p{n}", ok=False)]

    alert = told(Policy(), *story)

    assert alert.title == "SAFE MODE: code may only read"
    assert alert.text.splitlines() == [
        "By safetyd: 3 errors in a row.",
        "To end it: safetyd safe-mode exit --agent code",
        COOLS,
    ]
    assert (alert.urgency, alert.kinds, alert.agent) == ("normal", (), "code")


def test_safe_mode_of_everybody_is_urgent() -> None:
    alert = alert_about(SafeModeEntered(at=at(1), t=1.0, by="alice"))

    assert alert.title == "SAFE MODE: everybody may only read"
    assert alert.text == f"By alice.\nTo end it: safetyd safe-mode exit --agent '*'\n{COOLS}"
    assert (alert.urgency, alert.kinds, alert.agent) == ("high", (), None)


def test_safe_mode_of_all_without_a_key_is_told_to_everybody() -> None:
    alert = alert_about(SafeModeEntered(at=at(1), t=1.0, by="alice", agent=ANONYMOUS))

    assert alert.title == "SAFE MODE: all agents without a key may only read"
    assert "safetyd safe-mode exit --agent '*keyless'\n" in alert.text
    assert (alert.urgency, alert.kinds, alert.agent) == ("high", (), None)


@pytest.mark.req("S2.16")
def test_a_prohibited_proposal_is_mailed_and_goes_to_chat() -> None:
    alert = told(Policy(), propose(1, type="change_password"))

    assert alert.title == "PROHIBITED: code proposed change_password"
    assert alert.text == "classify.prohibited blocked it. To see more: safetyd explain p1"
    assert (alert.urgency, alert.kinds) == ("normal", ("email", *CHAT))
    assert alert.agent == "code"


@pytest.mark.req("S2.16")
def test_a_prohibited_proposal_is_told_whatever_else_blocks_it() -> None:
    halt, prohibited = alerts(*play(Engine(Policy()), stop(1), propose(2, type="change_password")))

    assert halt.title == "STOPPED by alice: drill"
    assert prohibited.title == "PROHIBITED: code proposed change_password"


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


def test_a_prohibited_proposal_that_people_are_asked_about_is_told_by_its_request() -> None:
    policy = Policy(rules=RulesConfig(prohibited_means="require_confirmation"))

    asked = play(Engine(policy), propose(1, type="change_password"))
    halted = play(Engine(policy), stop(1), propose(2, type="change_password"))

    assert alerts(*asked) == []
    assert [alert.title for alert in alerts(*halted)] == ["STOPPED by alice: drill"]


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
    ("state", "text"),
    [
        ("dead", "It was given up. To see more: safetyd notify outbox --state dead"),
        (
            "undelivered",
            "It was taken and did not arrive: safetyd notify outbox --state undelivered",
        ),
    ],
)
def test_a_message_that_nobody_got_is_told_on_every_other_channel(state: Lost, text: str) -> None:
    alert = alert_about(not_told(state))

    assert alert.title == "NOT TOLD: email did not deliver a message: 550 no such user"
    assert alert.text == text
    assert (alert.urgency, alert.kinds, alert.not_on) == ("high", (), ("email",))


def test_a_channel_that_is_down_is_told_on_every_other_one_until_it_is_up() -> None:
    down = ChannelMoved(at=at(1), t=1.0, channel="email", up=False)
    up = ChannelMoved(at=at(2), t=2.0, channel="email", up=True)

    (alert,) = alerts(down, up)

    assert alert.title == "CHANNEL DOWN: email takes no messages"
    assert alert.text.endswith("Once it is mended: safetyd notify retry --channel email")
    assert (alert.urgency, alert.kinds, alert.not_on) == ("high", (), ("email",))


def test_a_channel_that_somebody_has_to_mend_is_down_as_well() -> None:
    down = ChannelMoved(at=at(1), t=1.0, channel="email", up=False, why="timed out")

    parked, outage = alerts(not_told("parked", "535 wrong password"), down)

    assert parked.title == "CHANNEL DOWN: email takes no messages: 535 wrong password"
    assert parked.key == outage.key


def test_a_message_that_a_channel_did_not_deliver_does_not_say_that_it_is_down() -> None:
    lost, outage = alerts(not_told("dead"), not_told("parked"))

    assert lost.key != outage.key


@pytest.mark.parametrize(
    "event",
    [
        not_told("cancelled"),
        not_told("expired"),
        not_told("quiet"),
        not_told("dead", by="alice"),
        Told(at=at(1), t=1.0, delivery="dlv_1", channel="email", state="accepted"),
    ],
)
def test_a_message_that_was_told_or_not_wanted_any_more_is_no_alert(event: Event) -> None:
    assert alerts(event) == []


def test_a_pause_is_no_alert() -> None:
    paused = Paused(at=at(1), t=1.0, agent="code", source="budget", by="safetyd")

    assert alerts(paused) == []


def test_a_way_back_that_failed_says_why_who_is_still_paused_and_what_to_type() -> None:
    about: dict[str, Any] = {"project": "shop", "commit": "4f2a", "error": "no room"}
    alert = told(Policy(), RollbackFailed(at=at(0), t=0, **about))
    limited: dict[str, Any] = {"agents": ("a", "b"), "paths": ("src/my cart.py",), **about}
    halfway = told(Policy(), RollbackFailed(at=at(0), t=0, **limited))

    again = "Look, then try again: safetyd rollback 4f2a --soft"
    assert alert.title == "NOT ROLLED BACK: project shop is as errors left it"
    assert (alert.text, alert.urgency) == (f"no room.\n{again} --project shop --reason WHY", "high")
    assert halfway.text == (
        f"no room.\nStill paused: a, b.\n{again} 'src/my cart.py' --project shop --reason WHY"
    )


def test_errors_in_a_row_offer_the_command_that_rolls_back() -> None:
    offered = RollbackOffered(at=at(0), t=0, project="shop", agent="code", errors=3, commit="4f2a")

    alert = told(Policy(), offered)

    assert alert.text.endswith("safetyd rollback 4f2a --soft --project shop --reason WHY")
    assert alert.agent == "code"


def test_of_several_missing_snapshots_all_days_are_named_and_only_the_last_is_promised() -> None:
    missed = SnapshotMissed(at=at(0), t=0, since="2026-03-01", day="2026-03-03", error="off")

    alert = told(Policy(), missed)

    assert alert.title == "SNAPSHOT MISSING: 2026-03-01 to 2026-03-03"
    assert alert.text.endswith("The last day is tried until it has one; others stay without.")
