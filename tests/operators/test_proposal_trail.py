import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.decision_events import Asking, Decided, Using, Withheld
from safetyd.core.events.event import Event
from safetyd.core.events.history_events import CommitFailed, Committed
from safetyd.core.events.notification_events import Due, Item, NotTold, Told
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Deferred,
    Expired,
    GrantUsed,
    Lapsed,
    Released,
    Superseded,
)
from safetyd.core.messages.telemetry import Heartbeat
from safetyd.core.messages.verdict import Severity, Verdict
from safetyd.core.policy import Policy
from safetyd.journal.audit import NO_HASH, Audit
from safetyd.journal.audit_reading import PlacedLine, Rests, placed_lines
from safetyd.operators.proposal_trail import STEP_CHARS, Trail
from tests.story import at, outcome, play, propose, report

BIG = 1024 * 1024
LATER: dict[str, Any] = {"at": at(9), "t": 9.0}
ABOUT: dict[str, Any] = {**LATER, "request_id": "req_1"}
OF: dict[str, Any] = {**ABOUT, "agent": "code", "id": "p1"}


def decided(id_: str = "p1", **fields: object) -> Decided:
    (event,) = play(Engine(Policy()), propose(0, id=id_))
    assert isinstance(event, Decided)
    for name, value in fields.items():
        setattr(event, name, value)
    return event


def asking(id_: str = "p1", request_id: str = "req_1", **more: Any) -> Decided:
    asks = Asking(request_id=request_id, action=b"x", **more)
    return decided(id_, asks=asks, decision=Severity.ASK)


def numbered(*events: Event) -> list[Event]:
    for seq, event in enumerate(events, 1):
        event.seq = seq
    return list(events)


def trail(*events: Event, name: str = "p1", max_bytes: int = BIG) -> Trail:
    lines = [PlacedLine(encode(event)) for event in numbered(*events)]
    return Trail(name, max_bytes).follow(lines)


def steps(*events: Event, name: str = "p1") -> list[tuple[str, ...]]:
    """Return the steps, each as what it says besides its time."""
    found = trail(*events, name=name).steps()
    return [tuple(filter(None, (s.what, s.by, s.via, s.ref, s.text))) for s in found]


def test_a_plain_proposal_is_proposed_decided_and_done() -> None:
    assert steps(decided(), outcome(3), outcome(4, ok=False)) == [
        ("proposed", "code"),
        ("decided", "allow"),
        ("outcome", "code", "done"),
        ("outcome", "code", "failed"),
    ]


def test_the_time_of_the_proposal_is_the_agents_if_it_says_one() -> None:
    event = decided()
    event.proposal = msgspec.structs.replace(event.proposal, at=at(-5))

    first, second = trail(event).steps()

    assert second.at - first.at == timedelta(seconds=5)


@pytest.mark.req("S1.38")
@pytest.mark.req("S1.39")
def test_the_way_of_a_request_is_told_from_asking_to_the_outcome() -> None:
    due = Due(
        **LATER,
        delivery="msg_1",
        recipient="bob",
        channel="email",
        urgency="normal",
        items=(Item("request", "req_0"), Item("request", "req_1")),
    )

    assert steps(
        decided("p0", asks=Asking(request_id="req_0", action=b"y")),
        asking(),
        due,
        Told(**LATER, delivery="msg_0", channel="email", state="accepted"),
        Told(**LATER, delivery="msg_1", channel="email", state="accepted"),
        NotTold(**LATER, delivery="msg_1", channel="email", state="undelivered", error="no box"),
        Deferred(**ABOUT, by="carol", until=at(60)),
        Answered(**OF, answer="approved", by="alice", via="cli", words="fine"),
        Released(**OF),
        Claimed(**OF, claimant="here"),
        decided("p2", uses=Using(request_id="req_1", by="alice", until=at(99))),
        outcome(20),
        outcome(21, "p0"),
    ) == [
        ("proposed", "code"),
        ("decided", "require_confirmation"),
        ("asked", "req_1", "normal"),
        ("told", "bob", "email", "accepted"),
        ("not_told", "bob", "email", "no box"),
        ("deferred", "carol", at(60).isoformat()),
        ("answered", "alice", "cli", "approved: fine"),
        ("claimed", "here"),
        ("used", "code", "p2"),
        ("outcome", "code", "done"),
    ]


HELD = Verdict("stop", Severity.BLOCK, "stop.operator", "stopped")


@pytest.mark.parametrize(
    ("end", "step"),
    [
        (Released(**OF, verdicts=(HELD,)), ("held_back", "stop.operator")),
        (Cancelled(**ABOUT, by="al", via="cli", reason="old"), ("cancelled", "al", "cli", "old")),
        (Superseded(**ABOUT, agent="code", by_id="p9"), ("superseded", "code", "p9")),
        (Expired(**LATER, request_ids=("req_0", "req_1")), ("expired",)),
        (Lapsed(**LATER, request_ids=("req_1",)), ("lapsed",)),
        (
            GrantUsed(**LATER, grant="grant_1", agent="code", id="p1", left=2),
            ("granted", "grant_1"),
        ),
        (Withheld(**LATER, agent="code", id="p1", why="late"), ("withheld", "late")),
    ],
)
def test_every_end_is_a_step(end: Event, step: tuple[str, ...]) -> None:
    assert steps(asking(), end)[-1] == step


def test_ends_of_other_requests_are_no_steps() -> None:
    others = (
        Expired(**LATER, request_ids=("req_10",)),
        Claimed(**{**OF, "request_id": "x"}, claimant="p1"),
    )

    assert len(steps(asking(), *others)) == 3


