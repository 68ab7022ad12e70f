"""Grants from the command line, against a running daemon."""

import json
import shlex
from typing import Any

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import at_a_terminal, told


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def add(daemon: RunningDaemon, agent: str, *options: str, reason: str = "release") -> Any:
    given = ("--agent", agent, "--uses", "2", "--for", "2h", "--reason", reason)
    return told(daemon, "grant", "add", *given, *options)


def listed(daemon: RunningDaemon, agent: str) -> list[dict[str, Any]]:
    rows = json.loads(told(daemon, "grants", "--json").stdout)["grants"]
    return [row for row in rows if row["agent"] == agent]


def test_a_grant_for_an_unknown_type_is_refused_with_the_nearest_names(daemon):
    terms = ("--uses", "1", "--for", "1h", "--reason", "r")

    near = told(daemon, "grant", "add", "--agent", "typist", "--type", "run_shel", *terms)
    far = told(daemon, "grant", "add", "--agent", "typist", "--type", "bogus", *terms)

    assert (near.returncode, far.returncode) == (1, 1)
    assert 'Unknown action type "run_shel". Did you mean run_shell' in near.stderr
    assert far.stderr == 'safetyd: Unknown action type "bogus". `safetyd types` lists all types.\n'


def test_no_grant_is_offered_for_destruction(daemon):
    told(daemon, "propose", "wiper", stdin='{"id":"w1","type":"run_shell","text":"rm -rf /"}')

    said = told(daemon, "explain", "w1")

    assert "gate.blocklist:rm_rf" in said.stdout
    assert "grant add" not in said.stdout


def test_a_granted_kind_passes_until_its_grant_is_revoked(daemon):
    assert told(daemon, "check", "pusher", "push").returncode == 3

    made = add(daemon, "pusher", "--type", "deploy", "--max-usd", "3")
    (row,) = listed(daemon, "pusher")
    allowed = told(daemon, "check", "pusher", "deploy", "--text", "a")
    assert made.returncode == 0
    assert made.stdout.startswith(f"{row['id']}: 2 uses for pusher until 20")
    assert (row["type"], row["left"], row["by"]) == ("deploy", 2, "local")
    assert allowed.returncode == 3, "nobody knows what it costs"

    add(daemon, "pusher", "--type", "deploy", "--text", "^b$")
    assert told(daemon, "check", "pusher", "deploy", "--text", "b").returncode == 0
    first, second = listed(daemon, "pusher")
    assert second["left"] == 1
    shown = told(daemon, "grants").stdout
    assert f"{second['id']} pusher: deploy, 1 of 2 uses left, until " in shown

    revoked = told(daemon, "grant", "revoke", second["id"])
    assert revoked.stdout == f"Revoked {second['id']}, which had 1 use left.\n"
    assert told(daemon, "grant", "revoke", second["id"]).returncode == 1
    told(daemon, "grant", "revoke", first["id"])
    assert listed(daemon, "pusher") == []


@pytest.mark.req("S3.3")
def test_the_command_that_a_block_prints_at_a_terminal_lifts_it_once(daemon):
    again = ("check", "cleaner", "click", "--text", "reset 'a' and \"b\"")
    blocked = at_a_terminal(*again, SAFETYD_DATA_DIR=str(daemon.data_dir))
    words = shlex.split(blocked.partition("after `")[2].partition("`")[0])
    assert words[:3] == ["safetyd", "grant", "add"]

    assert told(daemon, *words[1:]).returncode == 1, "dots are no reason"
    assert told(daemon, *words[1:-1], "the form is empty").returncode == 0

    assert [told(daemon, *again).returncode for _ in range(2)] == [0, 1]


def test_only_a_person_at_a_terminal_is_told_the_command(daemon, tmp_path):
    check = ("check", "robot", "click", "--text", "reset")

    piped = told(daemon, *check)
    elsewhere = {"SAFETYD_URL": daemon.endpoint.bus, "SAFETYD_DATA_DIR": str(tmp_path)}
    alone = at_a_terminal(*check, **elsewhere)

    for said in (piped.stdout, alone):
        assert "BLOCKED: On the blocklist" in said
        assert "grant" not in said


def test_explain_prints_the_command_too(daemon):
    blocked = told(daemon, "check", "painter", "click", "--text", "reset", "--json")

    explained = told(daemon, "explain", json.loads(blocked.stdout)["id"], "--json")

    (decided,) = json.loads(explained.stdout)["decisions"]
    assert "after `safetyd grant add --agent painter --type click" in decided["remedy"]


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (("--type", "send_email"), 1, "send_email"),
        (("--rule", "gate.loop", "--text", "."), 1, "gate.loop"),
        (("--rule", "gate.blocklist:reset"), 1, "needs a text or path pattern"),
        (("--for", "soon"), 2, "soon"),
        (("--for", "8d"), 1, "7 days"),
        (("--uses", "0"), 2, "0"),
    ],
)
def test_what_cannot_be_granted_is_refused(daemon, options, code, why):
    refused = add(daemon, "pusher", *options)

    assert refused.returncode == code
    assert why in refused.stderr


def test_a_name_that_nobody_has_is_doubted(daemon):
    told(daemon, "check", "gardener", "read_file")

    made = add(daemon, "gardner", "--type", "push")

    assert made.returncode == 1
    assert "Did you mean gardener?" in made.stdout


