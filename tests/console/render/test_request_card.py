from typing import Any

from safetyd.console.render.request_card import card


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
    assert "  |   line 4999\n" in card(view(proposal={"context": {"diff": lines}}))


def test_fields_without_a_section_of_their_own_are_shown_too():
    shown = card(view(proposal={"model": "m-1", "paths": ["a", "b"], "target": {"label": "Buy"}}))

    assert "  model\n  | m-1" in shown
    assert "  paths\n  | a\n  | b" in shown
    assert "  target\n  | label: Buy" in shown


def test_a_missing_text_rollback_plan_and_cost_are_said_to_be_missing():
    shown = card(view(proposal={"text": ""}, reversibility="unknown", unknown=True))

    assert "(it gave no exact text)" in shown
    assert "rollback    the agent has no plan for it" in shown
    assert "cost        not said" in shown
    assert "nobody knows whether it can be undone" in shown
    assert "push (a type that is not known)" in shown


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
    assert unused.endswith("The approval may be used once, until 2026-03-02 12:01:00Z.")
    assert used.endswith("The approval was used by p2.")
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
