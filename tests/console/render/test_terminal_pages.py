"""What the pages of the control room show is read at a terminal, from the same answers."""

import time
from typing import Any

import msgspec
import pytest

from safetyd.console.render import agent_tables, guard_tables, money_tables
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.policy import Policy
from safetyd.operators.contract.agent_contract import AgentQuestion
from safetyd.operators.contract.guard_contract import AnomaliesQuestion
from safetyd.operators.views.agent_page_view import agent as asked_agent
from safetyd.operators.views.anomaly_view import anomalies as asked_anomalies
from safetyd.operators.views.money_view import money as asked_money
from tests.core.engine.remedy_story import paused
from tests.core.guards.budget.budget_rig import cost
from tests.filled import reading
from tests.story import ask, at, play, propose, stop

agent = reading(agent_tables.agent)
anomalies = reading(guard_tables.anomalies)
money = reading(money_tables.money)

HOSTILE = "\x1b]0;owned\x07"
NOW = Moment(at(60), 60.0)


def answered(steps: Any) -> dict[str, Any]:
    """Return what a question in steps answers, as it comes over the bus."""
    next(steps)
    while True:
        try:
            steps.send(NOW)
        except StopIteration as end:
            answer: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(end.value))
            return answer


def worked() -> Engine:
    """An engine with an agent that spends, asks and has something under way."""
    engine = Engine(Policy())
    for t, id_, usd in ((0, "p1", 1.5), (1, "p2", 0.5)):
        ask(engine, propose(t, id=id_, session="s1", model="o4", cost_usd=usd, text=f"{HOSTILE}x"))
    play(engine, cost(2, "p1", 2.0))
    ask(engine, propose(3, id="p3", type="push", text="git push"))
    return engine


def test_money_says_what_is_spent_whether_it_lasts_and_on_what():
    told = money(answered(asked_money(worked(), NOW))).splitlines()

    assert told[:7] == [
        "Money today, which is a day of UTC:",
        "  spent       $2.00 of $50.00",
        "  reserved    $0.50 for actions under way",
        "  pending     $0.00 for actions that need approval; counts nowhere yet",
        "  rate        $1.97 an hour, in the last 1 h",
        "  by the end  $25.57 at this rate, at 2026-03-02 00:00:00Z",
        "  keyless     $0.00 of $25.00, by all agents without a key",
    ]
    assert told[8:] == [
        "AGENT  SPENT  RESERVED  PENDING  LIMIT  USED",
        "code   $2.00  $0.50     $0.00    none   -",
        "",
        "MODEL  SPENT  RESERVED  PENDING  LIMIT  USED",
        "o4     $2.00  $0.50     $0.00    none   -",
        "",
        "AGENT  SESSION  SPENT  RESERVED  PENDING  LIMIT   USED",
        "code   s1       $2.00  $0.50     $0.00    $10.00  25 %",
    ]


def test_money_that_does_not_last_says_until_when_and_what_to_do():
    view = answered(asked_money(worked(), NOW))
    soon = {**view["projection"], "used_up_at": "2026-03-01T18:00:00Z"}

    told = money({**view, "projection": soon})

    assert "\n  USED UP     2026-03-01 18:00:00Z at this rate; `safetyd budgets raise day " in told


def test_money_that_nobody_spent_is_one_sentence():
    view = answered(asked_money(Engine(Policy()), NOW))
    told = money({**view, "left_out": 2, "keyless": {**view["today"], "raised": 5, "limit": 9}})

    assert "Nothing was spent. Agents report" in told
    assert "\n  keyless     $0.00 of $9.00 ($5.00 of it added), by all agents without a key" in told
    assert told.endswith("\n\n2 lines left out.")
    assert "$0.00, without a limit" in money({**view, "today": {**view["today"], "limit": None}})


FOUND: dict[str, Any] = {
    "at": "2026-03-01T12:00:00Z",
    "rule": "anomaly.cost",
    "severity": "high",
    "message": f"costs more {HOSTILE}",
    "agent": "code",
    "breaker": None,
    "seen": False,
}
MEASURED: dict[str, Any] = {
    "detector": "cost",
    "unit": "usd",
    "now": 12.5,
    "most": 4.0,
    "least": None,
    "usual": 1.0,
    "agent": "code",
    "model": "o4",
    "breaker": None,
}


def test_anomalies_are_findings_what_holds_and_the_numbers():
    view = {
        "findings": [FOUND, {**FOUND, "agent": None, "seen": True, "message": "quiet"}],
        "holding": {"code": {"cost": 1}},
        "measures": [MEASURED],
        "since_human_s": 120.0,
        "left_out": 1,
    }

    told = anomalies(view)

    assert "\x1b" not in told
    assert told.splitlines()[2].split() == [
        *("high", "2026-03-01", "12:00:00Z", "everybody", "quiet", "anomaly.cost")
    ]
    assert "  code       new: costs more " in told
    assert "Holds now:\n  code: cost 1 time\n" in told
    assert "\ncost      code, o4  12.5  1      -         4        usd\n" in told
    assert told.endswith("1 line left out.\n\nA person was last seen 2 min ago.")


def test_without_anomalies_one_is_told_so():
    told = anomalies(answered(asked_anomalies(Engine(Policy()), NOW, AnomaliesQuestion())))

    assert told.startswith("Nothing unusual was found.\n\nA person was last seen ")


DECIDED: dict[str, Any] = {
    "row": "decision",
    "at": "2026-03-01T12:00:00Z",
    "agent": "code",
    "decision": "block",
    "first": True,
    "type": "run_shell",
    "text": "rm -rf /",
    "cut": False,
    "rule": "gate.x",
    "id": "p9",
}


def test_an_agents_page_has_its_limits_its_work_and_what_waits():
    told = agent(answered(asked_agent(worked(), NOW, AgentQuestion("code"))), [DECIDED])

    assert "\x1b" not in told
    assert told.startswith("code: executing, with a key, heard 57 s ago\n  allowed  2, asked 1, ")
    assert "\n  today    $2.50\n" in told
    assert "\n  session  $2.50 of $10.00 in s1\n" in told
    assert "\n\n1 request waits for a person; `safetyd show ID` has each:\nID " in told
    assert " 2026-03-01 12:00:03Z  push  git push\n" in told
    assert "\n\nUnder way:\n  read_file for 59 s" in told
    assert (
        "\n\nSessions:\n  s1: 0 rounds, $2.00 spent, 2 decisions since 2026-03-01 12:00:00Z" in told
    )
    assert "\n\nTimeline:\n  2026-03-01 12:00:00Z code " in told
    assert " blocked  run_shell: rm -rf / [gate.x] p9\n" in told
    assert told.endswith("`safetyd decisions --agent code --events` has all of it.")


def test_what_holds_an_agent_stands_first_with_the_way_out():
    engine = worked()
    play(engine, stop(4), paused(5.0, "operator"))

    view = answered(asked_agent(engine, NOW, AgentQuestion("code")))
    told = agent({**view, "safe_mode": {**view["safe_mode"], "active": True}}, []).splitlines()

    assert told[1].startswith("STOPPED: ")
    assert told[3].startswith("PAUSED: by ")
    assert told[4:7] == [
        "  `safetyd unpause code` ends it",
        "SAFE MODE: it may only read",
        "  `safetyd safe-mode status --agent code` says why and how it ends",
    ]


def test_times_are_in_the_readers_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert "2026-03-01 17:45:03 +0545" in agent(
            answered(asked_agent(worked(), NOW, AgentQuestion("code"))), []
        )
    finally:
        monkeypatch.undo()
        time.tzset()
