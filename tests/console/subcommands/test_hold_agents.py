import json
from typing import Any

import pytest

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def heard(daemon: RunningDaemon, agent: str) -> None:
    told(daemon, "check", agent, "read_file")


def read(daemon: RunningDaemon, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(told(daemon, *arguments, "--json").stdout)
    return answer


def test_three_errors_put_an_agent_in_safe_mode_and_a_person_lets_it_go(daemon):
    with SyncSafety("failing", data_dir=daemon.data_dir) as safety:
        for number in range(3):
            allowed = safety.propose("edit_file", text=f"line {number}")
            assert allowed.allowed
            assert safety.report(allowed.id, ok=False, error="no space left")
        # Outcomes are delivered in the background.
        looks = (read(daemon, "safe-mode", "--agent", "failing") for _ in range(200))
        assert any(status["active"] for status in looks)

        assert safety.propose("read_file").allowed
        blocked = safety.propose("edit_file", text="line 4")
        assert (blocked.cause, blocked.triggered_rules) == ("safe_mode", ("safe_mode_restricted",))

        early = daemon.safetyd("safe-mode", "exit", "--agent", "failing")
        assert early.returncode == 1
        assert early.stderr.startswith("safetyd: the cooldown ends in ")

        forced = daemon.safetyd("safe-mode", "exit", "--force", "--reason", "disk is free again")
        assert (forced.returncode, forced.stdout) == (0, "Left safe mode: failing.\n")
        assert safety.propose("edit_file", text="line 5").allowed


def test_a_paused_agent_does_nothing_until_it_is_unpaused(daemon):
    heard(daemon, "resting")

    paused = daemon.safetyd("pause", "resting", "lunch")
    blocked = told(daemon, "check", "resting", "read_file")
    unpaused = daemon.safetyd("unpause", "resting")

    assert (paused.returncode, paused.stdout) == (0, "resting is paused.\n")
    assert blocked.returncode == 1
    assert "by local: lunch" in blocked.stdout
    assert unpaused.stdout.endswith(" by: operator.\n")
    assert told(daemon, "check", "resting", "read_file").returncode == 0
    assert told(daemon, "unpause", "resting").stdout == "resting was not paused.\n"


def test_a_name_that_nobody_has_is_doubted(daemon):
    heard(daemon, "builder")

    paused = told(daemon, "pause", "bilder")
    entered = told(daemon, "safe-mode", "enter", "--agent", "bilder")
    told(daemon, "safe-mode", "exit", "--agent", "bilder", "--force", "--reason", "typo")

    assert paused.returncode == entered.returncode == 1
    assert "Did you mean builder?" in paused.stdout
    assert "Did you mean builder?" in entered.stdout
    assert told(daemon, "unpause", "bilder").stdout == (
        "bilder can act again. It was paused by: operator.\n"
    )
    assert "Did you mean builder?" in told(daemon, "unpause", "bilder").stdout


def test_everybody_can_be_put_in_safe_mode_and_let_go(daemon):
    heard(daemon, "reader")

    everybody = told(daemon, "safe-mode", "enter", "--reason", "drill")
    one = told(daemon, "safe-mode", "enter", "--agent", "reader")
    status = told(daemon, "safe-mode", "--agent", "*")
    several = told(daemon, "safe-mode", "exit", "--force", "--reason", "over")
    left = told(daemon, "safe-mode", "exit", "--all", "--force", "--reason", "over")

    assert everybody.stdout == "All agents are in safe mode: only reading is allowed.\n"
    assert (one.returncode, one.stdout) == (0, "reader is in safe mode: only reading is allowed.\n")
    assert "SAFE MODE: all agents " in status.stdout
    assert several.returncode == 1
    assert "(*, reader)" in several.stderr
    assert left.stdout == "Left safe mode: all agents, reader.\n"
    assert told(daemon, "safe-mode", "exit").returncode == 0
    assert read(daemon, "safe-mode")["active"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        ("exit", "--force"),
        ("exit", "--force", "--reason", " "),
        ("enter", "--all"),
        ("status", "--force", "--reason", "x"),
        ("status", "--reason", "x"),
        ("leave",),
    ],
)
def test_options_that_would_not_be_heeded_are_wrong_usage(daemon, arguments):
    assert told(daemon, "safe-mode", *arguments).returncode == 2
    assert read(daemon, "safe-mode")["active"] is False


