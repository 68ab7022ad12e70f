"""`simulate` on the records of a real daemon."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, review

pytestmark = pytest.mark.journey

RULES = f"""
profile = "strict"
{UNLIMITED}
[[rules.custom]]
name = "hello"
when = {{ text = "hello" }}
then = "block"
"""
COMMIT = {"type": "run_shell", "cwd": "/srv/shop"}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    """A daemon with a past: answers, a stop, a pause and a restart."""
    daemon = start_module_daemon(RULES)
    with Asker(daemon) as agent:
        for number in range(3):
            _committed(daemon, agent, number, "approve" if number else "deny")
        agent.propose("r1", type="read_file", text="")
        agent.ask("telemetry", {"type": "outcome", "id": "r1", "ok": True, "cost_usd": 0.5})
        agent.propose("b1", type="read_file", text="hello")
        daemon.safetyd("stop", "--reason", "drill")
        agent.propose("s1", type="read_file", text="x")
        daemon.safetyd("resume", "--reason", "over")
        daemon.safetyd("pause", "code", "--reason", "drill")
        agent.propose("s2", type="read_file", text="x")
        daemon.safetyd("unpause", "code")
        agent.propose("t1", type="type", text="hunter2", target={"label": "Password"})
    daemon.restart()
    with Asker(daemon) as agent:
        agent.propose("r2", type="read_file", text="")
        agent.propose("w1", **COMMIT, text="git commit -m 'waits'")
    return daemon


def _committed(daemon: RunningDaemon, agent: Asker, number: int, answer: str) -> None:
    asked = agent.propose(f"c{number}", **COMMIT, text=f"git commit -m 'number {number}'")
    assert review(daemon, answer, asked["request_id"])["ok"]


def simulated(daemon: RunningDaemon, *options: str, code: int = 0) -> dict[str, Any]:
    said = daemon.safetyd("simulate", *options, "--json")
    assert said.returncode == code, said
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


@pytest.mark.req("S4.28")
def test_the_current_rules_reproduce_every_recorded_decision(daemon):
    found = simulated(daemon, "--config", str(daemon.config_path))

    assert found["same"], found
    assert found["report"]["decisions"] == 9
    assert found["report"]["unread"] == 1
    assert found["report"]["answers"] == {"recorded": 3, "alike": 0, "missing": 0, "not_taken": 0}


def test_a_block_that_would_be_allowed_exits_with_three(daemon, tmp_path: Path):
    looser = tmp_path / "looser.toml"
    looser.write_text(daemon.config_path.read_text().replace('text = "hello"', 'text = "bye"'))

    found = simulated(daemon, "--config", str(looser), "--since", "1d", code=3)

    (difference,) = found["report"]["differences"]
    assert (difference["was"], difference["would"]) == ("block", "allow")
    assert (difference["rule"], difference["examples"][0]["id"]) == ("rules.hello", "b1")
    assert found["report"]["loosened"] == 1


def test_card_and_audit_files_agree_on_what_a_grant_covers(daemon):
    (row,) = [
        row
        for row in json.loads(daemon.safetyd("list", "--json").stdout)["requests"]
        if "waits" in row["text"]
    ]
    card = json.loads(daemon.safetyd("show", row["id"], "--json").stdout)["request"]

    found = simulated(daemon, "--grant-request", row["id"])

    assert (card["grant"]["approved"], card["grant"]["denied"]) == (2, 1)
    assert (found["covered"]["approved"], found["covered"]["denied"]) == (2, 1)
