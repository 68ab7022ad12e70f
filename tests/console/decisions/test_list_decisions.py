import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from safetyd.console.decisions import list_decisions
from safetyd.operators.contract.decision_contract import Row
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.console.console_rig import told
from tests.journeys.people import query

BRANCH = "long-branch-name-" * 8


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon()
    propose(daemon, "code", id="d-1", type="read_file", text="README.md")
    propose(daemon, "code", id="d-2", type="run_shell", text="rm -rf / \x1b[2J")
    propose(daemon, "ops", id="d-3", type="push", text=f"git push origin {BRANCH}")
    return daemon


def propose(daemon: RunningDaemon, agent: str, **proposal: object) -> None:
    told(daemon, "propose", agent, stdin=json.dumps(proposal))


def listed(daemon: RunningDaemon, *options: str) -> list[dict[str, Any]]:
    answer = json.loads(told(daemon, "decisions", "--json", *options).stdout)
    rows: list[dict[str, Any]] = answer["rows"]
    return rows


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row.get("id", row["type"]) for row in rows]


def test_what_was_blocked_is_listed(daemon):
    said = daemon.safetyd("decisions", "--verdict", "block", COLUMNS="120")

    assert said.returncode == 0
    assert "run_shell: rm -rf / \\x1b" in said.stdout
    assert "d-2" in said.stdout
    assert "d-1" not in said.stdout
    assert "\x1b" not in said.stdout
    assert "safetyd explain ID" in said.stdout.splitlines()[-1]


def test_rules_can_be_left_out_and_events_shown_alone(daemon):
    without = listed(daemon, "--not-rule", "gate", "--not-rule", "classify.h")
    first = listed(daemon, "--not-rule", "gate", "--limit", "1")
    events = listed(daemon, "--only-events", "--since", "1h")

    assert "d-1" in ids(without)
    assert not {"d-2", "d-3"} & {*ids(without)}
    assert ids(first) == ["d-3"]
    assert {row["row"] for row in events} == {"event"}


def test_a_mistake_in_a_query_is_told_in_plain_words(daemon):
    said = told(daemon, "history", "show", "zzzz")
    refused = query(daemon, "decisions", verdict="nonsense")

    assert said.stderr == "safetyd: commit must be 4 to 64 hexadecimal digits\n"
    assert "verdict" in refused["error"]
    assert "'nonsense'" in refused["error"]


def test_a_table_that_is_piped_is_not_cut(daemon):
    environ = {**environment(SAFETYD_DATA_DIR=str(daemon.data_dir))}
    environ.pop("COLUMNS", None)
    command = [sys.executable, "-m", "safetyd", "decisions", "--limit", "1"]

    piped = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)

    assert BRANCH in piped.stdout


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), ["d-3", "d-2", "d-1"]),
        (("--limit", "1"), ["d-3"]),
        (("--agent", "code"), ["d-2", "d-1"]),
        (("--rule", "gate."), ["d-2"]),
        (("--text", "readme"), ["d-1"]),
        (("--since", "1h", "--verdict", "allow"), ["d-1"]),
        (("--verdict", "blocked"), ["d-2"]),
    ],
)
def test_decisions_are_found_by(daemon, options, found):
    assert ids(listed(daemon, *options)) == found


def test_events_stand_among_decisions_if_they_are_asked_for(daemon):
    told(daemon, "pause", "idler")

    assert "AGENT_PAUSED" in ids(listed(daemon, "--events"))
    assert "AGENT_PAUSED" in daemon.safetyd("decisions", "--events").stdout
    assert "AGENT_PAUSED" not in ids(listed(daemon))


def test_more_than_a_page_is_asked_for_page_by_page(daemon, monkeypatch):
    monkeypatch.setattr(list_decisions, "PAGE", 1)

    assert ids(listed(daemon, "--limit", "3")) == ["d-3", "d-2", "d-1"]


def test_a_time_that_is_none_is_refused(daemon):
    said = told(daemon, "decisions", "--since", "lately")

    assert said.returncode == 2
    assert "'lately'" in said.stderr


def test_without_a_daemon_the_files_are_read(start_daemon: StartDaemon, monkeypatch):
    monkeypatch.setattr(list_decisions, "PAGE", 1)
    daemon = start_daemon()
    for number in range(3):
        propose(daemon, "code", id=f"f-{number}", type="read_file")
    daemon.stop()

    said = told(daemon, "decisions", "--json", "--limit", "2")
    followed = told(daemon, "decisions", "--follow")

    answer = json.loads(said.stdout)
    assert (ids(answer["rows"]), answer["more"]) == (["f-2", "f-1"], True)
    assert "No daemon answers" in said.stderr
    assert followed.returncode == 4


@contextmanager
def following(daemon: RunningDaemon, *options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "decisions", "--follow", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir)),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Following nats://")
        yield process
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
            process.wait(20)


def test_following_shows_each_decision_once_as_it_is_made(start_daemon: StartDaemon):
    daemon = start_daemon()
    propose(daemon, "code", id="w-0", type="read_file")
    with following(daemon, "--agent", "code", "--json") as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["id"]]
        for number in range(1, 4):
            propose(daemon, "other", type="read_file")
            propose(daemon, "code", id=f"w-{number}", type="read_file")
            seen.append(json.loads(process.stdout.readline())["id"])

    assert seen == ["w-0", "w-1", "w-2", "w-3"]
    assert process.returncode == 0


def test_more_than_anybody_can_read_is_said_to_be_left_out(daemon, monkeypatch):
    monkeypatch.setattr(list_decisions, "MAX_NEW", 1)
    monkeypatch.setattr(list_decisions, "LOOK_S", 0.0)
    looked: list[Row] = []

    def two_more_then_the_end(row: Row) -> str:
        looked.append(row)
        if len(looked) > 1:
            raise KeyboardInterrupt
        for number in range(2):
            fields = {"id": f"x-{number}", "type": "read_file"}
            daemon.safetyd("propose", "flood", stdin=json.dumps(fields))
        return "line"

    monkeypatch.setattr(list_decisions, "decision_line", two_more_then_the_end)

    said = told(daemon, "decisions", "--follow", "--limit", "1")

    assert "skipped" in said.stderr
    assert getattr(looked[-1], "id") == "x-1"  # noqa: B009
