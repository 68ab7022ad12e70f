import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.event import Event
from safetyd.core.messages.telemetry import Heartbeat
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit, files
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.console.console_rig import here, told
from tests.story import at, outcome, play, propose, report, stop


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon()
    proposal = {"id": "p-1", "type": "run_shell", "text": "rm -rf / \x1b[2J"}
    told(daemon, "propose", "code", stdin=json.dumps(proposal))
    return daemon


def test_verify_counts_records_and_files(daemon):
    said = daemon.safetyd("audit", "verify")
    found = json.loads(told(daemon, "audit", "verify", "--json").stdout)

    words = r"The audit chain is intact: (\d+) records in 1 file\.\n  last seq   (\d+)\n"
    counted = re.match(words, said.stdout)

    assert said.returncode == 0
    assert counted is not None
    assert counted[1] == counted[2]
    # The daemon goes on writing between the two.
    assert 0 < int(counted[1]) <= found["records"] == found["last_seq"]


def test_tail_shows_records_harmlessly(daemon):
    said = told(daemon, "audit", "tail")

    rules = "classify.high, gate.blocklist:rm_rf"
    assert f"code run_shell p-1 -> block [{rules}]: rm -rf / \\x1b[2J" in said.stdout
    assert "\x1b" not in said.stdout


def test_tail_gives_as_many_as_asked_for(daemon):
    said = told(daemon, "audit", "tail", "--all", "-n", "2", "--json")

    records = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(records) == 2
    assert records[0]["seq"] + 1 == records[1]["seq"]


def told_of(directory: Path, *options: str) -> list[dict[str, Any]]:
    said = here("audit", "tail", "--json", "--data-dir", str(directory), *options)
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_tail_leaves_out_bookkeeping_unless_it_is_asked_for(audit, tmp_path):
    keep(audit, propose(0), outcome(1), heartbeat(2), stop(3))

    every = [record["event"] for record in told_of(tmp_path, "--all")]
    shown = [record["event"] for record in told_of(tmp_path)]

    assert {"settled", "safety_event"} <= {*every}
    assert every.count("reported") == 2
    assert shown == ["decided", "reported", "stopped"]


def test_tail_shows_one_agent(audit, tmp_path):
    keep(audit, propose(0), propose(1, "ops"), stop(2), stop(3, agent="ops"))

    found = told_of(tmp_path, "--agent", "ops", "--all")

    assert [record["event"] for record in found] == ["decided", "stopped", "safety_event"]


def test_tail_begins_at_a_time(audit, tmp_path):
    keep(audit, *(propose(t, id=f"p{t}", text=f"{t}.txt") for t in range(5)))

    found = told_of(tmp_path, "--since", at(3).isoformat())

    assert [record["proposal"]["id"] for record in found] == ["p3", "p4"]


@pytest.mark.parametrize("torn", [b"", b'{"event":"decid'])
def test_tail_reaches_back_over_files(audit, tmp_path, torn):
    keep(audit, *(propose(t, id=f"p{t}", description="x" * 900) for t in range(20)))
    path = files(tmp_path / "audit")[-1]
    path.write_bytes(path.read_bytes() + torn)

    found = told_of(tmp_path, "-n", "12")

    assert [record["proposal"]["id"] for record in found] == [f"p{n}" for n in range(8, 20)]
    assert len(files(tmp_path / "audit")) > 3


def test_following_goes_on_into_the_next_file(start_daemon: StartDaemon):
    daemon = start_daemon("[audit]\nmax_bytes = 4096\n")
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "audit", "tail", "-f", "--all", "--json"],
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


def keep(audit: Audit, *story: Event) -> None:
    for event in play(Engine(Policy()), *story):
        audit.append([encode(event)], event.seq)


def heartbeat(t: float) -> Event:
    return report(t, Heartbeat())


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
    assert "audit-00000001.jsonl:3: the hash does not match" in answer["error"]
    assert "(event 2 of 2026-03-01 12:00:02Z)" in answer["error"]


def test_a_line_that_cannot_be_read_is_found_too(audit, tmp_path):
    append(audit, 1)
    with (tmp_path / "audit/audit-00000001.jsonl").open("a") as file:
        file.write("{\n")

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert "audit-00000001.jsonl:3: " in said.stderr


def test_a_whole_chain_says_nothing_of_gaps(audit, tmp_path):
    append(audit, 1)

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.stdout.startswith(
        "The audit chain is intact: 1 record in 1 file.\n  last seq   1\n"
    )


def test_records_that_are_missing_at_the_beginning_are_told(audit, tmp_path):
    audit.skip_to(56)
    append(audit, 57, 58)
    (tmp_path / "audit/audit-00000001.jsonl").unlink()

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.returncode == 0
    assert "The chain starts at event 57: " in said.stdout
    assert "gap" not in said.stdout


def test_records_that_are_missing_in_between_are_told(audit, tmp_path):
    append(audit, 1, 2)
    audit.skip_to(5)
    append(audit, 6)

    said = here("audit", "verify", "--data-dir", str(tmp_path))

    assert said.returncode == 0
    assert "Missing in the chain: 3 records" in said.stdout
    assert "begins with" not in said.stdout


@pytest.mark.parametrize("command", ["verify", "tail"])
def test_files_that_cannot_be_looked_for_are_not_said_to_be_missing(command, tmp_path):
    (tmp_path / "audit").touch()

    said = here("audit", command, "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert f"cannot read {tmp_path / 'audit'}: Not a directory" in said.stderr


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
    assert "no audit files" in said.stderr