def test_a_use_names_who_approved_it() -> None:
    used = decided(uses=Using(request_id="req_1", by="alice", until=at(9), words="fine"))

    assert steps(used)[-1] == ("used", "alice", "req_1", "fine")


def test_a_request_that_is_asked_again_was_asked_once() -> None:
    again = asking(joins=True)
    again.first = False

    assert [step[0] for step in steps(asking(), again)] == [
        "proposed",
        "decided",
        "asked",
        "decided",
    ]


def test_a_proposal_is_found_by_its_request() -> None:
    found = trail(decided("p0"), asking(), asking("p3", joins=True), outcome(4), name="req_1")

    assert found.id == "p1"
    assert [event.id for event in found.decided] == ["p1"]
    assert [step.what for step in found.steps()] == ["proposed", "decided", "asked", "outcome"]


@pytest.mark.parametrize("name", ["y", "z", "code", "nowhere"])
def test_a_line_that_only_mentions_a_name_does_not_tell_of_it(name: str) -> None:
    (event,) = play(Engine(Policy()), propose(0, id="x", session="y", context={"id": "z"}))

    assert trail(event, name=name).decided == []


def test_other_telemetry_is_no_part_of_it() -> None:
    assert trail(decided("x"), report(0, Heartbeat(), "x"), name="x").events == []


@pytest.mark.parametrize("line", [b'{"event":"opened","file":"p1"}', b'{"id":"p1"', b'"p1"\xff'])
def test_lines_that_are_no_events_tell_nothing(line: bytes) -> None:
    found = Trail("p1", BIG).follow(
        [PlacedLine(line), PlacedLine(encode(decided())), PlacedLine(line)]
    )

    assert len(found.decided) == 1


def test_first_decisions_and_the_newest_repeats_are_kept_of_too_many() -> None:
    first, *repeats = (decided() for _ in range(100))
    for event in repeats:
        event.first = False
    size = len(encode(numbered(*repeats)[-1]))

    found = trail(first, *repeats, max_bytes=4 * size)

    assert [event.seq for event in found.decided] == [1, 98, 99, 100]
    assert found.places.keys() == {1, 98, 99, 100}


def test_what_came_of_it_has_its_bound_too() -> None:
    lines = [decided(), *(outcome(n) for n in range(1000))]

    found = trail(*lines, max_bytes=40_000)

    assert 10 < len(found.events) < 100


def test_words_in_a_step_are_cut() -> None:
    answered = Answered(**OF, answer="denied", by="alice", via="cli", words="x" * 1000)

    assert len(trail(asking(), answered).steps()[-1].text) == STEP_CHARS


def test_a_decision_says_where_it_stands_in_the_chain(tmp_path: Path) -> None:
    audit = Audit(tmp_path, 500)
    audit.open()
    events = numbered(decided("p0"), decided(), decided("p2"))
    for event in events:
        audit.append([encode(event)], event.seq)
    audit.close()

    found = [Trail(f"p{n}", BIG).follow(placed_lines(tmp_path, Rests(0.0))) for n in range(3)]

    places = [each.places[n] for n, each in enumerate(found, 1)]
    assert [(place.file, place.line) for place in places] == [
        ("audit-00000001.jsonl", 2),
        ("audit-00000002.jsonl", 2),
        ("audit-00000003.jsonl", 2),
    ]
    assert places[0].previous == NO_HASH.decode()
    assert [place.previous for place in places[1:]] == [place.hash for place in places[:2]]
    last = hashlib.sha256(places[1].hash.encode() + encode(events[2])).hexdigest()
    assert places[2].hash == last


def test_what_came_of_it_is_committed_or_not() -> None:
    about: dict[str, Any] = {**LATER, "project": "shop", "agent": "code"}
    made = Committed(commit="4f2a", why="after", id="p1", files=1, added=2, **about)
    nothing = Committed(commit="", why="after", id="p1", **about)
    shared = Committed(commit="", why="after", id="p1", within="5c3b", **about)
    other = Committed(commit="77ab", why="after", id="p2", **about)
    failed = CommitFailed(id="p1", error="the folder is gone", **about)

    steps = trail(decided(), made, nothing, shared, other, failed).steps()

    told = [(step.what, step.via, step.ref, step.text) for step in steps[2:]]
    assert told == [
        ("committed", "shop", "4f2a", "1 file after it, +2 -0"),
        ("committed", "shop", "5c3b", "possibly part of a commit with other changes"),
        ("not_committed", "shop", "", "the folder is gone"),
    ]


def test_a_commit_before_it_is_told_apart_from_what_it_changed() -> None:
    about: dict[str, Any] = {**LATER, "project": "shop", "agent": "code", "id": "p1"}
    before = Committed(commit="4f2a", why="before", files=2, **about)
    after = Committed(commit="77ab", why="after", files=1, added=1, **about)

    assert steps(decided(), before, after)[2:] == [
        ("committed_before", "shop", "4f2a", "2 files before it, +0 -0"),
        ("committed", "shop", "77ab", "1 file after it, +1 -0"),
    ]


def test_what_came_of_another_proposal_that_used_the_approval_is_told() -> None:
    about: dict[str, Any] = {**LATER, "project": "shop", "commit": "4f2a", "why": "after"}
    using = decided("p2", uses=Using(request_id="req_1", by="alice", until=at(99)))
    made = Committed(agent="code", id="p2", files=1, **about)
    other = Committed(agent="other", id="p2", files=9, **about)

    told = steps(asking(), using, outcome(3, id="p2"), made, other, name="req_1")

    assert told[-3:] == [
        ("used", "code", "p2"),
        ("outcome", "code", "done"),
        ("committed", "shop", "4f2a", "1 file after it, +0 -0"),
    ]
