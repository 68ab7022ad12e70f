from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided, Refused, Using
from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Target
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.journal.audit_reading import NewestFirst, ReadingBounds
from safetyd.operators.contract.decision_contract import (
    DecisionRow,
    DecisionsAnswer,
    DecisionsQuestion,
    EventRow,
)
from safetyd.operators.views.decision_view import (
    MESSAGE_CHARS,
    ROW_CHARS,
    decisions,
    decisions_of,
    row_of,
    rows_of,
)
from safetyd.operators.views.paging import PAGE_BYTES
from tests.operators.views.view_reader import encoded, plain
from tests.story import at, play, propose, resume, stop


def happened(*story: Event) -> list[Event]:
    return play(Engine(Policy()), *story)


def kept(directory: Path, events: list[Event], max_bytes: int = 4096) -> Path:
    """Write what happened into audit files, and return where."""
    audit = Audit(directory, max_bytes)
    audit.open()
    for event in events:
        audit.append([encode(event)], event.seq)
    audit.close()
    return directory


def asked(directory: Path, **fields: Any) -> DecisionsAnswer:
    question = DecisionsQuestion(**fields)
    return decisions(NewestFirst(directory, question.before), question)


def ids(answer: DecisionsAnswer) -> list[str]:
    return [row.id if isinstance(row, DecisionRow) else row.type for row in answer.rows]


STORY = (
    propose(0, id="look", text="README.md"),
    propose(1, "ops", "wipe", "run_shell", text="rm -rf /", description="Clean up"),
    propose(2, "guest", "push", "push", keyless=True, target=Target(label="Origin")),
    stop(3),
    propose(4, id="late"),
    resume(5),
)


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return kept(tmp_path, happened(*STORY))


def test_decisions_come_newest_first(audit: Path) -> None:
    answer = asked(audit)

    assert ids(answer) == ["late", "push", "wipe", "look"]
    assert (answer.more, answer.before) == (False, None)
    assert [row.seq for row in answer.rows] == sorted((r.seq for r in answer.rows), reverse=True)


def test_a_row_says_who_wanted_what_and_why_not(audit: Path) -> None:
    row = plain(asked(audit, text="rm -rf"))["rows"][0]

    assert row.pop("seq") > 0
    assert row.pop("reason")
    assert row == {
        "row": "decision",
        "at": "2026-03-01T12:00:01Z",
        "id": "wipe",
        "agent": "ops",
        "keyless": False,
        "type": "run_shell",
        "text": "rm -rf /",
        "cut": False,
        "project": None,
        "session": None,
        "risk": "high",
        "decision": "block",
        "rule": "gate.blocklist:rm_rf",
        "cause": "policy",
        "first": True,
    }


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"agent": "ops"}, ["wipe"]),
        ({"agent": "guest"}, ["push"]),
        ({"agent": "op"}, []),
        ({"verdict": "block"}, ["late", "wipe"]),
        ({"verdict": "require_confirmation"}, ["push"]),
        ({"verdict": "allow"}, ["look"]),
        ({"rule": "stop."}, ["late"]),
        ({"rule": "gate.blocklist:rm_rf"}, ["wipe"]),
        ({"rule": "blocklist"}, []),
        ({"text": "RM -RF"}, ["wipe"]),
        ({"text": "readme"}, ["look"]),
        ({"text": "clean"}, ["wipe"]),
        ({"text": "origin"}, ["push"]),
        ({"text": "run_sh"}, ["wipe"]),
        ({"text": "drill"}, ["late"]),
        ({"since": at(2)}, ["late", "push"]),
        ({"since": at(2).astimezone(timezone(timedelta(hours=5)))}, ["late", "push"]),
        ({"agent": "ops", "verdict": "block"}, ["wipe"]),
        ({"agent": 'a"b\\'}, []),
    ],
)
def test_decisions_are_found_by(audit: Path, fields: dict[str, Any], found: list[str]) -> None:
    question = msgspec.convert(fields, DecisionsQuestion)

    assert ids(decisions(NewestFirst(audit), question)) == found


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"agent": "ops"},
        {"verdict": "block"},
        {"rule": "gate."},
        {"text": "drill"},
        {"since": at(3)},
    ],
)
@pytest.mark.parametrize("what", ["decisions", "events", "all"])
def test_events_in_memory_give_the_same_rows_as_the_files(
    audit: Path, what: str, fields: dict[str, Any]
) -> None:
    question = msgspec.convert({"what": what, **fields}, DecisionsQuestion)

    found = list(rows_of(happened(*STORY), question))

    assert tuple(reversed(found)) == decisions(NewestFirst(audit), question).rows


