import json
import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import RunningDaemon, StartDaemon, environment, safetyd


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon()
    daemon.safetyd("check", "code", "run_shell", "--text", "rm -rf / \x1b[2J")
    return daemon


def test_verify_counts_records_and_files(daemon):
    said = daemon.safetyd("audit", "verify")
    found = json.loads(daemon.safetyd("audit", "verify", "--json").stdout)

    assert said.returncode == 0
    assert f"{found['records']} records in 1 files" in said.stdout
    assert f"last seq   {found['last_seq']}\n" in said.stdout


def test_tail_shows_records_harmlessly(daemon):
    said = daemon.safetyd("audit", "tail")

    assert "code run_shell -> block [gate.blocklist:rm_rf]: rm -rf / \\x1b[2J" in said.stdout
    assert "\x1b" not in said.stdout


def test_tail_gives_as_many_as_asked_for(daemon):
    said = daemon.safetyd("audit", "tail", "-n", "2", "--json")

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
            daemon.safetyd("propose", "code", stdin=json.dumps(proposal))
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


def test_a_changed_line_is_found_without_a_daemon(start_daemon: StartDaemon):
    daemon = start_daemon()
    daemon.safetyd("check", "code", "read_file")
    daemon.stop()
    path = daemon.data_dir / "audit/audit-00000001.jsonl"
    path.write_text(path.read_text().replace('"read_file"', '"read_fish"'))

    said = daemon.safetyd("audit", "verify", "--json")

    answer = json.loads(said.stdout)
    assert said.returncode == 1
    assert answer["code"] == "broken"
    assert "audit-00000001.jsonl:" in answer["error"]


@pytest.mark.parametrize("command", ["verify", "tail"])
def test_no_files_at_all_is_a_failure(command, tmp_path):
    said = safetyd("audit", command, "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert "there are no audit files" in said.stderr
