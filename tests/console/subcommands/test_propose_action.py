import json
import re

import pytest

from safetyd.client import SyncSafety
from safetyd.core.events.decision_events import Decided, Refused, Settled
from safetyd.core.events.event import Event
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told
from tests.journeys.audit_record import events


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def test_a_harmless_action_passes(daemon):
    said = daemon.safetyd("check", "reader", "read_file", "--path", "README.md")

    assert said.returncode == 0
    assert said.stdout.startswith("PASSED: All safety checks passed for reader:read_file\n")


def test_a_destructive_one_is_blocked_with_rule_and_id(daemon):
    said = told(daemon, "check", "code", "run_shell", "--text", "rm -rf /")

    first, rule, id_ = said.stdout.splitlines()
    assert said.returncode == 1
    assert first.startswith("BLOCKED: ")
    assert rule.split() == [
        "rules",
        "classify.high,",
        "gate.blocklist:rm_rf,",
        "gate.shell:irreversible",
    ]
    assert id_.split()[0] == "id"


def test_a_question_waits_for_a_person(daemon):
    proposal = {"type": "click", "target": {"label": "Submit Order"}}

    said = daemon.safetyd("propose", "shopper", stdin=json.dumps(proposal))

    assert said.returncode == 3
    assert json.loads(said.stdout)["decision"] == "require_confirmation"


def test_null_in_a_proposal_is_nothing(daemon):
    proposal = {"type": "read_file", "text": None, "paths": ["/README.md"], "target": {"url": None}}

    said = daemon.safetyd("propose", "reader", stdin=json.dumps(proposal))

    assert (said.returncode, json.loads(said.stdout)["decision"]) == (0, "allow")


def test_check_says_waiting_when_a_person_is_needed(daemon):
    said = told(daemon, "check", "clicker", "click", "--text", "pay now")

    assert said.returncode == 3
    assert re.match(r"WAITING: needs approval \(req_[0-9a-f]{12}\): ", said.stdout)
    assert re.search(r"`safetyd show req_[0-9a-f]{12}`", said.stdout.splitlines()[1])


@pytest.mark.parametrize("arguments", [(), ("somebody",)])
def test_check_without_agent_and_type_proposes_nothing(daemon, arguments):
    before = daemon_record(daemon)

    said = told(daemon, "check", *arguments)

    assert (said.returncode, said.stdout) == (2, "")
    assert "Usage: safetyd check [options] AGENT TYPE" in said.stderr
    assert daemon_record(daemon) == before


def daemon_record(daemon: RunningDaemon) -> list[Event]:
    return [e for e in events(daemon.data_dir) if isinstance(e, Decided | Refused)]


def test_what_was_proposed_with_the_command_is_reported_with_one(daemon):
    proposal = json.dumps({"type": "read_file", "text": "log", "id": "tests-1"})
    assert told(daemon, "propose", "tester", "--outcome-follows", stdin=proposal).returncode == 0
    said = told(
        daemon, "outcome", "tester", "tests-1", "ok", "--exit-code", "1", "--cost-usd", "0.5"
    )

    (settled,) = [
        e for e in events(daemon.data_dir) if isinstance(e, Settled) and e.id == "tests-1"
    ]
    assert said.returncode == 0
    assert said.stdout == "Recorded the outcome of tester's action tests-1: ok.\n"
    assert (settled.agent, settled.ok, settled.cost_usd) == ("tester", True, 0.5)


def test_an_outcome_that_cannot_be_recorded_is_an_error(daemon, tmp_path):
    assert told(daemon, "outcome", "tester", "no id", "ok").returncode == 2
    assert told(daemon, "outcome", "tester", "t1", "maybe").returncode == 2
    assert told(daemon, "outcome", "tester", "t1", "ok", "--cost-usd", "-1").returncode == 2
    assert here("outcome", "a", "t1", "ok", SAFETYD_DATA_DIR=str(tmp_path)).returncode == 4


def test_a_dry_run_leaves_no_trace_of_an_agent(daemon):
    said = told(daemon, "check", "ghost", "read_file", "--dry-run")

    agents = json.loads(told(daemon, "agents", "--json").stdout)["agents"]
    assert said.returncode == 0
    assert said.stdout.splitlines()[1].startswith("  dry run: ")
    assert "ghost" not in {row["agent"] for row in agents}


def test_check_and_proposal_are_over_when_they_are_answered(daemon):
    proposal = json.dumps({"type": "read_file"})
    assert told(daemon, "check", "asked-once", "read_file").returncode == 0
    assert told(daemon, "propose", "asked-once", stdin=proposal).returncode == 0

    rows = json.loads(told(daemon, "agents", "--json").stdout)["agents"]
    (row,) = (row for row in rows if row["agent"] == "asked-once")
    assert (row["state"], row["open_actions"], row["allowed"]) == ("ready", [], 2)


