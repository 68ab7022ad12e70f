from typing import Any

import pytest

from safetyd.console.render import explanation
from tests.filled import reading

HOSTILE = "\x1b]0;owned\x07\u202e"

BLOCKED = {
    "guard": "gate",
    "restricted": True,
    "decision": "block",
    "rule": "gate.blocklist:rm_rf",
    "also": ["gate.blocklist:sudo_rm"],
    "reason": "Blocklist: matches",
    "remedy": "with words that do not match rm",
}


account = reading(explanation.account)


def explained(**decided: object) -> dict[str, Any]:
    told = {
        "seq": 8,
        "at": "2026-02-08T14:30:22.5Z",
        "agent": "code",
        "type": "run_shell",
        "tier": "requires_permission",
        "risk": "high",
        "reversibility": "unknown",
        "decision": "block",
        "decided_by": "gate",
        "reason": "Blocklist: matches",
        "remedy": "with words that do not match rm",
        "then": "require_confirmation",
        "first": True,
        "digest": "sha256:1",
        "guards": [
            {"guard": "stop", "restricted": False, "now": "none"},
            BLOCKED,
            {"guard": "scores", "restricted": False, "now": ""},
        ],
        "proposal": {"type": "run_shell", "text": "rm -rf /", "paths": ["a"]},
        **decided,
    }
    withheld = {"seq": 9, "at": "2026-02-08T14:30:23Z", "why": "stopped"}
    return {"id": "p-1", "decisions": [told], "withheld": [withheld]}


def failed(error: str) -> dict[str, object]:
    return {"seq": 9, "at": "2026-02-08T14:30:23Z", "agent": "code", "ok": False, "error": error}


def test_an_account_begins_with_the_decision_the_reason_and_the_way_out():
    said = account(explained()).splitlines()

    assert said[2:5] == [
        "2026-02-08 14:30:22Z blocked (event 8)",
        "  gate: Blocklist: matches",
        "  To be allowed: with words that do not match rm; and then by a person",
    ]


def test_every_guard_has_a_line_and_numbers_of_now_are_marked():
    said = account(explained()).splitlines()

    begin = said.index("  guards")
    assert said[begin + 1 : said.index("  proposed")] == [
        "    stop: today: none",
        "    gate: blocked by gate.blocklist:rm_rf, gate.blocklist:sudo_rm",
        "      Blocklist: matches",
        "      allowed with words that do not match rm",
        "    scores: did not restrict it",
    ]


def test_an_account_ends_with_the_proposal_and_what_was_withheld():
    said = account(explained()).splitlines()

    assert "    text   rm -rf /" in said
    assert '    paths  ["a"]' in said
    assert said[-1] == (
        "2026-02-08 14:30:23Z withheld (event 9): everything was stopped before it left"
    )


def test_what_was_allowed_needs_no_way_out():
    said = account(explained(decision="allow", decided_by=None, remedy="", then=None))

    assert said.splitlines()[2:4] == [
        "2026-02-08 14:30:22Z allowed (event 8)",
        "  no guard restricted it",
    ]
    assert "To be allowed" not in said


def test_what_would_be_allowed_at_once_says_no_more():
    said = account(explained(then="allow")).splitlines()

    assert said[4] == "  To be allowed: with words that do not match rm"


def test_what_nobody_knows_a_way_out_of_does_not_promise_one():
    said = account(explained(remedy="", then=None, guards=[{**BLOCKED, "remedy": ""}]))

    assert "allowed" not in said


def test_long_reasons_are_folded_to_the_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = "with budget.day_usd of at least $51.20, or at an estimate of at most $0.40, " * 3
    said = account(
        explained(reason=long, remedy=long, guards=[{**BLOCKED, "reason": long, "remedy": long}])
    )

    assert max(map(len, said.splitlines())) <= 80


def test_an_account_tells_how_it_went():
    done = {**failed(""), "ok": True}

    said = account({**explained(), "outcomes": [failed("no disk"), done]})

    assert "\n2026-02-08 14:30:23Z code reported (event 9): it failed: no disk\n" in said
    assert "\n2026-02-08 14:30:23Z code reported (event 9): it was done\n" in said


