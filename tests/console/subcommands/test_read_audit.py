import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.journal.audit import Audit
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.console.console_rig import here, told
from tests.story import at


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon()
    proposal = {"id": "p-1", "type": "run_shell", "text": "rm -rf / \x1b[2J"}
    told(daemon, "propose", "code", stdin=json.dumps(proposal))
    return daemon


def test_verify_counts_records_and_files(daemon):
    said = daemon.safetyd("audit", "verify")
    found = json.loads(told(daemon, "audit", "verify", "--json").stdout)

    assert said.returncode == 0
    assert f"{found['records']} records in 1 file.\n  last seq" in said.stdout
    assert f"last seq   {found['last_seq']}\n" in said.stdout


def test_tail_shows_records_harmlessly(daemon):
    said = told(daemon, "audit", "tail")

    rules = "classify.high, gate.blocklist:rm_rf"
    assert f"code run_shell p-1 -> block [{rules}]: rm -rf / \\x1b[2J" in said.stdout
    assert "\x1b" not in said.stdout


def test_tail_gives_as_many_as_asked_for(daemon):
    said = told(daemon, "audit", "tail", "-n", "2", "--json")

    records = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(records) == 2
    assert records[0]["seq"] + 1 == records[1]["seq"]


def test_following_goes_on_into_the_next_file(start_daemon: StartDaemon):
    daemon = start_daemon("[audit]\nmax_bytes = 4096\n")
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "audit", "tail", "-f", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir)),
    ) as process:
        for number in range(4):
            proposal = {"type": "read_file", "id": f"p-{number}", "description": "x" * 3000}
            told(daemon, "propose", "code", stdin=json.dumps(proposal))
        assert process.stdout is not None
        seqs = []
        for line in process.stdout:
            record = json.loads(line)
            seqs += [record["seq"]] if "seq" in record else []
            if record.get("proposal", {}).get("id") == "p-3":
                break
        os.kill(process.pid, signal.SIGINT)
        process.wait(20)

    assert len(list((daemon.data_dir / "audit").glob("*.jsonl"))) > 1
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert process.returncode == 0


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Audit]:
    audit = Audit(tmp_path / "audit", 4096)
    audit.open()
    yield audit
    audit.close()


def append(audit: Audit, *seqs: int) -> None:
    events = (ClockStepped(seq=seq, at=at(seq), t=float(seq), seconds=9.0) for seq in seqs)
    audit.append([encode(event) for event in events], seqs[-1])


def test_a_changed_line_is_found_without_a_daemon_and_what_to_do_is_said(audit, tmp_path):
    append(audit, 1, 2, 3)
    path = tmp_path / "audit/audit-00000001.jsonl"
    path.write_text(path.read_text().replace('"t":2.0,"seconds":9', '"t":2.0,"seconds":8'))

    said = here("audit", "verify", "--json", "--data-dir", str(tmp_path))

    answer = json.loads(said.stdout)
    assert said.returncode == 1
    assert answer["code"] == "broken"
    assert "audit-00000001.jsonl:3: its hash does not fit" in answer["error"]
    assert "(event 2 of 2026-03-01 12:00:02Z)" in answer["error"]
    assert "compare with your copy; do not overwrite it" in answer["error"]


def test_a_line_that_cannot_be_read_is_found_too(audit, tmp_path):
    append(audit, 1)
    with (tmp_path / "audit/audit-00000001.jsonl").open("a") as file:
        file.write("{\n")

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert "audit-00000001.jsonl:3: not a whole line; compare with your copy" in said.stderr


def test_a_whole_chain_says_nothing_of_gaps(audit, tmp_path):
    append(audit, 1)

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.stdout.startswith("The chain holds: 1 record in 1 file.\n  last seq   1\n")


def test_records_that_are_missing_at_the_beginning_are_told(audit, tmp_path):
    audit.skip_to(56)
    append(audit, 57, 58)
    (tmp_path / "audit/audit-00000001.jsonl").unlink()

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.returncode == 0
    assert "But it begins with event 57: what came before is not here.\n" in said.stdout
    assert "gap" not in said.stdout


def test_records_that_are_missing_in_between_are_told(audit, tmp_path):
    append(audit, 1, 2)
    audit.skip_to(5)
    append(audit, 6)

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.returncode == 0
    assert "But there is a gap of 3 records in between" in said.stdout
    assert "begins with" not in said.stdout


@pytest.mark.parametrize("command", ["verify", "tail"])
def test_files_that_cannot_be_looked_for_are_not_said_to_be_missing(command, tmp_path):
    (tmp_path / "audit").touch()

    said = here("audit", command, "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert f"{tmp_path / 'audit'} cannot be read: Not a directory" in said.stderr


def test_a_reader_that_has_seen_enough_ends_a_tail_quietly(audit, tmp_path):
    append(audit, *range(1, 2000))
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "audit", "tail", "-n", "2000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(SAFETYD_DATA_DIR=str(tmp_path)),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["verify", "tail"])
def test_no_files_at_all_is_a_failure(command, tmp_path):
    said = here("audit", command, "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert "there are no audit files" in said.stderr