def test_check_is_no_success_of_the_agent(daemon):
    with SyncSafety("unlucky", data_dir=daemon.data_dir) as safety:
        safety.report(safety.propose("read_file").id, ok=False)
    assert told(daemon, "check", "unlucky", "read_file").returncode == 0

    rows = json.loads(told(daemon, "agents", "--json").stdout)["agents"]
    (row,) = (row for row in rows if row["agent"] == "unlucky")
    assert row["consecutive_errors"] == 1


def test_unknown_fields_reach_the_daemon(daemon):
    proposal = {"id": "odd-1", "type": "read_file", "odd": {"x": 1.0}}

    said = told(daemon, "propose", "code", "--json", stdin=json.dumps(proposal))

    assert json.loads(said.stdout)["id"] == "odd-1"
    explained = json.loads(told(daemon, "explain", "odd-1", "--json").stdout)
    assert explained["decisions"][0]["proposal"]["extra"] == {"odd": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("", "empty"),
        (" \n", "empty"),
        ('{"type": "deploy", "type": "read_file"}', "'type' twice"),
        (json.dumps({"type": "x" * 70_000}), "65536"),
    ],
)
def test_what_is_not_one_json_object_is_wrong_usage(daemon, text, why):
    said = told(daemon, "propose", "code", stdin=text)

    assert (said.returncode, said.stdout) == (2, "")
    assert why in said.stderr


def test_fields_that_no_guard_knows_are_named_beside_the_decision(daemon):
    proposal = {"type": "click", "txet": "Buy", "target": {"lable": "Buy"}, "context": {"any": 1}}

    said = told(daemon, "propose", "code", "--json", stdin=json.dumps(proposal))

    assert said.stderr.splitlines() == [
        "safetyd: unknown field txet: no guard uses it. Did you mean text?",
        "safetyd: unknown field target.lable: no guard uses it. Did you mean target.label?",
    ]
    assert json.loads(said.stdout)["decision"] == "allow"


@pytest.mark.parametrize("proposal", [{}, {"type": 7}, {"type": "a", "confidence": 2}])
def test_a_malformed_proposal_is_blocked(daemon, proposal):
    said = told(daemon, "propose", "code", stdin=json.dumps(proposal))

    assert said.returncode == 1
    assert json.loads(said.stdout)["cause"] == "malformed"


def test_a_name_that_cannot_stand_in_a_subject_is_wrong_usage(daemon):
    assert told(daemon, "check", "a.b", "read_file").returncode == 2


def test_an_agent_with_a_key_speaks_with_it(daemon):
    told(daemon, "agent", "add", "keyed")

    said = told(daemon, "check", "keyed", "read_file")

    agents = json.loads(told(daemon, "agents", "--json").stdout)["agents"]
    assert said.returncode == 0
    assert {row["agent"]: row["key"] for row in agents}["keyed"] is True


def test_an_operators_key_in_the_environment_does_not_disturb_check(daemon):
    key = str(daemon.data_dir / "keys/operator.nk")

    assert told(daemon, "check", "reader", "read_file", SAFETYD_KEY_FILE=key).returncode == 0


@pytest.mark.req("S2.27")
def test_the_environments_switch_blocks(daemon):
    said = told(daemon, "check", "reader", "read_file", SAFETYD_ENABLED="false")

    assert said.returncode == 1
    assert said.stdout.startswith("BLOCKED: disabled: SAFETYD_ENABLED=false")


def test_without_a_daemon_check_blocks_with_exit_code_4(tmp_path):
    said = here("check", "code", "read_file", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 4
    assert said.stdout.startswith("BLOCKED: ")
    assert str(tmp_path) in said.stdout
    answer = json.loads(
        here("check", "code", "read_file", "--json", SAFETYD_DATA_DIR=str(tmp_path)).stdout
    )
    assert (answer["decision"], answer["cause"], answer["ok"]) == ("block", "unavailable", False)
    assert answer["code"] == "not_reachable"


def test_where_keys_are_needed_check_says_how_to_make_one(start_daemon: StartDaemon):
    daemon = start_daemon("[bus]\nopen_agents = false\n")

    said = told(daemon, "check", "code", "read_file")

    assert said.returncode == 2
    assert "safetyd agent add code" in said.stdout


def test_a_dry_run_is_marked_and_a_check_leaves_no_warning(daemon):
    daemon.safetyd("check", "looking", "read_file", "--dry-run")
    daemon.safetyd("check", "looking", "read_file")

    first, second = listed_rows(daemon, "decisions", "--agent", "looking")
    assert (first[2], second[2:5]) == ("allowed", ["allowed", "(dry", "run)"])
    assert "OUTCOME_UNKNOWN" not in daemon.safetyd("decisions", "--events", "--json").stdout


def listed_rows(daemon: RunningDaemon, *command: str) -> list[list[str]]:
    """Return the words of each row of a table, the newest first."""
    _, *lines = daemon.safetyd(*command).stdout.partition("\n\n")[0].splitlines()
    return sorted((line.split()[1:] for line in lines), key=len)
