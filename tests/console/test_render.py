import msgspec

from safetyd.console import render
from safetyd.console.render_audit import record
from safetyd.console.render_explain import account
from safetyd.core.decision import Decision
from safetyd.core.verdict import Severity

HOSTILE = "\x1b]0;owned\x07\u202e"


def answer(decision: Severity, **fields) -> Decision:
    return Decision(id="p-1", agent="code", decision=decision, **fields)


def test_an_allow_says_passed_for_agent_and_type():
    said = render.decision(answer(Severity.ALLOW), "read_file")

    assert said == "PASSED: All safety checks passed for code:read_file\n  id  p-1"


def test_a_block_says_why_by_which_rule_and_when_to_try_again():
    blocked = answer(
        Severity.BLOCK, reason="too fast", triggered_rules=("rate.agent",), retry_after_s=1.5
    )

    assert render.decision(blocked, "x").splitlines() == [
        "BLOCKED: too fast",
        "  rule   rate.agent",
        "  retry  in 1.5 s",
        "  id     p-1",
    ]


def test_a_question_says_that_it_needs_a_person():
    asked = answer(Severity.ASK, reason="Irreversible")

    assert render.decision(asked, "x").startswith("WAITING: needs a person: Irreversible\n")


def test_a_question_in_the_queue_names_its_request():
    asked = answer(Severity.ASK, reason="Irreversible", request_id="req_7")

    assert render.decision(asked, "x").startswith("WAITING: needs a person (req_7): Irreversible")


def test_every_view_shows_hostile_words_harmlessly():
    views = (
        render.decision(answer(Severity.BLOCK, reason=HOSTILE, triggered_rules=(HOSTILE,)), "x"),
        render.event({"timestamp": HOSTILE, "event_type": "X", "reason": HOSTILE, "metadata": {}}),
        render.one_stop(
            {"agent": HOSTILE, "reason": HOSTILE, "source": "x", "by": "y", "since": HOSTILE}
        ),
        record(msgspec.json.encode({"event": HOSTILE, "words": HOSTILE, HOSTILE: [HOSTILE]})),
        account(explained(text=HOSTILE, context={"diff": HOSTILE})),
    )

    for view in views:
        assert view.replace("\n", "").isprintable()


def explained(**proposal: object) -> dict[str, object]:
    decided = {
        "seq": 8,
        "at": "2026-02-08T14:30:22.5Z",
        "agent": "code",
        "type": "run_shell",
        "tier": "requires_permission",
        "risk": "high",
        "reversibility": "unknown",
        "decision": "block",
        "first": True,
        "digest": "sha256:1",
        "verdicts": [
            {
                "guard": "gate",
                "decision": "block",
                "rule": "gate.blocklist:rm_rf",
                "also": ["gate.blocklist:sudo_rm"],
                "reason": "Blocklist: matches",
            }
        ],
        "proposal": {"type": "run_shell", **proposal},
    }
    withheld = {"seq": 9, "at": "2026-02-08T14:30:23Z", "why": "stopped"}
    return {"id": "p-1", "decisions": [decided], "withheld": [withheld]}


def test_an_account_names_guard_rules_reason_proposal_and_withholding():
    said = account(explained(text="rm -rf /", paths=["a"])).splitlines()

    assert said[2] == "2026-02-08 14:30:22Z blocked (event 8)"
    assert "  gate: blocked by gate.blocklist:rm_rf, gate.blocklist:sudo_rm" in said
    assert "    Blocklist: matches" in said
    assert "    text   rm -rf /" in said
    assert '    paths  ["a"]' in said
    assert said[-1] == (
        "2026-02-08 14:30:23Z withheld (event 9): everything was stopped before it left"
    )


def test_an_event_is_one_line_with_its_rule_and_count():
    event = {
        "timestamp": "2026-02-08T14:30:22Z",
        "event_type": "ACTION_BLOCKED",
        "agent_id": "code",
        "reason": "no",
        "metadata": {"rule": "gate.loop", "count": 3},
    }

    assert render.event(event) == (
        "2026-02-08 14:30:22Z ACTION_BLOCKED code [gate.loop]: no (3 times)"
    )


def test_no_agents_is_said_in_words():
    assert render.agents([]) == "No agent has been heard yet."


def test_durations_have_one_unit():
    assert [render.duration(s) for s in (0.4, 59, 61, 7200, 90000)] == [
        "0 s",
        "59 s",
        "1 min",
        "2 h",
        "1 d",
    ]
