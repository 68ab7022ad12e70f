import json
import re

import pytest

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def propose(daemon: RunningDaemon, agent: str, **proposal: object) -> dict[str, object]:
    said = told(daemon, "propose", agent, stdin=json.dumps(proposal))
    answer: dict[str, object] = json.loads(said.stdout)
    return answer


def test_explain_tells_guard_rule_reason_and_proposal(daemon):
    propose(daemon, "code", id="e-1", type="run_shell", text="rm -rf / \x1b[2J")

    said = daemon.safetyd("explain", "e-1")

    assert said.returncode == 0
    assert "blocked (event" in said.stdout
    assert "gate: blocked by gate.blocklist:rm_rf" in said.stdout
    assert "rm -rf / \\x1b[2J" in said.stdout
    assert "\x1b" not in said.stdout


def test_explain_says_how_long_a_cooldown_would_have_had_to_be_waited_for(daemon):
    propose(daemon, "runner", type="dispatch")
    propose(daemon, "runner", id="e-5", type="dispatch")

    said = told(daemon, "explain", "e-5").stdout
    decided = json.loads(told(daemon, "explain", "e-5", "--json").stdout)["decisions"][0]

    assert re.search(r"^  cooldown: cooldown not elapsed \(\ds < 60s\)$", said, re.MULTILINE)
    assert re.search(r"^  To be allowed: after (5\d|60) s$", said, re.MULTILINE)
    assert " 1 of 5 rounds\n" in said
    assert (decided["decided_by"], decided["then"]) == ("cooldown", "allow")


def test_explain_says_which_confidence_would_have_been_enough(daemon):
    propose(daemon, "unsure", id="e-6", type="edit_file", confidence=0.5)

    said = told(daemon, "explain", "e-6").stdout

    assert "\n  gate: Confidence 50 % is below the required 70 %\n" in said
    assert "\n  To be allowed: by a person, or with confidence >= 0.7\n" in said


def test_explain_tells_how_it_went(daemon):
    with SyncSafety("worker", data_dir=daemon.data_dir) as safety:
        safety.propose("read_file", id="e-2")
        safety.report("e-2", ok=False, error="no such file")

    said = told(daemon, "explain", "e-2")

    assert said.stdout.splitlines()[-1].endswith(": no such file")
    assert " worker reported (event " in said.stdout


def test_explain_without_a_daemon_reads_the_files(start_daemon: StartDaemon):
    daemon = start_daemon()
    propose(daemon, "code", id="e-3", type="run_shell", text="rm -rf /")
    daemon.stop()

    said = told(daemon, "explain", "e-3")
    machine = json.loads(told(daemon, "explain", "e-3", "--json").stdout)
    unknown = told(daemon, "explain", "e-4")

    assert said.returncode == 0
    assert "No daemon answers" in said.stderr
    assert "gate: blocked by gate.blocklist:rm_rf" in said.stdout
    assert machine["decisions"][0]["decision"] == "block"
    assert unknown.returncode == 1
    assert "no decision with id 'e-4'" in unknown.stderr


def test_explain_of_something_unknown_fails(daemon):
    said = told(daemon, "explain", "nothing", "--json")

    assert said.returncode == 1
    assert json.loads(said.stdout)["code"] == "not_found"


def test_a_request_is_explained_by_its_id_from_asking_to_the_outcome(daemon):
    asked = propose(daemon, "pusher", id="r-1", type="push", text="git push")
    told(daemon, "approve", str(asked["request_id"]), "--message", "fine")
    propose(daemon, "pusher", id="r-2", type="push", text="git push")

    said = told(daemon, "explain", str(asked["request_id"])).stdout
    machine = json.loads(told(daemon, "explain", str(asked["request_id"]), "--json").stdout)

    assert said.startswith("Proposal r-1\n")
    assert re.search(r"^  \+\d+ s +approval requested \(req_\w+\)", said, re.MULTILINE)
    assert re.search(r"^  \+\d+ s +answered by local via cli: approved: fine$", said, re.MULTILINE)
    assert re.search(r"^  \+\d+ s +approval used by pusher \(r-2\)$", said, re.MULTILINE)
    assert [step["what"] for step in machine["steps"]][:3] == ["proposed", "decided", "asked"]


def test_the_last_decision_about_an_agent_is_explained(daemon):
    propose(daemon, "recent", id="l-1", type="read_file")
    propose(daemon, "recent", id="l-2", type="read_file")
    propose(daemon, "someone", id="l-3", type="read_file")

    assert told(daemon, "explain", "--last", "recent").stdout.startswith("Proposal l-2\n")
    unknown = told(daemon, "explain", "--last", "stranger")
    assert unknown.returncode == 1
    assert "'stranger'" in unknown.stderr


def test_explain_says_where_it_is_written_and_how_others_like_it_went(daemon):
    for number in range(3):
        text = f"git commit -m 'number {number}'"
        propose(daemon, "committer", id=f"k-{number}", type="run_shell", text=text)

    said = daemon.safetyd("explain", "k-2").stdout
    answer = json.loads(told(daemon, "explain", "k-2", "--json").stdout)

    (decided,) = answer["decisions"]
    place = decided["audit"]
    lines = (daemon.data_dir / "audit" / place["file"]).read_text().splitlines()
    record, before = json.loads(lines[place["line"] - 1]), json.loads(lines[place["line"] - 2])
    assert (record["seq"], record["hash"]) == (decided["seq"], place["hash"])
    assert before["hash"] == place["previous"]
    assert [other["id"] for other in answer["like"]["last"]] == ["k-1", "k-0"]
    assert f"{place['file']}:{place['line']}" in said


@pytest.mark.parametrize("arguments", [(), ("p-1", "--last", "code")])
def test_one_thing_is_explained(daemon, arguments):
    said = told(daemon, "explain", *arguments)

    assert said.returncode == 2
    assert "--last" in said.stderr
