from pathlib import Path

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit, files
from safetyd.journal.audit_reading import (
    NewestFirst,
    ReadingBounds,
    is_before,
    lines_after,
    newest_events,
    safety_events_after,
    second_of,
    seq_of,
    time_on,
)
from tests.story import at, outcome, play, propose, resume, stop

SMALL = 4096


def line(seq: int, **more: object) -> bytes:
    return msgspec.json.encode({"event": "test", "seq": seq, **more})


def written(directory: Path, count: int, max_bytes: int = SMALL, **more: object) -> Path:
    """Write so many records, one at a time, and return the directory."""
    audit = Audit(directory, max_bytes)
    audit.open()
    for seq in range(audit.seq + 1, audit.seq + 1 + count):
        audit.append([line(seq, **more)], seq)
    audit.close()
    return directory


def kept(directory: Path, events: list[Event]) -> Path:
    audit = Audit(directory, SMALL)
    audit.open()
    for event in events:
        audit.append([encode(event)], event.seq)
    audit.close()
    return directory


@pytest.mark.parametrize("block_bytes", [7, 100, 1000, 1024 * 1024])
def test_lines_come_newest_first_over_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr("safetyd.journal.audit_reading.BLOCK_BYTES", block_bytes)
    written(tmp_path, 100)

    lines = NewestFirst(tmp_path)

    assert [seq_of(found) for found in lines] == list(range(100, 0, -1))
    assert lines.ended
    assert len(files(tmp_path)) > 2


@pytest.mark.parametrize("before", [1, 2, 37, 100, 101, 1000])
def test_reading_goes_on_where_it_was_left(tmp_path: Path, before: int) -> None:
    written(tmp_path, 100)

    found = [seq_of(found) for found in NewestFirst(tmp_path, before)]

    assert found == list(range(min(before - 1, 100), 0, -1))


@pytest.mark.parametrize("torn", [b"{", b'{"event":"test","seq":6,"hash":"', b"x" * 3000])
def test_a_line_that_is_being_written_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bytes
) -> None:
    monkeypatch.setattr("safetyd.journal.audit_reading.BLOCK_BYTES", 64)
    written(tmp_path, 5)
    with files(tmp_path)[-1].open("ab") as file:
        file.write(torn)

    assert [seq_of(found) for found in NewestFirst(tmp_path)] == [5, 4, 3, 2, 1]
    assert [seq_of(found) for found in NewestFirst(tmp_path, 4)] == [3, 2, 1]
    assert [seq_of(found) for found in lines_after(tmp_path, 3)] == [4, 5]


def test_there_is_nothing_to_read_where_nothing_was_written(tmp_path: Path) -> None:
    lines = NewestFirst(tmp_path)

    assert list(lines) == []
    assert lines.ended
    assert list(lines_after(tmp_path, 0)) == []


@pytest.mark.parametrize(
    "bounds", [ReadingBounds(max_bytes=1), ReadingBounds(lines=1), ReadingBounds(seconds=0.0)]
)
def test_reading_ends_at_each_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: ReadingBounds
) -> None:
    monkeypatch.setattr("safetyd.journal.audit_reading.BLOCK_BYTES", 500)
    written(tmp_path, 100)
    lines = NewestFirst(tmp_path, bounds=bounds)

    found = [seq_of(found) for found in lines]

    assert found[0] == 100
    assert len(found) < 100
    assert not lines.ended


@pytest.mark.parametrize("seq", [0, 1, 36, 99, 100, 500])
def test_lines_after_an_event_are_those_and_no_others(tmp_path: Path, seq: int) -> None:
    written(tmp_path, 100)

    assert [seq_of(found) for found in lines_after(tmp_path, seq)] == list(range(seq + 1, 101))


@pytest.mark.req("S1.26")
@pytest.mark.req("S1.38")
def test_what_people_were_told_is_told_again_from_any_event_on(tmp_path: Path) -> None:
    story = [event for n in range(20) for event in (stop(n, epoch=n), resume(n), propose(n))]
    events = play(Engine(Policy()), *story)
    told = [event for event in events if isinstance(event, SafetyEvent)]
    kept(tmp_path, events)

    for seq in (0, told[3].seq, told[3].seq + 1, events[-1].seq):
        later = list(safety_events_after(tmp_path, seq))
        assert later == [event for event in told if event.seq > seq]
    between = list(safety_events_after(tmp_path, told[3].seq, told[6].seq))
    assert between == told[4:7]


def test_the_newest_decisions_and_events_come_oldest_first(tmp_path: Path) -> None:
    story = [event for n in range(9) for event in (propose(n, id=f"p{n}"), outcome(n, f"p{n}"))]
    events = play(Engine(Policy()), *story)
    kept(tmp_path, events)
    wanted = [event for event in events if isinstance(event, Decided | SafetyEvent)]

    some, after = newest_events(tmp_path, 4, events[-1].seq + 1)
    every, start = newest_events(tmp_path, 100, events[-1].seq + 1)
    earlier, _ = newest_events(tmp_path, 100, some[0].seq)
    bounded, place = newest_events(tmp_path, 100, 10**6, ReadingBounds(seconds=0.0))

    assert (some, every) == (wanted[-4:], wanted)
    assert (after, start) == (some[0].seq - 1, 0)
    assert earlier + some == every
    assert bounded == [event for event in wanted if event.seq > place]


@pytest.mark.parametrize("t", [10, 10.25])
def test_a_line_of_an_earlier_second_is_before_a_time(t: float) -> None:
    (event,) = play(Engine(Policy()), propose(t))
    line = encode(event)

    assert time_on(line) == at(t)
    assert is_before(line, second_of(at(11)))
    assert not is_before(line, second_of(at(10)))
    assert not is_before(line, second_of(at(10.9)))
    assert not is_before(b"{}", second_of(at(11)))
    assert time_on(b"{}") is None
