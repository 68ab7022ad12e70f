from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from safetyd.console import agent_list, stop_file
from safetyd.console.render import decision_table as render
from safetyd.console.render import layout, request_tables
from safetyd.console.render.audit_lines import record
from safetyd.console.subcommands.propose_action import unknown_fields
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity
from tests.filled import reading

history = reading(request_tables.history)
still_open = reading(agent_list.still_open)
unheard = reading(agent_list.unheard)
told_of = reading(stop_file.told_of)

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


@pytest.mark.parametrize(
    ("retry_after_s", "shown"),
    [(59.4902, "60 s"), (60.0, "60 s"), (10.01, "11 s"), (9.96, "10 s"), (1.42, "1.5 s")],
)
def test_the_time_to_try_again_is_short_and_never_too_early(retry_after_s: float, shown: str):
    blocked = answer(Severity.BLOCK, reason="too fast", retry_after_s=retry_after_s)

    assert f"  retry  in {shown}" in render.decision(blocked, "x").splitlines()


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
        still_open([{"agent": HOSTILE, "open_actions": ["p"], "unreported": 0}]),
        unheard("a", [{"agent": f"a{HOSTILE}"}]) + unheard(HOSTILE, []),
        *("".join(said) for said in told_of(hostile_stops())),
        "".join(unknown_fields({f"text{HOSTILE}": 1})),
        record(msgspec.json.encode({"event": HOSTILE, "words": HOSTILE, HOSTILE: [HOSTILE]})),
    )

    for view in views:
        assert view.replace("\n", "").isprintable()


def hostile_stops() -> list[dict[str, object]]:
    sources = ("operator", f"file:/{HOSTILE}", "environment", "anomaly", HOSTILE)
    said = {"agent": HOSTILE, "reason": HOSTILE, "by": HOSTILE}
    return [{**said, "source": source} for source in sources]


def test_several_rules_stand_under_one_label():
    blocked = answer(Severity.BLOCK, reason="no", triggered_rules=("gate.a", "gate.b"))

    assert render.decision(blocked, "x").splitlines()[1] == "  rules  gate.a, gate.b"


def test_a_dry_run_says_that_nobody_was_asked():
    asked = answer(Severity.ASK, reason="Irreversible")

    assert render.decision(asked, "x", dry_run=True).splitlines()[1:3] == [
        "  a dry run: nothing was consumed",
        "  a person would be asked",
    ]


def row(agent: str, *open_actions: str, unreported: int = 0) -> dict[str, object]:
    return {"agent": agent, "open_actions": open_actions, "unreported": unreported}


def test_open_actions_are_counted_by_agent_with_those_that_are_only_counted():
    rows = [row("a", "p1", "p2", unreported=1), row("b", "p3"), row("c")]

    assert still_open(rows) == (
        "Nothing new is allowed. 4 allowed actions have not reported an end: a 3, b 1; "
        "check them by hand."
    )
    assert still_open(rows, "b").endswith(
        "1 allowed action has not reported an end: b 1; check it by hand."
    )
    assert still_open(rows, "c") == ""


def stop(source: str, by: str = "alice", agent: str | None = None) -> dict[str, object]:
    since = "2026-02-08T14:02:00Z"
    return {"source": source, "by": by, "reason": "drill", "agent": agent, "since": since}


def cause(stop: dict[str, object]) -> str:
    ((said, _),) = told_of([stop])
    return said


def ending(stop: dict[str, object]) -> str:
    ((_, said),) = told_of([stop])
    return said


@pytest.mark.parametrize(
    ("source", "by", "said"),
    [
        ("operator", "alice", "alice's command"),
        ("file:/d/HALT", "alice", "the file /d/HALT of alice"),
        ("file:/d/HALT", "file", "the file /d/HALT"),
        ("environment", "environment", "the daemon's environment"),
        ("anomaly", "anomaly", "an anomaly"),
    ],
)
def test_a_cause_is_said_in_plain_words(source, by, said):
    assert cause(stop(source, by)) == f"everything by {said} since 2026-02-08 14:02:00Z: drill"


def test_a_file_without_words_is_named_once():
    silent = {**stop("file:/d/HALT", "file"), "reason": "/d/HALT is there"}

    assert cause(silent) == "everything by the file /d/HALT since 2026-02-08 14:02:00Z"


def test_what_ends_a_stop_depends_on_its_cause(tmp_path):
    ours, theirs, directory = (tmp_path / name for name in ("ours", "theirs", "directory"))
    ours.write_text("Stopped by: a\nTime: b\nReason: c\n")
    theirs.touch()
    directory.mkdir()

    assert ending(stop("operator")) == "`safetyd resume` ends it"
    assert ending(stop("operator", agent="code")) == "`safetyd resume --agent code` ends it"
    assert ending(stop(f"file:{ours}")) == "`safetyd resume` ends it"
    assert ending(stop(f"file:{theirs}")).startswith("`safetyd resume`, which shows it and asks")
    assert f"`rm -r {directory}` ends it" in ending(stop(f"file:{directory}"))
    assert "cannot be seen from here" in ending(stop(f"file:{tmp_path}/none"))
    assert "a start of the daemon without that variable" in ending(stop("environment"))


def test_an_event_is_one_line_with_its_rule_and_count():
    event = {
        "timestamp": "2026-02-08T14:30:22Z",
        "event_type": "ACTION_BLOCKED",
        "agent_id": "code",
        "reason": "no",
        "metadata": {"rule": "gate.loop", "count": 3},
    }

    assert render.event(event) == (
        "2026-02-08 14:30:22Z medium   ACTION_BLOCKED: gate.loop blocked code: no (3 times)"
    )


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-02-08 22:30:22Z"),
        ("Europe/Berlin", "2026-02-08 23:30:22 CET"),
        ("Asia/Kathmandu", "2026-02-09 04:15:22 +0545"),
        ("America/New_York", "2026-02-08 17:30:22 EST"),
        ("CET-1", "2026-02-08 23:30:22 CET"),
    ],
)
def test_times_are_in_the_zone_of_whoever_reads_them(
    live_in: Callable[[str], None], zone: str, shown: str
):
    live_in(zone)

    assert layout.when("2026-02-08T22:30:22.5Z") == shown


@pytest.mark.parametrize("odd", ["", "soon", "0001-01-01T00:00:00+00:00"])
def test_what_is_no_time_here_is_shown_as_it_came(live_in: Callable[[str], None], odd: str):
    live_in("America/New_York")

    assert layout.when(odd) == odd


def test_rows_before_and_after_a_change_of_the_clocks_are_told_apart(
    live_in: Callable[[str], None],
):
    live_in("Europe/Berlin")
    past: dict[str, object] = {
        "request_id": "req_1",
        "decision": "denied",
        "decided_by": "local",
        "words": "",
    }
    past |= {"decided_via": "cli", "response_time_seconds": 3.0, "agent": "code"}
    past |= {"action": "push", "text": ""}

    _, late, early = history(
        [{**past, "decided_at": f"2026-10-25T0{hour}:30:00Z"} for hour in (1, 0)]
    ).splitlines()

    assert "2026-10-25 02:30:00 CET " in late
    assert "2026-10-25 02:30:00 CEST " in early


def test_the_day_of_budgets_ends_with_that_of_utc(live_in: Callable[[str], None]):
    live_in("America/New_York")

    # It is the 8th there still, and the 9th in UTC.
    assert layout.day_end(datetime(2026, 2, 9, 2, tzinfo=UTC)) == "2026-02-09 19:00:00 EST"
