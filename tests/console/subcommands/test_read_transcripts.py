import json
from pathlib import Path

import msgspec
import pytest

from safetyd.client import SyncSafety
from safetyd.journal.transcript_files import DIRECTORY, names
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import Said, here, told
from tests.core.reporting.test_session_summary import CYCLE
from tests.journeys.agents import until


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / DIRECTORY
    directory.mkdir()
    return directory


def write(directory: Path, name: str, **changes: object) -> None:
    transcript = msgspec.structs.asdict(msgspec.structs.replace(CYCLE, **changes))
    (directory / f"{name}.json").write_bytes(msgspec.json.encode({**transcript, "seq": 1}))


def transcripts(directory: Path, *arguments: str) -> Said:
    return here("transcripts", *arguments, SAFETYD_DATA_DIR=str(directory.parent))


@pytest.mark.req("S3.44")
def test_transcripts_are_listed_the_newest_first(directory: Path) -> None:
    for name in ("2026-03-01-120000", "2026-03-01-120000-2", "2026-02-01-120000"):
        write(directory, name)

    said = transcripts(directory, "--limit", "2")

    heading, *rows = said.stdout.splitlines()
    assert heading.startswith("NAME                 AGENT  SESSION  TOOK    ENDED ")
    assert [row.split()[0] for row in rows] == ["2026-03-01-120000-2", "2026-03-01-120000"]
    assert rows[0].endswith("code   s-1      4m 56s  2026-03-01 12:04:56Z  21       2")


def test_a_list_for_programs_has_everything(directory: Path) -> None:
    write(directory, "2026-03-01-120000")

    (row,) = json.loads(transcripts(directory, "--json").stdout)["transcripts"]

    assert row["name"] == "2026-03-01-120000"
    assert row["actions"][0]["description"] == "Merged 2 duplicate memories"


def test_without_a_session_that_is_over_there_is_nothing_to_list(tmp_path: Path) -> None:
    said = transcripts(tmp_path / DIRECTORY)

    assert (said.returncode, said.stdout) == (0, "No session has ended yet.\n")


@pytest.mark.req("S3.44")
@pytest.mark.parametrize("name", ["", "2026-03-01-120000", "2026-03-01-120000.json"])
def test_one_transcript_is_shown_as_a_summary(directory: Path, name: str) -> None:
    write(directory, "2026-03-01-120000")

    said = transcripts(directory, "show", *filter(None, [name]))

    assert said.stdout.startswith("Session s-1 of code completed (4m 56s)\n\nDone:\n")
    assert "[safetyd approve req_abc123 | safetyd deny req_abc123]" in said.stdout


@pytest.mark.parametrize("arguments", [("show", "--json"), ("--json", "show")])
def test_one_transcript_is_shown_to_programs(
    directory: Path, arguments: tuple[str, str], tmp_path: Path
) -> None:
    write(directory, "2026-03-01-120000")

    said = transcripts(directory, *arguments, "--data-dir", str(tmp_path))

    assert json.loads(said.stdout)["session_id"] == "s-1"


def test_words_of_agents_cannot_move_the_cursor(directory: Path) -> None:
    write(directory, "2026-03-01-120000", session_id="\x1b[2J", scheduled_next="\x1b[2J")

    said = [transcripts(directory, *command) for command in ((), ("show",), ("show", "--json"))]

    assert all("\\x1b[2J" in shown.stdout for shown in said[:2])
    assert not any("\x1b" in shown.stdout for shown in said)


@pytest.mark.parametrize("name", ["2026-03-01-120001", "../keys/operator", ""])
def test_a_transcript_that_is_not_there_is_a_failure(directory: Path, name: str) -> None:
    said = transcripts(directory, "show", *filter(None, [name]))

    assert said.returncode == 1
    assert "no transcript" in said.stderr
    assert f"in {directory}" in said.stderr


def test_a_file_that_is_no_transcript_is_a_failure(directory: Path) -> None:
    (directory / "2026-03-01-120000.json").write_text("{}")

    said = transcripts(directory, "show")

    assert said.returncode == 1
    assert "2026-03-01-120000.json: " in said.stderr


@pytest.mark.req("S3.39", "S3.41", "S3.44")
def test_a_session_of_a_running_daemon_becomes_a_transcript(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    work(daemon)

    until(lambda: names(daemon.data_dir / DIRECTORY))

    shown = told(daemon, "transcripts", "show")
    assert shown.stdout.startswith("Session s-1 of code completed (")
    assert "\n- Read the notes\n" in shown.stdout
    assert "\nNeeds your review:\n- Push the fix [safetyd approve req_" in shown.stdout
    transcript = json.loads(told(daemon, "transcripts", "show", "--json").stdout)
    assert (transcript["provider"], transcript["model"]) == ("openai", "gpt-5.2")
    assert transcript["token_usage"] == {"input": 1200, "output": 300}
    assert transcript["pending_permissions"] == 1


def test_a_daemon_that_was_killed_writes_the_transcript_at_its_next_start(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon()
    work(daemon)
    directory = daemon.data_dir / DIRECTORY
    until(lambda: names(directory))
    daemon.kill()
    (lost,) = directory.glob("*.json")
    lost.unlink()
    (directory / ".written").unlink(missing_ok=True)

    daemon.start()

    until(lambda: names(directory) == [lost.stem])


def work(daemon: RunningDaemon) -> None:
    """Do something, ask for something, and end the session."""
    with SyncSafety("code", url=daemon.endpoint.bus) as safety:
        assert safety.session_started("s-1", provider="openai", model="gpt-5.2")
        read = safety.propose("read_file", description="Read the notes", session="s-1")
        assert read.allowed
        assert safety.report(read.id, ok=True, tokens={"input": 1200, "output": 300})
        asked = safety.propose("push", text="git push", description="Push the fix", session="s-1")
        assert asked.request_id
        assert safety.session_ended("s-1", scheduled_next="2026-03-01T12:40:00Z")