def test_a_fraction_of_a_second_counts(tmp_path: Path) -> None:
    kept(tmp_path, happened(propose(1.25), propose(1.75, id="p2")))

    assert ids(asked(tmp_path, since=at(1.5))) == ["p2"]


def test_pages_have_everything_once(audit: Path) -> None:
    seen, before = [], None
    while True:
        answer = asked(audit, limit=1, before=before)
        seen += ids(answer)
        before = answer.before
        if not answer.more:
            break

    assert seen == ["late", "push", "wipe", "look"]


def test_what_came_since_is_asked_for_by_the_last_number(tmp_path: Path) -> None:
    events = happened(*STORY)
    middle = next(n for n, event in enumerate(events) if isinstance(event, Decided)) + 1
    kept(tmp_path, events[:middle])
    newest = asked(tmp_path).newest
    kept(tmp_path, events[middle:])

    answer = asked(tmp_path, after=newest)

    assert newest == events[middle - 1].seq
    assert ids(answer) == ["late", "push", "wipe"]
    assert ids(asked(tmp_path, after=answer.newest)) == []


@pytest.mark.parametrize(
    ("fields", "left_out"),
    [
        ({"limit": 1}, 3),
        ({"limit": 3}, 1),
        ({"limit": 4}, UNSET),
        ({"limit": 1, "verdict": "block"}, 1),
        ({"limit": 1, "since": at(2)}, 1),
        ({"limit": 1, "count": False}, UNSET),
    ],
)
def test_rows_in_memory_that_have_no_room_are_counted(
    fields: dict[str, Any], left_out: int | UnsetType
) -> None:
    question = msgspec.convert({"count": True, **fields}, DecisionsQuestion)

    answer = decisions_of(happened(*STORY)[::-1], 0, question)

    assert answer is not None
    assert answer.left_out == left_out


def test_rows_that_somebody_has_are_not_counted() -> None:
    events = happened(*STORY)
    looked = next(event.seq for event in events if isinstance(event, Decided))
    question = DecisionsQuestion(limit=1, count=True, after=looked)

    answer = decisions_of(events[::-1], 0, question)

    assert answer is not None
    assert (ids(answer), answer.left_out) == (["late"], 2)


def test_rows_that_only_the_files_have_are_not_counted(audit: Path) -> None:
    events = happened(*STORY)
    question = DecisionsQuestion(limit=1, count=True)

    answer = decisions_of(events[:2:-1], events[2].seq, question)

    assert answer is not None
    assert (answer.more, answer.left_out) == (True, UNSET)
    assert asked(audit, limit=1, count=True).left_out is UNSET


def test_a_search_that_met_a_bound_says_where_to_go_on(
    audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.audit_reading.BLOCK_BYTES", 200)
    question = DecisionsQuestion(text="README")

    nothing = decisions(NewestFirst(audit, bounds=ReadingBounds(lines=1)), question)

    assert (nothing.rows, nothing.more) == ((), True)
    assert ids(asked(audit, text="README", before=nothing.before)) == ["look"]


def test_an_answer_fits_into_a_message(tmp_path: Path) -> None:
    text = "\x00" * ROW_CHARS  # six characters each in JSON
    story = (propose(n, id=f"p{n}", text=text) for n in range(300))
    kept(tmp_path, happened(*story), 1024 * 1024)

    answer = asked(tmp_path, limit=300)

    assert len(encoded(answer)) < PAGE_BYTES + 1000
    assert answer.more
    assert asked(tmp_path, before=answer.before).rows[0].seq < answer.rows[-1].seq


def test_events_tell_what_happened_besides(audit: Path) -> None:
    answer = asked(audit, what="events")

    assert ids(answer)[0] == "EMERGENCY_RESUME"
    assert {"EMERGENCY_STOP", "ACTION_BLOCKED", "PERMISSION_REQUESTED"} <= {*ids(answer)}


def test_all_is_both_in_order_without_events_that_repeat_decisions(audit: Path) -> None:
    answer = asked(audit, what="all")

    assert ids(answer) == [
        "EMERGENCY_RESUME",
        "late",
        "EMERGENCY_STOP",
        "push",
        "wipe",
        "look",
    ]


def test_what_was_refused_without_a_decision_is_among_all(tmp_path: Path) -> None:
    refused = Refused(at=at(1), t=1.0, agent="code", cause="rate_limit", count=7, example="slow")
    kept(tmp_path, happened(refused))

    (row,) = asked(tmp_path, what="all").rows

    assert isinstance(row, EventRow)
    assert (row.type, row.rule, row.count) == ("RATE_LIMIT_BLOCK", "intake.rate_limit", 7)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"text": "emergency_stop"}, ["EMERGENCY_STOP"]),
        ({"text": "drill"}, ["ACTION_BLOCKED", "EMERGENCY_STOP"]),
        ({"rule": "gate.blocklist"}, ["ACTION_BLOCKED"]),
        ({"agent": "guest", "rule": "classify"}, ["PERMISSION_REQUESTED"]),
        ({"verdict": "block"}, []),
    ],
)
def test_events_are_found_by(audit: Path, fields: dict[str, Any], found: list[str]) -> None:
    question = msgspec.convert({"what": "events", **fields}, DecisionsQuestion)

    assert ids(decisions(NewestFirst(audit), question)) == found


