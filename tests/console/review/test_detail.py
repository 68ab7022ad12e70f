from typing import Any

import pytest

from safetyd.console.review.detail import (
    chosen,
    fitted,
    heading,
    left,
    line,
    matches,
    ordered,
    outcomes,
    quoted,
)

Row = dict[str, Any]


def row(**more: object) -> Row:
    asked = {"id": "req_0123456789ab", "agent": "code", "type": "push", "text": "git push"}
    rest = {
        "whole": True,
        "description": "",
        "urgency": "normal",
        "rule": "classify.high",
        "until": None,
    }
    return {**asked, **rest, "left_s": 600.0, "digest": "sha256:" + "a" * 64, **more}


def test_the_urgent_come_first_and_what_is_put_off_last():
    rows = [
        row(id="put off", urgency="high", until="2026-02-08T14:30:22Z"),
        row(id="low", urgency="low"),
        row(id="old"),
        row(id="new"),
        row(id="high", urgency="high"),
    ]

    assert [one["id"] for one in ordered(rows)] == ["high", "old", "new", "low", "put off"]


def test_the_heading_says_how_many_are_not_shown():
    assert heading([row(), row(urgency="high")], 2) == "2 pending, 1 of high urgency"
    assert heading([row()], 7) == "7 pending; the oldest 1 of them shown"


@pytest.mark.parametrize(
    ("left_s", "shown"),
    [(None, "no end"), (7200.0, "2 h"), (600.0, "9:50"), (12.0, "0:02"), (3.0, "0:00")],
)
def test_the_time_left_is_counted_down_and_never_below_nothing(left_s, shown):
    assert left(row(left_s=left_s), passed_s=10.0) == shown


def test_what_is_put_off_has_no_countdown():
    assert left(row(until="2026-02-08T14:30:22Z"), passed_s=0.0) == "put off"


def test_a_mark_is_seen_without_colour():
    assert line(row(), 0.0, marked=True).startswith("* normal")
    assert line(row(), 0.0, marked=False).startswith("  normal")


def test_a_filter_looks_at_agent_type_text_and_urgency_in_any_case():
    assert all(matches(row(), wanted) for wanted in ("CODE", "push", "Git Push", "normal", ""))
    assert not matches(row(), "deploy")


def test_what_is_confirmed_names_id_digest_and_text():
    shown = chosen([row(), row(id="req_other", text="x" * 200, whole=False)], columns=60)

    assert shown.startswith("req_0123456789ab, digest aaaaaaaaaaaa, of code:\n  | push: git push")
    assert shown.endswith("(and more; its card shows all)")


def test_a_line_that_is_too_long_goes_on_behind_a_plus():
    assert quoted("abcdef\nxyz", columns=8) == ["  | abcd", "  + ef", "  | xyz"]


def test_wide_letters_do_not_break_out_of_their_line():
    assert quoted("日本語日本語", columns=10) == ["  | 日本語", "  + 日本語"]


def test_our_own_lines_are_folded_between_words_below_what_they_say():
    said = (
        "  stopped by  classify.high: push cannot be undone\nIn the agent's own words, all of them"
    )

    assert fitted(said, 32).splitlines() == [
        "  stopped by  classify.high:",
        "              push cannot be",
        "              undone",
        "In the agent's own words, all of",
        "    them",
    ]


def test_word_that_is_too_long_and_label_that_is_too_wide_still_fit():
    assert fitted("  " + "x" * 30, 20).splitlines() == ["  " + "x" * 18, "      " + "x" * 12]
    wide = fitted("  a very wide label  and its words", 20).splitlines()
    assert wide == ["  a very wide label", "      and its words"]


def test_words_of_an_agent_and_wide_letters_are_folded_where_they_are_too_long():
    assert fitted("  | abc defgh", 10).splitlines() == ["  | abc de", "  + fgh"]
    assert fitted("日本 語日本", 6).splitlines() == ["日本 ", "  + 語", "  + 日", "  + 本"]


def test_lines_beyond_the_most_are_counted():
    assert quoted("1\n2\n3", columns=80, most=1) == ["  | 1", "  (and 2 more lines; v shows all)"]


def test_what_did_not_go_as_wanted_is_named_before_what_did():
    late: Row = {"id": "r2", "ok": False, "code": "already_decided", "decision": "denied"}
    late |= {"by": "bob", "via": "web", "at": "2026-02-08T14:30:22Z"}
    gone: Row = {"id": "r3", "ok": False, "code": "not_found", "error": "no request has this id"}
    fine: Row = {"id": "r1", "ok": True, "decision": "approved"}

    said = outcomes([fine, late, gone], 3, "")

    assert said.splitlines() == [
        "r2: NOT ANSWERED: already denied by bob via web at 2026-02-08 14:30:22Z",
        "r3: NOT ANSWERED: no request has this id",
        "1 of 3 answered",
    ]


def test_many_refusals_leave_room_for_the_screen():
    gone = [{"id": f"r{n}", "ok": False, "code": "not_found", "error": "gone"} for n in range(9)]

    said = outcomes(gone, 9, "").splitlines()

    assert len(said) == 4
    assert said[-1] == "and 6 more like these; `safetyd log` has them"
