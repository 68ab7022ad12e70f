"""Parts of answers that tests of renderings share; fields that they leave out are filled in."""

from typing import Any

AT = "2026-02-08T14:02:00Z"
Part = dict[str, Any]


def stop(source: str, **more: object) -> Part:
    by_default: Part = {"by": "alice", "reason": "drill", "agent": None, "since": AT}
    return {"source": source, **by_default, **more}


def disk(level: str, free: int, **more: object) -> Part:
    sizes = {"free_bytes": free * 1024**3, "total_bytes": 40 * 1024**3}
    return {"level": level, "disk": "/var", **sizes, "parts": {}, **more}


def budget(scope: str, spent: float, limit: float | None, **more: object) -> Part:
    return {"scope": scope, "spent": spent, "limit": limit, **more}


def agent_row(agent: str, **more: object) -> Part:
    row: Part = {"agent": agent, "key": True, "heard_s": 1, "state": "ready"}
    row |= {"consecutive_errors": 1, "max_consecutive_errors": 3, "tokens": 118.7, "burst": 120.0}
    row |= {"iterations": 2, "max_iterations": 5, "allowed": 3, "blocked": 4}
    row |= {"open_actions": ["p1"], "unreported": 2}
    return {**row, "budgets": [budget("session", 0.5, 10), budget("agent", 0.5, None)], **more}


def waiting(**more: object) -> Part:
    return {"pending": 0, "oldest_s": 0.0, "most": None, "most_pending": 0, **more}


def pause(agent: str, reason: str = "lunch", **more: object) -> Part:
    by_default: Part = {"source": "operator", "by": "alice", "since": AT}
    return {"agent": agent, **by_default, "reason": reason, **more}


def breaker(**more: object) -> Part:
    row: Part = {"breaker": "api", "state": "half_open", "agent": None, "reason": "5 calls failed"}
    return {**row, "keyless": False, "open_s": 31.0, **more}


def finding(severity: str, **more: object) -> Part:
    row: Part = {"at": AT, "rule": "anomaly.x", "severity": severity, "message": "odd"}
    return {**row, "agent": "code", "breaker": None, "seen": False, **more}


def hold(agent: str, **more: object) -> Part:
    row: Part = {"agent": agent, "since": AT, "by": "alice", "reason": "drill"}
    return {**row, "cooldown_remaining_ms": 0, **more}


def safe_mode(*holds: Part, more: list[str] | None = None) -> Part:
    """Return who is in safe mode; `more` are those that an answer has no room for."""
    agents = [*(one["agent"] for one in holds), *(more or ())]
    return {"active": bool(holds), "threshold": 3, "agents": agents, "holds": holds}


def status_answer(**more: object) -> Part:
    """Return the status of a daemon with which nothing is wrong."""
    view: Part = {"version": "0.1.0", "pid": 7, "at": AT, "started": AT, "embedded": True}
    view |= {"bus": "nats://127.0.0.1:4222", "web": "http://127.0.0.1:8790", "data_dir": "/d"}
    view |= {"open_agents": True, "decisions": {"allow": 2}, "seq": 1, "warn_ratio": 0.8}
    view |= {"disk": disk("good", free=30), "requests": waiting(), "safe_mode": safe_mode()}
    return {**view, "today": budget("day", 12.5, 50), **more}


def decision_row(**more: object) -> Part:
    row: Part = {
        "row": "decision",
        "seq": 7,
        "at": "2026-03-01T12:00:01Z",
        "id": "p1",
        "agent": "code",
    }
    row |= {"type": "run_shell", "text": "rm -rf /", "decision": "block", "first": True}
    return {**row, "rule": "gate.blocklist:rm_rf", "reason": "Blocklist", **more}


def event_row(**more: object) -> Part:
    row: Part = {"row": "event", "seq": 8, "at": "2026-03-01T12:00:02Z", "type": "EMERGENCY_STOP"}
    return {**row, "agent": None, "severity": "critical", "message": "drill", "by": "alice", **more}


def delivery(**more: object) -> Part:
    row: Part = {"id": "dlv_1", "recipient": "alice", "channel": "email", "state": "accepted"}
    row |= {"kinds": ["request"], "items": 1, "refs": ["req_1"], "at": AT, "attempts": 1}
    return {**row, "error": "", "provider_id": "", "took_s": 0.4, **more}


BLOCKED_PART: Part = {
    "effect": "irreversible",
    "program": "rm",
    "why": "deletes ~/music",
    "shown": "rm -rf ~/music",
    "start": 7,
    "end": 21,
    "way": ["sh -c", "xargs"],
}


def explained(**decided: object) -> Part:
    """Return the account of a blocked proposal with all that may belong to one."""
    gate = {
        "guard": "gate",
        "restricted": True,
        "decision": "block",
        "rule": "gate.blocklist:rm_rf",
        "also": ["gate.irreversible:submit"],
        "reason": "Blocklist: matches",
        "remedy": "with words that do not match rm",
        "parts": [BLOCKED_PART, {**BLOCKED_PART, "program": "", "way": []}],
    }
    others = [
        {"guard": "stop", "restricted": False, "now": "none"},
        {"guard": "scores", "restricted": False, "now": ""},
    ]
    told: Part = {
        "seq": 8,
        "at": "2026-02-08T14:30:22.5Z",
        "agent": "code",
        "type": "run_shell",
        "tier": "requires_permission",
        "risk": "high",
        "reversibility": "reversible",
        "decision": "block",
        "decided_by": "gate",
        "reason": "Blocklist: matches",
        "remedy": "with words that do not match rm",
        "then": "require_confirmation",
        "first": True,
        "digest": "sha256:1",
        "guards": [others[0], gate, others[1]],
        "proposal": {"type": "run_shell", "text": "rm -rf /", "paths": ["a"]},
        "audit": {"file": "audit-1.jsonl", "line": 7, "hash": "ab" * 32, "previous": "cd" * 32},
        **{name: value for name, value in decided.items() if name != "steps"},
    }
    end = {"seq": 9, "at": "2026-02-08T14:30:53Z", "agent": "code"}
    last = {"seq": 3, "at": AT, "id": "p-0", "agent": "ops", "decision": "block"}
    counts = {"allow": 2, "require_confirmation": 0, "block": 1}
    return {
        "id": "p-1",
        "decisions": [told],
        "steps": decided.get("steps", STEPS),
        "like": {"since": AT, "whole": True, "counts": counts, "last": [last]},
        "outcomes": [{**end, "ok": False, "error": "no disk"}, {**end, "ok": True, "error": ""}],
        "withheld": [{**end, "why": "stopped"}, {**end, "why": "late"}],
    }


def _step(what: str, second: int, **said: str) -> Part:
    return {"seq": second, "at": f"2026-02-08T14:30:{second}Z", "what": what, **said}


STEPS = [
    _step("proposed", 22, by="code"),
    _step("decided", 22, text="require_confirmation"),
    _step("asked", 22, ref="req_1", text="normal"),
    _step("told", 24, by="bob", via="email", text="accepted"),
    _step("not_told", 24, by="eve", via="sms", text="the login was refused"),
    _step("deferred", 30, by="alice", via="cli"),
    _step("answered", 52, by="alice", via="cli", text="approved: go"),
    _step("used", 52, by="code", ref="p-2"),
    _step("committed_before", 52, via="shop", ref="4f2a91c07777"),
    _step("outcome", 53, by="code", text="done"),
]
