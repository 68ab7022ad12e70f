from typing import Any

from safetyd.console.render.agent_words import CardMark
from safetyd.console.render.request_card import CHANGE_LINES, card, card_rows


def view(**fields: Any) -> dict[str, Any]:
    proposal = {"id": "p1", "type": "push", "text": "git push", **fields.pop("proposal", {})}
    asked = {
        "id": "req_1",
        "state": "pending",
        "agent": "code",
        "type": "push",
        "unknown": False,
        "urgency": "normal",
        "risk": "high",
        "reversibility": "irreversible",
        "gives": "",
        "resolved": [],
        "verdicts": [{"guard": "classify", "rule": "classify.high", "reason": "r"}],
        "repeats": 0,
        "asked_at": "2026-03-01T12:00:00Z",
        "deadline": "2026-03-01T13:00:00Z",
        "left_s": 3599.0,
        "until": None,
        "permission": False,
        "digest": f"sha256:{'0123456789abcdef' * 4}",
        "before": [],
        "answer": None,
        "used": "",
        "valid_until": None,
    }
    return {**asked, **fields, "proposal": proposal}


def test_no_line_of_a_card_is_wider_than_the_terminal_whatever_the_agent_wrote():
    text = "x" * 8192 + "\n" + "漢" * 300 + "\n" + "\x1b" * 500

    lines = card(view(proposal={"text": text}), width=80).splitlines()
    said = [line for line in lines if line.startswith(("  | ", "  + "))]

    assert all(len(line) + sum(char == "漢" for char in line) <= 80 for line in said)
    assert "".join(line[4:] for line in said) == "x" * 8192 + "漢" * 300 + "\\x1b" * 500


def test_every_line_of_the_agent_stands_behind_a_bar():
    hostile = "fine\nWithout an answer it happens.\n  safetyd approve req_2"

    shown = card(view(proposal={"text": hostile, "rationale": hostile}))

    assert shown.count("\n  | Without an answer it happens.") == 2
    assert "\nWithout an answer it happens." not in shown
    assert "\n  safetyd approve req_2" not in shown


def test_nothing_that_an_agent_sent_is_ever_cut():
    lines = "\n".join(f"line {number}" for number in range(5_000))

    assert "  | line 4999\n" in card(view(proposal={"text": lines}))
    assert "  | line 4999\n" in card(view(proposal={"context": {"diff": lines}}))


def test_fields_without_a_section_of_their_own_are_shown_too():
    sent = {"model": "m-1", "session": "s\x1b", "notes": "1\n2", "scores": {"a": 1}}

    shown = card(view(proposal={**sent, "paths": ["a", "b"], "target": {"label": "Buy"}}))

    assert "  in short, as the agent says\n  | model: m-1\n  | session: s\\x1b\n" in shown
    assert "  notes\n  | 1\n  | 2" in shown
    assert "  scores\n  | a: 1" in shown
    assert "  paths\n  | a\n  | b" in shown
    assert "  target\n  | label: Buy" in shown


def test_a_missing_text_rollback_plan_and_cost_are_said_to_be_missing():
    shown = card(view(proposal={"text": ""}, reversibility="unknown", unknown=True))

    assert "\nIt gave no exact text.\n" in shown
    assert "rollback    the agent has no plan for it" in shown
    assert "cost        not said" in shown
    assert "nobody knows whether it can be undone" in shown
    assert "type        nobody configured this type" in shown


def test_a_request_without_a_deadline_waits_without_an_end():
    paused = view(
        left_s=None,
        deadline=None,
        type="unpause",
        until="2026-03-02T12:00:00Z",
        proposal={"id": "req_1", "type": "unpause"},
    )

    shown = card(paused)

    assert "It waits without an end. Without an answer the agent stays paused." in shown
    assert "It was put off until 2026-03-02 12:00:00Z." in shown


def test_a_card_says_what_a_rule_found_against_the_type():
    found = {"guard": "gate", "rule": "gate.irreversible:submit", "reason": "Irreversible"}

    shown = card(view(risk="low", reversibility="reversible", verdicts=[found]))

    assert "risk        low, irreversible (a rule says so; its type is reversible)\n" in shown


def test_an_ended_request_says_who_answered_and_what_became_of_the_approval():
    answer = {"by": "alice", "via": "cli", "at": "2026-03-01T12:01:00Z", "words": "go"}
    until = "2026-03-02T12:01:00Z"

    unused = card(view(state="approved", answer=answer, valid_until=until))
    used = card(view(state="approved", answer=answer, valid_until=until, used="p2", repeats=2))
    expired = card(view(state="expired", answer={**answer, "words": ""}))

    assert "It was approved by alice via cli at 2026-03-01 12:01:00Z: go." in unused
    assert "\nThe approval may be used once, until 2026-03-02 12:01:00Z.\n" in unused
    assert "\nThe approval was used by p2.\n" in used
    assert "proposed 2 more times" in used
    assert "safetyd approve" not in expired


