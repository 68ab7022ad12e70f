"""What a terminal shows, in one file: `terminal.txt`.

`python -m tests.console.render.test_terminal_snapshot` writes it after a change of words.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from safetyd.console import agent_list
from safetyd.console.file_history import history_table
from safetyd.console.render import (
    agent_tables,
    decision_table,
    delivery_tables,
    event_line,
    explanation,
    grant_list,
    guard_tables,
    money_tables,
    request_tables,
    status_page,
)
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity
from tests.console.render.answers import (
    AT,
    Part,
    agent_row,
    breaker,
    budget,
    decision_row,
    delivery,
    disk,
    event_row,
    explained,
    finding,
    hold,
    pause,
    safe_mode,
    status_answer,
    stop,
    waiting,
)
from tests.filled import Reading

COLUMNS: Final = "100"
SNAPSHOT: Final = Path(__file__).with_name("terminal.txt")

agents = Reading(agent_tables)
cli = Reading(decision_table)
commits = Reading(history_table)
grants = Reading(grant_list)
guards = Reading(guard_tables)
messages = Reading(delivery_tables)
money = Reading(money_tables)
requests = Reading(request_tables)
status = Reading(status_page)


def samples() -> Iterator[tuple[str, str]]:
    """Yield a title and what is shown, for everything that has words of its own."""
    yield "status, nothing is wrong", status.status(status_answer())
    yield "status, everything is wrong", status.status(status_answer(**EVERYTHING_WRONG))
    for part in (_decisions, _requests, _grants, _history, _money, _guards, _holds, _agents):
        yield from part()
    yield from _messages()


EVERYTHING_WRONG: Final[Part] = {
    "problem": "the journal cannot be written",
    "disk": disk("critical", free=4, parts={"audit": 2 * 1024**3, "journal": 1024**3}),
    "stop": {
        "active": True,
        "stops": [
            stop("operator", reason="fire\ndrill"),
            stop("file:/d/HALT", reason="fire drill"),
            stop("file:/e/HALT", by="bob"),
            stop("file:/f/HALT", by="file", reason="/f/HALT exists"),
            stop("environment", by="environment"),
            stop("anomaly", by="anomaly"),
            stop("operator", agent="code"),
        ],
        "acknowledged": ["a"],
        "silent": [f"a{number}" for number in range(1000)],
    },
    "safe_mode": safe_mode(
        hold("*"), hold("a", by="safetyd", cooldown_remaining_ms=42_000), more=["b", "c"]
    ),
    "paused": ["a", "b", "c", "d"],
    "pauses": [pause("a"), pause("b", ""), pause("c", source="budget", request="req_1")],
    "histories": [
        {"project": "shop", "commit_error": "the disk is full"},
        {
            "project": "site",
            "rollback": {
                "project": "site",
                "commit": "4f2a91c07777",
                "kind": "soft",
                "by": "alice",
                "agents": ["code"],
                "error": "the daemon ended",
            },
        },
    ],
    "requests": waiting(
        pending=53,
        oldest_s=120.0,
        most="looper",
        most_pending=50,
        channels=["email", "sms", "chat"],
        down=["email"],
        unnotified=1,
    ),
    "failing": ["sms"],
    "wide_grants": ["grt_1"],
    "breakers": [breaker(), breaker(state="open", agent="code", wait_s=29.0)],
    "tripped": 4,
    "today": budget("day", 3.9, 5, reserved=1.1),
    "keyless_today": budget("keyless", 20.5, 25),
    "foremost": [
        agent_row(
            "a",
            near=["errors", "tokens", "iterations", "chain", "session", "agent"],
            reached=["tokens", "chain"],
            budgets=[
                budget("chain", 1, 1, id="c-7"),
                budget("session", 9.5, 10),
                budget("agent", 0.5, None, pending=0.25),
            ],
            anomalies={"cost": 1},
            state="safe_mode",
        ),
        agent_row("b"),
    ],
    "agents": 1000,
    "outlets": [{"name": "postgres", "behind": 7, "problem": "it is down"}],
    "missing": {"since": "2026-03-02", "day": "2026-03-04", "error": "the disk is full"},
    "unavailable": [{"name": "file history", "why": "git is missing", "fix": "install git"}],
    "config_problem": "mode is wrong",
    "findings": [finding("high"), finding("medium", agent=None, breaker="api"), finding("low")],
    "found": 7,
    "next_start": ["web"],
    "config": "/etc/safetyd.toml",
}


def _decisions() -> Iterator[tuple[str, str]]:
    def decision(verdict: Severity, **fields: Any) -> Decision:
        return Decision(id="p-1", agent="code", decision=verdict, **fields)

    rules = ("gate.a", "gate.b")
    blocked = decision(Severity.BLOCK, reason="too fast", triggered_rules=rules, retry_after_s=1.42)
    asked = decision(Severity.ASK, reason="Looks irreversible", triggered_rules=rules[:1])
    filed = decision(Severity.ASK, reason="Looks irreversible", request_id="req_7")
    yield "check, allowed", cli.decision(decision(Severity.ALLOW), "read_file")
    yield "check, blocked", cli.decision(blocked, "run_shell")
    yield "check --dry-run, needs approval", cli.decision(asked, "push", dry_run=True)
    yield "propose, needs approval", cli.decision(filed, "push")
    event: Part = {
        "timestamp": AT,
        "event_type": "ACTION_BLOCKED",
        "agent_id": "code",
        "reason": "no",
        "metadata": {"rule": "gate.loop", "count": 3},
    }
    yield "watch", event_line.event_line(event)
    rows = [event_row(), decision_row(), decision_row(decision="allow", first=False)]
    yield "decisions", cli.decisions(rows, more=True)
    yield "decisions, none", cli.decisions([])
    yield "explain", Reading(explanation).account(explained())
    allowed = explained(decision="allow", decided_by=None, remedy="", guards=[], steps=[])
    del allowed["like"]
    yield "explain, allowed", Reading(explanation).account(allowed)


def _requests() -> Iterator[tuple[str, str]]:
    row: Part = {
        "id": "req_1",
        "agent": "code",
        "type": "push",
        "text": "git push",
        "left_s": 600.0,
    }
    baked = {**row, "id": "req_2", "type": "bake", "unknown": True, "urgency": "low"}
    rows = [baked, {**baked, "id": "req_3", "left_s": 60.0, "urgency": "high", "repeats": 2}]
    edit = {**row, "id": "req_4", "type": "edit_file", "path": "src/a.py", "paths": 3, "until": AT}
    yield "list", requests.queue([*rows, row, {**edit, "left_s": None}], ["email"])
    yield "list, none", requests.queue([], [])
    ended: Part = {
        "request_id": "req_1",
        "decision": "denied",
        "decided_at": AT,
        "decided_by": "alice",
    }
    ended |= {"decided_via": "cli", "response_time_seconds": 90.0, "agent": "code"}
    yield "log", requests.history([{**ended, "action": "push", "text": "git push", "words": "no"}])
    yield "log, none", requests.history([])


def _grants() -> Iterator[tuple[str, str]]:
    grant: Part = {
        "id": "grt_1",
        "agent": "code",
        "type": "push",
        "left": 3,
        "uses": 5,
        "until": AT,
    }
    grant |= {"by": "alice", "at": AT, "reason": "release", "spent_usd": 0.5}
    full = {**grant, "type": None, "project": "shop", "rules": ["gate.a"], "wide": True}
    full |= {
        "seen": "",
        "request_id": "req_1",
        "text": "make .*",
        "paths": ["/srv/*"],
        "max_usd": 2.0,
    }
    yield "grants", grants.grants({"grants": [grant, full], "left_out": 1})
    learned = {**grant, "suggested": {"suggestion": "sug_1", "approved": 12, "since": AT}}
    yield "grants, suggested", grants.grants({"grants": [learned]})
    yield "grants, none", grants.grants({})
    rule = {"agent": "code", "type": "run_shell", "project": "shop", "reason": "approved 5 times"}
    rule |= {"first_at": AT, "last_at": AT, "toml": "[rules]\nallow = true"}
    yield "suggestions", grants.suggestions({"suggestions": [rule], "left_out": 2})
    terms: Part = {"agent": "code", "type": "run_shell", "project": "shop", "cwd": "/srv/shop"}
    terms |= {"shape": "touch <a path in the project>", "text": "^touch src/x$"}
    terms |= {"rules": ["classify.high"], "uses": 1000, "until": AT}
    granting = {**rule, "toml": "", "id": "sug_1", "approved": 12, "grant": terms}
    granting |= {"command": "safetyd suggestions apply sug_1"}
    bare = {**granting, "grant": {**terms, "project": None, "cwd": None}}
    offer = {**rule, "toml": "", "command": "safetyd approve ID --grant --for 8h"}
    several = {"suggestions": [granting, bare, rule, offer]}
    yield "suggestions of every kind", grants.suggestions(several)
    yield "a suggestion to apply", grants.to_apply(granting)
    yield "suggestions, none", grants.suggestions({})
    offers: tuple[Part, ...] = (
        {},
        {"approved": 5},
        {"denied": 1, "program": "make"},
        {"approved": 5, "denied": 2},
    )
    for offer in offers:
        given = {"shape": "make", **offer}
        lines = (*grants.grant_offer(given), *grants.program_offer(given))
        yield f"a grant offered, {offer}", "\n".join(lines)


def _history() -> Iterator[tuple[str, str]]:
    commit: Part = {
        "at": AT,
        "commit": "4f2a91c07777" + "0" * 28,
        "project": "shop",
        "agent": "code",
    }
    commit |= {"action": "write_file", "files": 1, "added": 2, "subject": "Write the notes"}
    made = [commit, *({**commit, "author": author} for author in ("human", "rollback"))]
    made.append({**commit, "author": "automatic_rollback", "left_out": "big.bin, which is large"})
    answer = {"projects": ["shop"], "commits": made, "problems": ["site: /srv/site is missing"]}
    yield "history", commits.commits(answer, 4)
    yield "history, none", commits.commits({**answer, "commits": []}, 20)
    yield "history, no project", commits.commits({}, 20)


def _money() -> Iterator[tuple[str, str]]:
    day = budget("day", 1.5, 50, id="2026-03-01", reserved=0.25, pending=8.0, raised=5.0)
    mine = budget("agent", 1.5, None, id="code", agent="code")
    spend = {"agent": "code", "session": "", "model": "m", "spent": 0.0015}
    yield "budgets", money.budgets({"budgets": [day, mine], "spending": [spend], "left_out": 2})
    for used in (12.0, 55.0):
        reply = {"limit": 55.0, "used": used, "until": AT}
        yield f"budgets raise, {used} used", money.raised("day", reply)
    figures: Part = {
        "at": AT,
        "today": day,
        "purchases": budget("day", 3.0, None),
        "keyless": budget("keyless", 0, None),
        "projection": {
            "over_s": 3600.0,
            "per_hour": 1.97,
            "at_midnight": 25.57,
            "used_up_at": AT,
        },
    }
    spenders: Part = {"agents": [mine], "models": [budget("model", 2, None, id="o4")]}
    spenders |= {"sessions": [budget("session", 2, 10, id="s1", agent="code", reserved=0.5)]}
    yield "money", money.money({**figures, **spenders, "left_out": 2})
    calm = {**figures["projection"], "used_up_at": None}
    yield "money, nothing spent", money.money({**figures, "keyless": None, "projection": calm})


def _guards() -> Iterator[tuple[str, str]]:
    closed = breaker(state="closed", agent="code", reason="", open_s=None, calls=4, failures=1)
    rows = [breaker(), breaker(keyless=True), closed]
    yield "breakers", guards.breakers({"breakers": rows, "left_out": 1})
    yield "breakers, none", guards.breakers({})
    bucket: Part = {"kind": "agent", "id": "code", "tokens": 2.9, "burst": 120.0, "per_s": 5.0}
    common = {**bucket, "kind": "global", "id": "", "tokens": 120.0}
    held: Part = {"iterations": [{"agent": "code", "session": "", "rounds": 3, "limit": 3}]}
    held |= {"cooldowns": [{"agent": "ops", "target": "deploy", "left_s": 40.0}]}
    buckets = {"buckets": [common, {**bucket, "full_s": 23.4}]}
    yield "limits", guards.limits({**buckets, **held, "left_out": 1})
    known: Part = {"type": "push", "tier": "requires_permission", "risk": "high"}
    known |= {"reversibility": "irreversible", "human": True}
    names = [f"another_name_{number}" for number in range(6)]
    unknown = {"type": "bake", "count": 2, "toml": '[types.bake]\ntier = "requires_permission"'}
    types = [known, {**known, "type": "deploy", "human": False, "aliases": names}]
    view = {"types": types, "same_as": {"Push": "push"}, "unknown": [unknown]}
    yield "types", guards.types(view)
    measure: Part = {"detector": "cost", "unit": "usd", "now": 12.5, "most": 4.0, "usual": 1.0}
    measure |= {"least": None, "agent": "code", "model": "o4", "breaker": None}
    found = [finding("high"), finding("low", agent=None, seen=True)]
    unusual: Part = {"findings": found, "holding": {"code": {"cost": 1}}, "measures": [measure]}
    yield "anomalies", guards.anomalies({**unusual, "since_human_s": 120.0, "left_out": 1})
    yield "anomalies, none", guards.anomalies({})


def _holds() -> Iterator[tuple[str, str]]:
    yield "safe-mode, nobody", guards.safe_mode(safe_mode())
    yield "safe-mode, not this agent", guards.safe_mode({**safe_mode(), "agent": "code"})
    for title, agent, left, still, more in (
        ("all", None, ["a", "*"], [], 2),
        ("nobody was", None, [], [], 0),
        ("not this agent", "code", [], ["*"], 0),
        ("held with the anonymous", "code", ["code"], ["*keyless"], 0),
        ("others stay", "*", ["*"], ["a", "b"], 0),
    ):
        reply = {"left": left, "still": still, "more": more}
        yield f"safe-mode exit, {title}", guards.left(agent, reply)
    yield "unpause", guards.unpaused("code", {"cleared": ["operator", "budget"]})
    yield "unpause, was not paused", guards.unpaused("code", {})


def _agents() -> Iterator[tuple[str, str]]:
    yield "agents", agents.agents([agent_row("a"), agent_row("b", state="stopped", key=False)])
    yield "agents, none", agents.agents([])
    yield "agents NAME", agents.agent(AGENT, [decision_row(), decision_row(), event_row()])
    idle = {"agent": agent_row("code", budgets=[])}
    yield "agents NAME, idle", agents.agent({**idle, "safe_mode": safe_mode()}, [])
    busy = [
        {"agent": name, "open_actions": ["p1"], "unreported": n} for name, n in (("a", 2), ("b", 0))
    ]
    yield "stop, actions under way", Reading(agent_list).still_open(busy)
    yield "stop, one action under way", Reading(agent_list).still_open(busy, "b")


AGENT: Final[Part] = {
    "agent": agent_row("code"),
    "stops": [stop("operator")],
    "pauses": [pause("code")],
    "safe_mode": safe_mode(hold("code")),
    "budgets": [budget("agent", 2.5, None), budget("session", 2.5, 10, id="s1")],
    "pending": [{"id": "req_1", "type": "push", "text": "git push", "asked_at": AT}],
    "pending_count": 1,
    "open_actions": [{"type": "read_file", "text": "notes.txt", "since_s": 59.0}],
    "sessions": [
        {
            "session": "s1",
            "rounds": 2,
            "spent": 2.0,
            "so_far": {"decisions": 2, "started_at": AT, "model": "o4"},
        },
        {"session": "", "rounds": 1, "spent": 0.0, "so_far": None},
    ],
    "findings": [finding("high")],
}


def _messages() -> Iterator[tuple[str, str]]:
    states = ("accepted", "delivered", "open", "parked", "undelivered", "dead", "cancelled")
    rows = [delivery(state=state, took_s=None, provider_id="SM1") for state in states]
    yield "notify test", messages.tested(rows, waited_for_click=False)
    wrong = [delivery(state="parked", channel=channel, error=error) for channel, error in ERRORS]
    yield "notify test, errors and hints", messages.tested(wrong, waited_for_click=False)
    clicked = [delivery(opened_at=AT), delivery(opened_at=None), delivery(state="dead")]
    yield "notify test --wait-click", messages.tested(clicked, waited_for_click=True)
    yield "notify test, no message", messages.tested([], waited_for_click=False)
    many = delivery(items=3, kinds=["reminder", "request"], state="dead", error="x" * 200)
    queue = {"recipient": "bob", "channel": "sms", "items": 2, "due": AT}
    outbox = {"deliveries": [delivery(), many], "waiting": [queue], "unnotified": 1}
    yield "notify outbox", messages.outbox(outbox)
    yield "notify outbox, empty", messages.outbox({})
    email: Part = {
        "name": "email",
        "kind": "email",
        "up": True,
        "waiting_high": 1,
        "waiting_normal": 2,
    }
    down = {**email, "name": "sms", "up": False, "fuse": "parked", "last_error": "login refused"}
    lanes = [{**email, "last_success_s_ago": 90.0}, down, {**down, "name": "chat", "fuse": "open"}]
    alice: Part = {"name": "alice", "channels": ["email", "sms"], "quiet": "23:00-07:00"}
    alice |= {"timezone": "Europe/Berlin", "agents": ["*"]}
    bob = {**alice, "name": "bob", "quiet_until": AT, "agents": ["ops*"], "backup": "alice"}
    lanes.append({**email, "name": "ntfy", "failing": True})
    yield "notify channels", messages.channels({"channels": lanes, "recipients": [alice, bob]})
    yield "notify channels, none", messages.channels({})
    shown: Part = {
        "recipient": "alice",
        "channel": "sms",
        "size": "143 septets, 1 SMS",
        "when": "now",
    }
    shown |= {"text": "push by code\nreply A 1"}
    ladder = ["reminder at 12:15", "last call at 12:50"]
    previews = {"previews": [{**shown, "ladder": ladder}, shown]}
    yield "notify preview", messages.previews(previews)
    yield "notify preview, no channel", messages.previews({})


ERRORS: Final = (
    ("email", "535 5.7.8 authentication failed"),
    ("email", "CERTIFICATE_VERIFY_FAILED"),
    ("email", "the server offers no STARTTLS"),
    ("email", "The SMTP AUTH extension is not supported"),
    ("email", "no answer: timed out"),
    ("email", "Name or service not known"),
    ("email", "Connection refused"),
    ("email", "Connect call failed ('127.0.0.1', 25)"),
    ("email", "Temporary failure in name resolution"),
    ("sms", "20003 Authenticate"),
    ("webhook", "hooks.example.com answered 401"),
    ("webhook", "hooks.example.com answered 404"),
    ("telegram", "answered 400 Bad Request: chat not found"),
    ("desktop", "no desktop helper is connected"),
    ("email", "something else"),
)


def shown() -> str:
    return "\n\n\n".join(f"## {title}\n\n{text}" for title, text in samples()) + "\n"


def test_a_terminal_shows_what_the_snapshot_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", COLUMNS)

    assert shown() == SNAPSHOT.read_text()


if __name__ == "__main__":
    os.environ |= {"COLUMNS": COLUMNS, "TZ": "UTC"}
    SNAPSHOT.write_text(shown())
