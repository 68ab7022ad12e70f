from datetime import timedelta

import msgspec
import pytest

from safetyd.core.messages.transcript import Entry, Status, Transcript, Usage
from safetyd.core.reporting.session_summary import MAX_LINES, summary, took
from tests.story import at

PENDING = Entry(
    "permission_request",
    "Create PR for auth test fixes",
    "requires_permission",
    "pending",
    "create_pull_request",
    "req_abc123",
)
CYCLE = Transcript(
    session_id="s-1",
    agent="code",
    started_at=at(0),
    ended_at=at(296),
    why="ended",
    provider="openai",
    model="gpt-5.2",
    token_usage=Usage(12400, 3200),
    actions=(
        Entry("memory_write", "Merged 2 duplicate memories", "auto_allowed", "done"),
        Entry("read_file", "", "auto_allowed"),
        Entry("run_tests", "Ran the tests", "auto_allowed", "failed", reason="no disk"),
        Entry("run_shell", "rm -rf /", "requires_permission", "blocked", reason="too much"),
        Entry("push", "Push", "requires_permission", "denied", request_id="req_1"),
        Entry("push", "Push it", "requires_permission", "approved", request_id="req_2"),
        PENDING,
        PENDING,
    ),
    left_out=13,
    pending_permissions=2,
    scheduled_next="2026-03-01T12:39:56Z",
    budget_remaining_percent=62,
)


def but(**changes: object) -> Transcript:
    return msgspec.structs.replace(CYCLE, **changes)


@pytest.mark.req("S3.40")
def test_a_summary_tells_what_was_done_what_waits_and_what_comes_next() -> None:
    assert (
        summary(CYCLE, str)
        == """\
Session s-1 of code completed (4m 56s)

Done:
- Merged 2 duplicate memories
- read_file (no outcome reported)

Failed:
- Ran the tests (failed: no disk)

Not allowed:
- rm -rf / (blocked: too much)
- Push (denied)

Approved, not yet done:
- Push it (approved)

13 more actions are not listed here; the audit files have them.

Needs your review:
- Create PR for auth test fixes [safetyd approve req_abc123 | safetyd deny req_abc123]
- 1 more: see `safetyd list`

Next cycle: ~35 minutes

Budget: 62% remaining today"""
    )


def test_a_session_without_name_or_deeds_is_short() -> None:
    silent = but(
        session_id="",
        why="idle",
        actions=(),
        left_out=0,
        pending_permissions=0,
        scheduled_next=None,
        budget_remaining_percent=None,
    )

    assert summary(silent, str) == "A session of code fell silent (4m 56s)\n\nDone:\n- nothing"


@pytest.mark.parametrize("status", ["done", "allowed", "failed"])
def test_an_approved_action_that_ran_is_listed_once(status: Status) -> None:
    asked = Entry("push", "Push it", status="approved", request_id="req_2")
    other = Entry("push", "Push more", status="approved", request_id="req_3")
    ran = msgspec.structs.replace(asked, status=status)

    said = summary(but(actions=(asked, ran, other), pending_permissions=0), str)

    assert said.count("Push it") == 1
    assert "Approved, not yet done:\n- Push more (approved)\n\n" in said


def test_a_heading_has_so_many_lines() -> None:
    many = but(actions=(Entry("read_file", status="done"),) * (MAX_LINES + 2))

    assert "- read_file\n- and 2 more\n\n" in summary(many, str)


@pytest.mark.parametrize(
    "said",
    ["tomorrow", "2026-03-01T12:39:56", "2026-03-01T11:00:00Z", "2099-03-01T11:00:00Z"],
    ids=["words", "naive", "past", "far"],
)
def test_a_next_cycle_that_is_not_soon_is_told_as_it_was_said(said: str) -> None:
    assert f"Next cycle: {said}\n" in summary(but(scheduled_next=said), str)


@pytest.mark.parametrize(
    ("minutes", "told"), [(1, "~1 minute"), (119, "~119 minutes"), (180, "~3 hours")]
)
def test_a_next_cycle_is_told_in_minutes_or_hours(minutes: int, told: str) -> None:
    ahead = CYCLE.ended_at + timedelta(minutes=minutes)

    assert f"Next cycle: {told}\n" in summary(but(scheduled_next=ahead.isoformat()), str)


def test_words_of_agents_are_made_harmless() -> None:
    entries = [
        Entry("x", "evil", status=status, reason="evil") for status in ("done", "failed", "pending")
    ]
    hostile = but(session_id="evil", actions=tuple(entries), scheduled_next="evil")

    said = summary(hostile, lambda words: words.replace("evil", "good"))

    assert "evil" not in said


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (-3, "0s"), (60, "1m"), (3661.9, "1h 1m 1s")]
)
def test_how_long_it_took_is_said_in_hours_minutes_and_seconds(seconds: float, said: str) -> None:
    assert took(but(ended_at=at(0) + timedelta(seconds=seconds))) == said