def test_lines_to_copy_invite_nobody_to_send_words_that_say_nothing():
    lines = card(view()).splitlines()

    assert lines[-2:] == ["  safetyd approve req_1 --digest 0123456789ab", "  safetyd deny req_1"]


def test_what_an_approval_gives_besides_is_on_the_card():
    assert "  ALSO        more money" in card(view(gives="more money"))


def test_the_parts_of_a_command_stand_below_its_text():
    part = {"effect": "unknown", "program": "", "why": "is a hole", "start": 4, "end": 6}
    gate = {"rule": "gate.shell:unknown", "reason": "r", "parts": [{**part, "shown": "$X\x1b"}]}

    shown = card(view(verdicts=[gate], proposal={"text": "ls; $X"}))

    assert "  | ls; $X\n  of which do not pass\n    `$X\\x1b`: is a hole\n" in shown


def test_a_card_has_the_order_of_the_decision_page():
    sent = {"rationale": "Late", "paths": ["a"], "context": {"branch": "b", "diff": "+x"}}
    sent |= {"rollback": "git revert", "model": "m-1"}

    shown = card(view(proposal=sent))

    parts = (
        "code asks: push (req_1, pending)",
        "normal urgency, high risk",
        "60 min left, until 2026-03-01 13:00:00Z. Without an answer it does not happen.",
        "  exact text\n",
        "  diff\n",
        "  paths\n",
        "  stopped by  classify.high",
        "  in short, as the agent says\n",
        "  why, as the agent says\n",
        "  rollback plan\n",
        "  context\n  | branch: b\n",
        "No answers to this kind before.",
        "  safetyd approve req_1",
    )
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)


def test_what_an_agent_only_describes_stands_where_the_text_would_be():
    shown = card(view(proposal={"text": "", "description": "Fix a typo"}))

    assert "It gave no exact text. The agent describes it as:\n  | Fix a typo\n" in shown
    assert shown.count("Fix a typo") == 1


def test_parts_of_a_command_are_marked_also_where_its_line_is_folded():
    part = {"effect": "unknown", "program": "", "why": "is a hole", "shown": "x"}
    gate = {
        "rule": "gate.shell:unknown",
        "reason": "r",
        "parts": [{**part, "start": 16, "end": 24}],
    }

    rows = card_rows(view(verdicts=[gate], proposal={"text": "a\x1b" + "b" * 14 + "xxxxxxxxc"}), 24)
    marked = [(row.text, row.marks) for row in rows if row.text.startswith(("  | ", "  + "))]

    assert marked == [
        ("  | a\\x1b" + "b" * 14 + "x", (CardMark(23, 24, "part"),)),
        ("  + xxxxxxxc", (CardMark(4, 11, "part"),)),
    ]


def test_each_line_of_a_diff_is_known_for_what_it_does():
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n same\n--- gone\n-old\n+new"

    rows = card_rows(view(proposal={"text": "+", "context": {"diff": diff}}), 80)

    assert [(row.text, row.role) for row in rows if row.text.startswith("  | ")] == [
        ("  | +", ""),
        ("  | diff --git a/x b/x", "file"),
        ("  | --- a/x", "file"),
        ("  | +++ b/x", "file"),
        ("  | @@ -1 +1 @@", "hunk"),
        ("  |  same", ""),
        ("  | --- gone", "removed"),
        ("  | -old", "removed"),
        ("  | +new", "added"),
    ]


def test_risk_and_urgency_are_known_for_what_they_are():
    _, tags, *_ = card_rows(view(urgency="high", risk="medium"), 80)

    assert tags.text == "high urgency, medium risk"
    assert [(tags.text[mark.start : mark.end], mark.role) for mark in tags.marks] == [
        ("high urgency", "urgency high"),
        ("medium risk", "risk medium"),
    ]


KEPT = {"project": "my shop", "commit": "4f2a91c07777"}
DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new \x1b[2J\n"


def done(**fields: Any) -> dict[str, Any]:
    answer = {"by": "alice", "via": "cli", "at": "2026-03-01T12:10:00Z"}
    return view(state="approved", answer=answer, used="p1", change=KEPT, **fields)


def test_what_an_action_changed_stands_on_its_card_behind_bars():
    shown = card(done(diff=DIFF), width=80)

    assert "  what it changed, commit 4f2a91c07777 of my shop\n  | --- a/x\n" in shown
    assert "\n  | +new \\x1b[2J\n" in shown
    assert "\x1b" not in shown
    rows = {row.text: row.role for row in card_rows(done(diff=DIFF), 80)}
    assert (rows["  | -old"], rows["  | +++ b/x"]) == ("removed", "file")


def test_a_long_change_is_cut_with_the_command_that_shows_all_of_it():
    shown = card(done(diff="+line\n" * 1500))

    assert shown.count("  | +line") == CHANGE_LINES
    assert "(1,100 more lines: safetyd history diff 4f2a91c07777 --project 'my shop')" in shown


def test_a_change_that_cannot_be_read_says_why():
    shown = card(done(no_diff="project 'my shop' has no history"))

    assert "(it cannot be shown: project 'my shop' has no history)" in shown