def test_budget_is_raised_until_midnight_and_what_cannot_be_is_said(daemon):
    raised = told(daemon, "budgets", "raise", "day", "5", "--reason", "the release")
    refused = told(daemon, "budgets", "raise", "agent:nobody", "5", "--reason", "the release")

    assert "day is $55.00 until " in raised.stdout, raised.stderr
    assert "$55.00 ($5.00 of it added)" in told(daemon, "budgets").stdout
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "agent nobody" in refused.stderr
    assert told(daemon, "budgets", "raise", "day", "5").returncode == 2
    for wrong in (("dya", "5"), ("day", "1e99"), ("day", "0")):
        said = told(daemon, "budgets", "raise", *wrong, "--reason", "x")
        assert said.returncode == 2
        assert "day, keyless, agent:NAME" in said.stderr or "US dollars" in said.stderr


def test_ack_is_noted(daemon):
    assert told(daemon, "ack").returncode == 0


def test_what_guards_know_is_shown_and_is_json_for_programs(daemon):
    told(daemon, "check", "cook", "bake_bread")

    types = told(daemon, "types").stdout

    assert "\n[types.bake_bread]\n" in types
    assert told(daemon, "budgets").stdout.startswith("BUDGET ")
    assert told(daemon, "breakers").returncode == 0
    assert read(daemon, "budgets")["budgets"][0]["scope"] == "day"
    assert "breakers" in read(daemon, "breakers")
    assert told(daemon, "limits").stdout.startswith("LIMIT ")
    assert read(daemon, "limits")["buckets"][0]["kind"] == "global"
    assert "bake_bread" in {row["type"] for row in read(daemon, "types")["unknown"]}


@pytest.mark.parametrize("command", [("pause", "a"), ("safe-mode",), ("ack",), ("budgets",)])
def test_without_a_daemon_the_exit_code_says_so(tmp_path, command):
    assert here(*command, SAFETYD_DATA_DIR=str(tmp_path)).returncode == 4


def test_every_action_of_safe_mode_answers_programs(daemon):
    heard(daemon, "reader")

    entered = read(daemon, "safe-mode", "enter", "--agent", "reader")
    held = read(daemon, "safe-mode")
    left = read(daemon, "safe-mode", "exit", "--agent", "reader", "--force", "--reason", "over")

    assert entered["ok"] is True
    assert [(one["agent"], one["by"]) for one in held["holds"]] == [("reader", "local")]
    assert (left["left"], left["still"]) == (["reader"], [])


def test_all_agents_without_a_key_are_held_and_let_go_together(daemon):
    entered = told(daemon, "safe-mode", "enter", "--agent", "*keyless")
    shown = told(daemon, "safe-mode").stdout
    left = told(daemon, "safe-mode", "exit", "--agent", "*keyless", "--force", "--reason", "over")

    assert entered.stdout == "All anonymous agents are in safe mode: only reading is allowed.\n"
    assert "by local" in shown
    assert "`safetyd safe-mode exit --agent '*keyless'`" in shown
    assert left.stdout == "Left safe mode: all anonymous agents.\n"


def test_a_reset_says_all_that_it_forgets(daemon):
    heard(daemon, "looping")

    whole = told(daemon, "reset", "looping").stdout
    part = told(daemon, "reset", "looping", "--episode", "e1").stdout

    assert "loop visits, rounds and cooldowns of looping" in whole
    assert "loop visits of looping" in part


@pytest.mark.parametrize("given", [("wrong way",), ("--reason", "wrong way")])
def test_a_reason_is_a_word_or_an_option(daemon, given):
    heard(daemon, "slowed")

    assert told(daemon, "pause", "slowed", *given).returncode == 0
    (pause,) = read(daemon, "agents", "slowed")["pauses"]
    told(daemon, "unpause", "slowed")

    assert pause["reason"] == "wrong way"
    assert told(daemon, "stop", "--agent", "slowed", *given).stdout.startswith("Stopped slowed.")
    assert told(daemon, "resume", "--agent", "slowed", *given).returncode == 0


def test_a_reason_that_is_given_twice_is_refused(daemon):
    said = told(daemon, "pause", "slowed", "one", "--reason", "two")

    assert said.returncode == 2
    assert "--reason" in said.stderr
