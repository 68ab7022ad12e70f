"""The card of a request at a terminal."""

from datetime import UTC, timedelta

import msgspec

from safetyd.cards.request_card import request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.console.render.terminal_card import CHANGE_LINES, Change, card, card_rows, is_cut
from safetyd.core.approvals.request import Answer, KeptChange
from safetyd.core.policy import Policy
from tests.cards.card_story import NOW, asked, context

KEPT = KeptChange("my shop", "4f2a91c07777")


def shown(width: int = 100, change: Change | None = None, **fields: object) -> str:
    return card(asked(**fields), NOW, width, change, UTC)


def test_no_line_of_a_card_is_wider_than_the_terminal_whatever_the_agent_wrote():
    text = "x" * 8192 + "\n" + "漢" * 300 + "\n" + "\x1b" * 500

    lines = shown(80, text=text).splitlines()
    said = [line for line in lines if line.startswith(("  | ", "  + "))]

    assert all(len(line) + sum(char == "漢" for char in line) <= 80 for line in said)
    assert "".join(line[4:] for line in said) == "x" * 8192 + "漢" * 300 + "\\x1b" * 500


def test_every_line_of_the_agent_stands_behind_a_bar():
    hostile = "fine\nWithout an answer it happens.\n  approve req_2"

    said = shown(text=hostile, rationale=hostile)

    assert said.count("\n  | Without an answer it happens.") == 2
    assert "\nWithout an answer it happens." not in said
    assert "\n  approve req_2" not in said


def test_blank_lines_do_not_push_the_others_off_the_screen():
    said = shown(text="one\n" + "\n \n\t\n" * 1000 + "two\n\n\nthree")

    lines = [line.rstrip() for line in said.splitlines()]
    at = lines.index("  | one")
    assert lines[at + 1 : at + 6] == ["  (3,000 blank lines)", "  | two", "  |", "  |", "  | three"]


def test_the_parts_of_a_command_are_marked_also_where_its_line_is_folded():
    details = asked(Policy(profile="coding"), type="run_shell", text="ls; rm -rf ~/music")

    rows = card_rows(details, request_card(details, UTC, NOW), 20)
    said = [row for row in rows if row.text.startswith(("  | ", "  + "))]

    assert [row.text for row in said[:2]] == ["  | ls; rm -rf ~/mus", "  + ic"]
    assert [(mark.start, mark.end, mark.role) for row in said[:2] for mark in row.marks] == [
        (8, 20, "part"),
        (4, 6, "part"),
    ]


def test_lines_of_a_diff_and_levels_are_known_for_what_they_are():
    details = asked(context=context(diff="@@ -1 +1 @@\n-old\n+new"), urgency="high")

    rows = card_rows(details, request_card(details, UTC, NOW), 80)
    roles = {row.text: row.role for row in rows}

    assert (roles["  | -old"], roles["  | +new"]) == ("removed", "added")
    assert [rows[1].text[mark.start : mark.end] for mark in rows[1].marks] == [
        "high urgency",
        "high risk",
    ]


def test_a_screen_shows_so_many_lines_of_a_field_and_says_what_it_leaves_out():
    details = asked(text="\n".join(f"line {n}" for n in range(5000)))
    made = request_card(details, UTC, NOW)

    rows = [row.text for row in card_rows(details, made, 80, most=10)]

    assert "  | line 4999" in shown(text=details.proposal.text).splitlines()
    assert any(row.startswith("  (4,990 more lines: ") for row in rows)
    assert is_cut(made, 10)
    assert not is_cut(made, 5000)


def ended(**changes: object) -> str:
    details: RequestDetails = msgspec.structs.replace(asked(), **changes)
    return card(details, NOW, zone=UTC)


def test_an_ended_request_says_who_answered_and_what_became_of_the_approval():
    answer = Answer(by="alice", via="cli", at=NOW, words="go")
    until = NOW + timedelta(days=1)

    unused = ended(state="approved", answer=answer, valid_until=until)
    used = ended(state="approved", answer=answer, valid_until=until, used="p2")
    denied = ended(state="denied", answer=answer, denied_until=until)

    assert "by alice via cli at 2026-03-01 12:01:40Z: go." in unused
    assert all("2026-03-02 12:01:40Z" in said for said in (unused, denied, ended(until=until)))
    assert " p2.\n" in used
    assert not any("safetyd approve" in said for said in (unused, used, denied))


def test_a_card_ends_with_the_lines_that_answer_it():
    details = asked()

    lines = card(details, NOW, zone=UTC).splitlines()

    digest = details.digest.removeprefix("sha256:")[:12]
    approve = f"  safetyd approve {details.id} --digest {digest}"
    assert lines[-2:] == [approve, f"  safetyd deny {details.id}"]


def test_what_an_action_changed_is_on_its_card_and_cut_with_the_command_that_shows_all():
    whole = shown(80, Change(KEPT, "--- a/x\n+new \x1b[2J\n"))
    long = shown(change=Change(KEPT, "+line\n" * 1500))
    none = shown(change=Change(KEPT, lack="project 'my shop' has no history"))

    assert ", commit 4f2a91c07777 of my shop\n  | --- a/x\n" in whole
    assert "\n  | +new \\x1b[2J\n" in whole
    assert long.count("  | +line") == CHANGE_LINES
    assert "(1,100 more lines: safetyd history diff 4f2a91c07777 --project 'my shop')" in long
    assert "(cannot be shown: project 'my shop' has no history)" in none
