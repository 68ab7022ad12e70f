"""Transcripts become files, each once, whatever happened in between."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest

from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Transcribed
from safetyd.core.events.event import Event
from safetyd.journal import transcript_files as module
from safetyd.journal.audit import Audit
from safetyd.journal.transcript_files import TranscriptFiles, names, read, told_since
from tests.core.reporting.test_session_summary import CYCLE
from tests.journeys.agents import until
from tests.story import at


def told(seq: int, session: str = "s", start: float = 0) -> Transcribed:
    transcript = msgspec.structs.replace(CYCLE, session_id=session, started_at=at(start))
    return Transcribed(seq=seq, at=at(seq), t=float(seq), transcript=transcript)


def stepped(seq: int) -> ClockStepped:
    return ClockStepped(seq=seq, at=at(seq), t=float(seq), seconds=9.0)


def mirror(data_dir: Path, *events: Event, max_bytes: int = 1 << 20) -> None:
    """Write events to audit files, as the daemon does before anybody is told."""
    audit = Audit(data_dir / "audit", max_bytes)
    audit.open()
    for event in events:
        audit.append([encode(event)], event.seq)
    audit.close()


def written(files: TranscriptFiles, directory: Path, count: int) -> list[str]:
    """Return what there is once so many files are there."""
    anyio.run(_run_until, files, lambda: len(names(directory)) >= count)
    return names(directory)


async def _run_until(files: TranscriptFiles, *claims: Callable[[], object]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(files.run)
        for claim in claims:
            await anyio.to_thread.run_sync(until, claim)
        tasks.cancel_scope.cancel()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "transcripts"


@pytest.mark.req("S3.41")
def test_a_transcript_is_a_file_named_after_the_start(tmp_path: Path, directory: Path) -> None:
    files = TranscriptFiles(tmp_path)
    files.observe([stepped(6), told(7)])

    assert written(files, directory, 1) == ["2026-03-01-120000"]

    path = directory / "2026-03-01-120000.json"
    said = json.loads(path.read_text())
    assert (said["session_id"], said["seq"]) == ("s", 7)
    assert said["started_at"] == "2026-03-01T12:00:00Z"
    assert said["token_usage"] == {"input": 12400, "output": 3200}
    assert said["actions"][-1] == {
        "type": "permission_request",
        "description": "Create PR for auth test fixes",
        "tier": "requires_permission",
        "status": "pending",
        "action": "create_pull_request",
        "request_id": "req_abc123",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_sessions_that_began_together_are_numbered(tmp_path: Path, directory: Path) -> None:
    files = TranscriptFiles(tmp_path)
    files.observe([told(seq, f"s{seq}") for seq in range(1, 12)])

    found = written(files, directory, 11)

    start = "2026-03-01-120000"
    assert found == [start, *(f"{start}-{number}" for number in range(2, 12))]
    assert [read(directory, name).session_id for name in found] == [f"s{n}" for n in range(1, 12)]


def test_a_file_of_somebody_else_stays_as_it_is(tmp_path: Path, directory: Path) -> None:
    directory.mkdir()
    (directory / "2026-03-01-120000.json").write_text("mine")
    (directory / "notes.json").write_text("mine too")
    files = TranscriptFiles(tmp_path)
    files.observe([told(1)])

    assert written(files, directory, 2) == ["2026-03-01-120000", "2026-03-01-120000-2"]
    assert (directory / "2026-03-01-120000.json").read_text() == "mine"


def test_a_start_writes_what_the_end_before_it_did_not(tmp_path: Path, directory: Path) -> None:
    mirror(tmp_path, told(1, start=1), stepped(2), told(3, start=3))

    assert written(TranscriptFiles(tmp_path), directory, 2) == [
        "2026-03-01-120001",
        "2026-03-01-120003",
    ]


def test_nothing_is_written_twice(tmp_path: Path, directory: Path) -> None:
    mirror(tmp_path, told(1, start=1), told(2, start=2))
    written(TranscriptFiles(tmp_path), directory, 2)
    (directory / ".written").write_text("1\n")  # as a crash after the last file leaves it
    again = TranscriptFiles(tmp_path)
    again.observe([told(1, start=1), told(2, start=2), told(3, start=3)])

    found = written(again, directory, 3)

    assert found == ["2026-03-01-120001", "2026-03-01-120002", "2026-03-01-120003"]


def test_more_than_can_wait_are_read_from_the_audit_files(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    events = [told(seq, start=seq) for seq in range(1, 4)]
    mirror(tmp_path, *events)
    files = TranscriptFiles(tmp_path)
    files.observe(events)

    assert len(written(files, directory, 3)) == 3


def test_what_could_not_be_written_is_written_later(
    tmp_path: Path,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.01)
    mirror(tmp_path, told(1))
    directory.write_text("in the way")
    files = TranscriptFiles(tmp_path)

    def made_room() -> bool:
        if "cannot write" not in caplog.text:
            return False
        directory.unlink()
        return True

    anyio.run(_run_until, files, made_room, lambda: names(directory))

    assert names(directory) == ["2026-03-01-120000"]


def test_only_audit_files_that_go_on_after_an_event_are_read(tmp_path: Path) -> None:
    mirror(tmp_path, *(told(seq) for seq in range(1, 13)), max_bytes=4096)
    audit = tmp_path / "audit"
    paths = sorted(audit.iterdir())
    assert len(paths) > 2

    paths[0].unlink()
    paths[0].mkdir()  # whoever opened it would fail

    assert [event.seq for event in told_since(audit, 10)] == [11, 12]
    assert [event.seq for event in told_since(audit, 12)] == []


def test_damaged_audit_lines_tell_nothing(tmp_path: Path) -> None:
    mirror(tmp_path, *(told(seq) for seq in range(1, 13)), max_bytes=4096)
    audit = tmp_path / "audit"
    *_, last = sorted(audit.iterdir())
    opening, _, rest = last.read_bytes().partition(b"\n")
    spoilt = b'{"event":"transcribed","seq":\xff}\n{"event":"transcribed","seq":7,"at'
    last.write_bytes(opening[:-9] + b"\n" + rest + spoilt)

    assert [event.seq for event in told_since(audit, 0)] == list(range(1, 13))