def test_an_event_says_who_did_it_and_how_much_it_matters() -> None:
    _, told = happened(stop(1, agent="code"))

    assert row_of(told) == EventRow(
        seq=2,
        at=at(1),
        type="EMERGENCY_STOP",
        agent="code",
        severity="critical",
        message="alice stopped code: drill",
        by="alice",
    )


def test_an_anomaly_is_as_severe_as_it_says_and_an_answer_says_whose_it_is() -> None:
    def told(kind: str, reason: str, **facts: str) -> EventRow:
        row = row_of(
            SafetyEvent(
                at=at(1),
                t=1.0,
                id="x",
                timestamp=at(1),
                event_type=kind,
                reason=reason,
                metadata=dict(facts),
            )
        )
        assert isinstance(row, EventRow)
        return row

    assert told("ANOMALY_DETECTED", "often", severity="high").severity == "high"
    assert told("SOMETHING_NEW", "why").severity == "low"
    facts = {"request_id": "req_1", "decision": "approved", "by": "alice", "via": "cli"}
    answered = told("PERMISSION_DECIDED", "fine", **facts)
    assert answered.message == "request req_1 approved by alice via cli: fine"


def test_what_a_person_approved_names_the_request_and_the_person() -> None:
    (decided,) = happened(propose(1))
    assert isinstance(decided, Decided)
    decided.uses = Using(request_id="req_1", by="alice", until=at(9), words="go on")

    row = row_of(decided)

    assert isinstance(row, DecisionRow)
    assert (row.cause, row.request_id) == ("human_approved", "req_1")
    assert (row.rule, row.reason) == ("", "approved by alice: go on")


def test_what_a_grant_permitted_names_the_grant() -> None:
    (decided,) = happened(propose(1))
    assert isinstance(decided, Decided)
    decided.grants = ("grant_1", "grant_2")

    row = row_of(decided)

    assert row is not None
    assert msgspec.to_builtins(row)["reason"] == "granted by grant_1 and grant_2"


@pytest.mark.parametrize(
    ("fields", "text", "cut"),
    [
        ({"text": "x" * (ROW_CHARS + 1)}, "x" * ROW_CHARS, True),
        ({"text": "x" * ROW_CHARS}, "x" * ROW_CHARS, False),
        ({"description": "Look"}, "Look", False),
        ({"target": {"url": "https://x"}}, "https://x", False),
        ({"paths": ["a.py", "b.py"]}, "a.py", False),
        ({}, "", False),
    ],
)
def test_a_row_has_the_best_words_there_are(
    fields: dict[str, Any], text: str, *, cut: bool
) -> None:
    proposed = propose(1, **fields)
    proposal = msgspec.convert({"type": "read_file", "id": "p1", **fields}, type(proposed.proposal))
    proposed.proposal = proposal

    row = row_of(happened(proposed)[0])

    assert isinstance(row, DecisionRow)
    assert (row.text, row.cut) == (text, cut)


def test_long_reasons_are_cut_and_other_events_have_no_row() -> None:
    stopped, told = happened(stop(1))
    assert isinstance(told, SafetyEvent)
    told.reason = "x" * 1000

    row = row_of(told)

    assert row_of(stopped) is None
    assert isinstance(row, EventRow)
    assert len(row.message) == MESSAGE_CHARS
    assert isinstance(row.at, datetime)
