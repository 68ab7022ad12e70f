from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from safetyd.cards.request_details import RequestRow
from safetyd.console.review import detail
from safetyd.console.review.detail import chosen, heading, left, line, matches, ordered
from tests.filled import reading

outcomes = reading(detail.outcomes)
standing = reading(detail.standing)

Row = dict[str, Any]
AT = datetime(2026, 2, 8, 14, 30, 22, tzinfo=UTC)
QUEUED = RequestRow(
    id="req_0123456789ab",
    agent="code",
    type="push",
    unknown=False,
    text="git push",
    description="",
    whole=True,
    urgency="normal",
    risk="high",
    rule="classify.high",
    reason="r",
    asked_at=AT,
    deadline=None,
    left_s=600.0,
    until=None,
    repeats=0,
    digest="sha256:" + "a" * 64,
    permission=False,
    undeliverable=False,
)


def row(**more: object) -> RequestRow:
    return msgspec.structs.replace(QUEUED, **more)


def test_the_urgent_come_first_and_what_is_put_off_last():
    rows = [
        row(id="put off", urgency="high", until=AT),
        row(id="low", urgency="low"),
        row(id="old"),
        row(id="new"),
        row(id="high", urgency="high"),
    ]

    assert [one.id for one in ordered(rows)] == ["high", "old", "new", "low", "put off"]


def test_the_heading_says_how_many_are_not_shown():
    now = datetime(2026, 2, 8, 14, 33, 50, tzinfo=UTC)
    later = row(urgency="high", asked_at=AT.replace(minute=33, second=0))

    both = heading([row(), later], 2, now)

    assert both == "2 pending, 1 of high urgency, the oldest for 3 min"
    assert heading([row()], 7, now) == "7 pending, the oldest for 3 min; showing the oldest 1"
    assert heading([], 0, now) == "0 pending"


SINCE = {"by": "local", "since": "2026-02-08T14:30:22Z", "reason": "drill"}
STOP = {**SINCE, "source": "operator"}
CALM: Row = {
    "problem": "",
    "stop": {"stops": []},
    "safe_mode": {"agents": [], "holds": []},
    "pauses": [],
    "paused": [],
}
SAFE = {"safe_mode": {"agents": ["*"], "holds": [{**SINCE, "agent": "*"}]}}
ONE_SAFE = {"safe_mode": {"agents": ["a"], "holds": [{**SINCE, "agent": "a"}]}}
PAUSED = {
    "pauses": [{**SINCE, "agent": "a", "reason": ""}, {**SINCE, "agent": "b"}],
    "paused": ["a", "b"],
}


@pytest.mark.parametrize(
    ("status", "level", "why"),
    [
        ({}, "NORMAL", ""),
        (
            PAUSED,
            "PAUSED",
            "a by local since 2026-02-08 14:30:22Z; and 1 more: `safetyd status`",
        ),
        (
            {**PAUSED, "stop": {"stops": [{**STOP, "agent": "code"}]}},
            "STOPPED",
            (
                "code by local's command since 2026-02-08 14:30:22Z: drill; "
                "and 2 paused: `safetyd status`"
            ),
        ),
        (
            {**SAFE, "stop": {"stops": [{**STOP, "agent": "code"}]}},
            "SAFE MODE",
            (
                "all agents by local since 2026-02-08 14:30:22Z: drill; "
                "and 1 stopped: `safetyd status`"
            ),
        ),
        (
            {**SAFE, "stop": {"stops": [{**STOP, "agent": "x"}, {**STOP, "agent": None}]}},
            "STOPPED",
            (
                "everything by local's command since 2026-02-08 14:30:22Z: drill; "
                "and all agents in safe mode, 1 stopped: `safetyd status`"
            ),
        ),
        (
            {**ONE_SAFE, **PAUSED, "stop": {"stops": [{**STOP, "agent": None}]}},
            "STOPPED",
            (
                "everything by local's command since 2026-02-08 14:30:22Z: drill; "
                "and 1 in safe mode, 2 paused: `safetyd status`"
            ),
        ),
        ({**SAFE, "problem": "the disk is full"}, "EVERYTHING BLOCKED", "the disk is full"),
    ],
)
def test_the_top_tells_what_holds_the_most_and_counts_the_rest(status, level, why):
    assert standing({**CALM, **status}) == (level, why)


@pytest.mark.parametrize(
    ("left_s", "shown"),
    [(None, "-"), (7200.0, "2 h"), (600.0, "9:50"), (12.0, "0:02"), (3.0, "0:00")],
)
def test_the_time_left_is_counted_down_and_never_below_nothing(left_s, shown):
    assert left(row(left_s=left_s), passed_s=10.0) == shown


def test_what_is_put_off_has_no_countdown():
    assert left(row(until=AT), passed_s=0.0) == "later"


def test_a_mark_is_seen_without_colour():
    assert line(row(), 0.0, marked=True).startswith("* normal")
    assert line(row(), 0.0, marked=False).startswith("  normal")


def test_the_path_of_an_edit_comes_before_its_text():
    edit = row(type="edit_file", text="x = 1", path="src/a.py", paths=2)

    assert line(edit, 0.0, marked=False).endswith(" edit_file: src/a.py and 1 more: x = 1")
    assert "edit_file: src/a.py and 1 more: x = 1" in chosen([edit], 80)
    assert matches(edit, "src/a.py")


def test_a_filter_looks_at_agent_type_text_and_urgency_in_any_case():
    assert all(matches(row(), wanted) for wanted in ("CODE", "push", "Git Push", "normal", ""))
    assert not matches(row(), "deploy")


def test_what_is_confirmed_names_id_digest_and_text():
    shown = chosen([row(), row(id="req_other", text="x" * 200, whole=False)], columns=60)

    assert shown.startswith("req_0123456789ab, digest aaaaaaaaaaaa, from code:\n  | push: git push")
    assert shown.endswith("all of it)")


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
    assert said[-1].startswith("and 6 more")


def test_without_transcripts_the_page_says_where_they_would_be(tmp_path: Path):
    assert str(tmp_path / "transcripts") in detail.sessions(tmp_path)