def test_suggestions_say_when_there_are_none(daemon):
    assert told(daemon, "suggestions").stdout.startswith("No suggestions")
    assert json.loads(told(daemon, "suggestions", "--json").stdout)["suggestions"] == []


@pytest.mark.req("S3.61")
def test_five_approvals_of_one_text_suggest_a_rule_for_it_and_nothing_else(daemon):
    for _ in range(5):
        asked = told(daemon, "check", "shipper", "push", "--text", "tag 1", "--json")
        request_id = json.loads(asked.stdout)["request_id"]
        assert told(daemon, "approve", request_id).returncode == 0
        assert told(daemon, "check", "shipper", "push", "--text", "tag 1").returncode == 0

    shown = told(daemon, "suggestions").stdout

    assert "# shipper: push, approved 5 times and never denied, from 20" in shown
    when = 'types = ["push"], agents = ["shipper"], text = "(?-i)^tag 1$", only_text = true'
    assert f"when = {{ {when} }}\n" in shown


def test_a_grant_by_which_any_words_pass_is_called_wide_wherever_one_looks(daemon):
    add(daemon, "painter", "--type", "push", "--text", "^b$")
    assert "WIDE" not in told(daemon, "grants").stdout.partition("painter")[2]

    add(daemon, "painter", "--type", "push")
    _, row = listed(daemon, "painter")

    assert row["wide"]
    assert "WIDE" in told(daemon, "grants").stdout.partition(row["id"])[2]
    assert row["id"] in told(daemon, "status").stdout.partition("WIDE GRANT: ")[2]
    doctor = told(daemon, "doctor").stdout
    assert row["id"] in doctor.partition("grants ")[2]
    told(daemon, "grant", "revoke", row["id"])
    assert row["id"] not in told(daemon, "status").stdout


def restarts(daemon: RunningDaemon, agent: str) -> str:
    """Approve one action ten times. Return the number of the suggestion."""
    check = ("check", agent, "modify_config", "--text", "limit = 3", "--json")
    for _ in range(10):
        request_id = json.loads(told(daemon, *check).stdout)["request_id"]
        assert told(daemon, "approve", request_id).returncode == 0
        assert told(daemon, *check).returncode == 0
    rows = json.loads(told(daemon, "suggestions", "--json").stdout)["suggestions"]
    return next(str(number) for number, row in enumerate(rows, 1) if row["agent"] == agent)


@pytest.mark.req("S3.61")
def test_a_suggested_grant_is_shown_and_made_once_it_is_confirmed(daemon):
    number = restarts(daemon, "tuner")
    check = ("check", "tuner", "modify_config", "--text", "limit = 3")

    unconfirmed = told(daemon, "suggestions", "apply", number)
    assert unconfirmed.returncode == 1
    assert "A grant for tuner: modify_config, approved 10 times" in unconfirmed.stdout
    assert "text (?-i)^(?:limit = 3)$" in " ".join(unconfirmed.stdout.split())
    assert "confirm with --yes" in unconfirmed.stderr
    assert listed(daemon, "tuner") == []

    made = told(daemon, "suggestions", "apply", number, "--yes", "--json")
    (row,) = listed(daemon, "tuner")
    assert json.loads(made.stdout)["id"] == row["id"]
    assert "A grant for tuner" in made.stderr
    assert told(daemon, *check).returncode == 0
    assert "after 10 approvals since" in told(daemon, "grants").stdout

    # A denial in another folder is about the same shape.
    other = told(daemon, "propose", "tuner", stdin=PROPOSAL)
    assert told(daemon, "deny", json.loads(other.stdout)["request_id"]).returncode == 0
    assert listed(daemon, "tuner") == []
    assert told(daemon, *check).returncode == 3


PROPOSAL = '{"id":"t1","type":"modify_config","text":"limit = 3","cwd":"/srv"}'


def test_a_suggestion_without_a_number_or_without_a_grant_cannot_be_applied(daemon):
    for number in range(5):
        stdin = json.dumps({"id": f"d{number}", "type": "deploy", "text": f"v{number}"})
        asked = told(daemon, "propose", "denied", stdin=stdin)
        told(daemon, "deny", json.loads(asked.stdout)["request_id"])
    rows = json.loads(told(daemon, "suggestions", "--json").stdout)["suggestions"]
    number = next(n for n, row in enumerate(rows, 1) if row["agent"] == "denied")

    unknown = told(daemon, "suggestions", "apply", "99", "--yes")
    rule = told(daemon, "suggestions", "apply", str(number), "--yes")

    assert (unknown.returncode, rule.returncode) == (1, 1)
    assert "there is no suggestion '99'" in unknown.stderr
    assert "add it to the configuration" in rule.stderr


def test_an_observer_sees_suggestions_and_cannot_apply_them(daemon):
    number = restarts(daemon, "watched")
    told(daemon, "operator", "add", "olga", "--observer")

    shown = told(daemon, "suggestions", "--operator", "olga")
    refused = told(daemon, "suggestions", "apply", number, "--yes", "--operator", "olga")

    assert "watched: modify_config" in shown.stdout
    assert refused.returncode != 0
    assert "olga is not allowed to do that" in refused.stderr
    assert listed(daemon, "watched") == []