def test_an_account_shows_hostile_words_harmlessly():
    hostile = dict.fromkeys(("reason", "remedy", "decided_by"), HOSTILE)
    thought = {**BLOCKED, **dict.fromkeys(("guard", "rule", "reason", "remedy"), HOSTILE)}
    stands = {"guard": "classify", "restricted": False, "now": HOSTILE}
    view = explained(
        **hostile,
        guards=[{**thought, "also": [HOSTILE]}, stands],
        proposal={"type": "click", "text": HOSTILE, "context": {"diff": HOSTILE}},
    )

    said = account({**view, "outcomes": [failed(HOSTILE)]})

    assert said.replace("\n", "").isprintable()


def test_an_account_says_what_a_rule_found_against_the_type():
    found = {**BLOCKED, "also": ["gate.irreversible:submit"]}

    said = account(explained(reversibility="reversible", guards=[found]))

    judged = "requires_permission, risk high, irreversible (a rule says so; its type is reversible)"
    assert f"  judged  {judged}\n" in said


def test_every_part_of_a_command_stands_with_its_place_and_the_way_in():
    inner = {
        "effect": "irreversible",
        "program": "rm",
        "why": "deletes ~/music",
        "shown": f"rm {HOSTILE}",
        "start": 7,
        "end": 21,
        "way": ["sh -c", "xargs"],
    }
    outer = {"effect": "unknown", "program": "", "why": "is a hole", "shown": "$X"}
    parts = [inner, {**outer, "start": 24, "end": 26}]

    said = account(explained(guards=[{**BLOCKED, "parts": parts}]))

    assert "\x1b" not in said
    assert "`: deletes ~/music\n        irreversible, rm, bytes 7 to 21, in sh -c → xargs\n" in said
    assert "      `$X`: is a hole\n        unknown, bytes 24 to 26\n" in said


def test_the_way_of_a_request_is_told_with_what_passed_since_the_proposal():
    def step(what: str, second: int, **said: str) -> dict[str, object]:
        empty = {"by": "", "via": "", "ref": "", "text": ""}
        return {"seq": second, "at": f"2026-02-08T14:30:{second}Z", "what": what, **empty, **said}

    steps = [
        step("proposed", 22, by="code"),
        step("decided", 22, text="require_confirmation"),
        step("asked", 22, ref="req_1", text="normal"),
        step("told", 24, by="bob", via="email", text="accepted"),
        step("answered", 52, by="alice", via="cli", text=f"approved: {HOSTILE}"),
        step("outcome", 53, by="code", text="done"),
    ]

    said = account({**explained(), "steps": steps}).splitlines()

    begin = said.index("From 2026-02-08 14:30:22Z on")
    assert said[begin + 1 : begin + 4] == [
        "  +0 s    a person was asked (req_1): normal",
        "  +2 s    a message went to bob via email: accepted",
        "  +30 s   answered by alice via cli: approved: \\x1b]0;owned\\x07\\u202e",
    ]
    assert said[begin + 4] == ""


def test_a_way_of_nothing_but_a_decision_is_not_told_again():
    steps = [{"seq": 1, "at": "2026-02-08T14:30:22Z", "what": "proposed"}]

    assert account({**explained(), "steps": steps}) == account(explained())


def test_others_of_its_kind_are_counted_and_the_last_are_named():
    last = {
        "seq": 3,
        "at": "2026-02-08T14:00:00Z",
        "id": "p-0",
        "agent": "ops",
        "decision": "block",
    }
    like = {
        "since": "2026-02-01T14:30:22Z",
        "whole": True,
        "counts": {"allow": 2, "require_confirmation": 0, "block": 1},
        "last": [last],
    }

    said = account({**explained(), "like": like})
    nothing = account({**explained(), "like": {**like, "counts": {"allow": 0}, "last": []}})

    assert (
        "Others of the same kind since 2026-02-01 14:30:22Z: 2 allowed, 1 blocked\n"
        "  2026-02-08 14:00:00Z blocked  ops  p-0\n"
    ) in said
    assert "since 2026-02-01 14:30:22Z: none\n" in nothing


def test_a_decision_says_where_it_was_written_down():
    place = {"file": "audit-00000001.jsonl", "line": 7, "hash": "ab" * 32, "previous": "cd" * 32}

    said = account(explained(audit=place))

    assert "  audit   audit-00000001.jsonl:7\n" in said
    assert "  hash    abababababababab… after cdcdcdcdcdcdcdcd…\n" in said
