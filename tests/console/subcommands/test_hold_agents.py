import json
from typing import Any

import pytest

from safetyd.client import SyncSafety
from safetyd.console.render import guard_tables, money_tables
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told
from tests.filled import Reading

render_guards = Reading(guard_tables)
render_money = Reading(money_tables)

HOSTILE = "\x1b]0;owned\x07\u202e"


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
        assert early.stderr.startswith("safetyd: safe mode can be left in ")

        forced = daemon.safetyd("safe-mode", "exit", "--force", "--reason", "disk is free again")
        assert (forced.returncode, forced.stdout) == (0, "Out of safe mode: failing.\n")
        assert safety.propose("edit_file", text="line 5").allowed


def test_a_paused_agent_does_nothing_until_it_is_unpaused(daemon):
    heard(daemon, "resting")

    paused = daemon.safetyd("pause", "resting", "lunch")
    blocked = told(daemon, "check", "resting", "read_file")
    unpaused = daemon.safetyd("unpause", "resting")

    assert (paused.returncode, paused.stdout) == (0, "resting is paused.\n")
    assert blocked.returncode == 1
    assert "by local: lunch" in blocked.stdout
    assert unpaused.stdout == "resting may go on; it was paused by: operator.\n"
    assert told(daemon, "check", "resting", "read_file").returncode == 0
    assert told(daemon, "unpause", "resting").stdout == "resting was not paused.\n"


def test_a_name_that_nobody_has_is_doubted(daemon):
    heard(daemon, "builder")

    paused = told(daemon, "pause", "bilder")
    entered = told(daemon, "safe-mode", "enter", "--agent", "bilder")
    told(daemon, "safe-mode", "exit", "--agent", "bilder", "--force", "--reason", "typo")

    assert paused.returncode == entered.returncode == 1
    assert "did you mean builder? The pause holds for that name anyway." in paused.stdout
    assert "did you mean builder? Safe mode holds" in entered.stdout
    assert told(daemon, "unpause", "bilder").stdout == (
        "bilder may go on; it was paused by: operator.\n"
    )
    assert "did you mean builder? It was not paused." in told(daemon, "unpause", "bilder").stdout


def test_everybody_can_be_put_in_safe_mode_and_let_go(daemon):
    heard(daemon, "reader")

    everybody = told(daemon, "safe-mode", "enter", "--reason", "drill")
    one = told(daemon, "safe-mode", "enter", "--agent", "reader")
    status = told(daemon, "safe-mode", "--agent", "*")
    several = told(daemon, "safe-mode", "exit", "--force", "--reason", "over")
    left = told(daemon, "safe-mode", "exit", "--all", "--force", "--reason", "over")

    assert everybody.stdout == "Everybody is in safe mode: only reading is allowed.\n"
    assert (one.returncode, one.stdout) == (0, "reader is in safe mode: only reading is allowed.\n")
    assert "SAFE MODE: everybody may only read, by local since " in status.stdout
    assert several.returncode == 1
    assert "2 are in safe mode (*, reader)" in several.stderr
    assert left.stdout == "Out of safe mode: everybody, reader.\n"
    assert told(daemon, "safe-mode", "exit").stdout == "Nobody was in safe mode.\n"
    assert told(daemon, "safe-mode").stdout.startswith("Nobody is in safe mode (at most ")


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
    assert told(daemon, "safe-mode").stdout.startswith("Nobody is in safe mode")


def test_budget_is_raised_until_midnight_and_what_cannot_be_is_said(daemon):
    raised = told(daemon, "budgets", "raise", "day", "5", "--reason", "the release")
    refused = told(daemon, "budgets", "raise", "agent:nobody", "5", "--reason", "the release")

    assert raised.stdout.startswith("day may use $55.00 until "), raised.stderr
    assert "$55.00 ($5.00 of it added)" in told(daemon, "budgets").stdout
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there is no limit for agent nobody to raise" in refused.stderr
    assert told(daemon, "budgets", "raise", "day", "5").returncode == 2
    for wrong in (("dya", "5"), ("day", "1e99"), ("day", "0")):
        said = told(daemon, "budgets", "raise", *wrong, "--reason", "x")
        assert said.returncode == 2
        assert "day, keyless, agent:NAME" in said.stderr or "US dollars" in said.stderr


def test_ack_is_noted(daemon):
    said = told(daemon, "ack")

    assert (said.returncode, said.stdout) == (0, "Noted: somebody is there.\n")


def test_what_guards_know_is_shown_and_is_json_for_programs(daemon):
    told(daemon, "check", "cook", "bake_bread")

    types = told(daemon, "types").stdout

    assert "\n[types.bake_bread]\n" in types
    assert told(daemon, "budgets").stdout.startswith("BUDGET ")
    assert told(daemon, "breakers").returncode == 0
    assert read(daemon, "budgets")["budgets"][0]["scope"] == "day"
    assert "breakers" in read(daemon, "breakers")
    assert told(daemon, "limits").stdout.startswith("RATE OF ")
    assert read(daemon, "limits")["buckets"][0]["kind"] == "global"
    assert "bake_bread" in {row["type"] for row in read(daemon, "types")["unknown"]}


@pytest.mark.parametrize("command", [("pause", "a"), ("safe-mode",), ("ack",), ("budgets",)])
def test_without_a_daemon_the_exit_code_says_so(tmp_path, command):
    assert here(*command, SAFETYD_DATA_DIR=str(tmp_path)).returncode == 4


def safe(**fields: object) -> dict[str, object]:
    return {
        "active": True,
        "state": "safe_mode",
        "consecutive_errors": 3,
        "threshold": 3,
        "since": "2026-03-01T12:00:00Z",
        "cooldown_remaining_ms": 0,
        "agent": None,
        "agents": ["*", "code"],
        "holds": [hold("*"), hold("code", reason="")],
        **fields,
    }


def hold(agent: str, **fields: object) -> dict[str, object]:
    said = {"agent": agent, "since": "2026-03-01T12:00:00Z", "by": "alice", "reason": "drill"}
    return {**said, "cooldown_remaining_ms": 0, **fields}


def test_an_agent_that_two_kernels_hold_has_two_to_leave():
    assert render_guards.safe_mode(safe(agent="code")).splitlines() == [
        "SAFE MODE: everybody may only read, by alice since 2026-03-01 12:00:00Z: drill",
        "  now `safetyd safe-mode exit --agent '*'` ends it",
        "SAFE MODE: code may only read, by alice since 2026-03-01 12:00:00Z",
        "  now `safetyd safe-mode exit --agent code` ends it",
    ]


def test_leaving_more_than_one_command_can_says_how_many_are_left():
    gone = [f"a{n}" for n in range(64)]

    said = render_guards.left(None, {"left": gone, "more": 36, "still": ["b"]})

    assert said.endswith("a8, a9 and 54 more.\n36 more are still in it: say it again.")


def test_an_agent_that_is_not_in_safe_mode_shows_how_far_away_it_is():
    calm = safe(active=False, state="ready", consecutive_errors=1, agents=[], agent="code")

    assert render_guards.safe_mode(calm) == (
        "code is not in safe mode (ready; 1 error in a row, safe mode at 3)."
    )


def test_leaving_what_is_not_held_says_so():
    nothing = {"left": [], "more": 0, "still": []}

    assert render_guards.left("code", nothing) == "There was no safe mode of code to leave."
    assert render_guards.left("*", nothing).endswith("of everybody to leave.")


def test_leaving_says_what_still_holds():
    everybodys = {"left": ["code"], "more": 0, "still": ["*"]}
    others = {"left": ["*"], "more": 0, "still": ["a", "b"]}

    assert render_guards.left("code", everybodys).splitlines() == [
        "Out of safe mode: code.",
        "code may still only read, as everybody: `safetyd safe-mode exit --agent '*'` ends that.",
    ]
    keyless = {"left": ["code"], "more": 0, "still": ["*keyless"]}
    assert render_guards.left("code", keyless).splitlines()[1] == (
        "code may still only read, as all agents without a key: "
        "`safetyd safe-mode exit --agent '*keyless'` ends that."
    )
    assert render_guards.left("*", {**keyless, "left": ["*"]}).endswith(
        "Still in one of their own: *keyless; `safetyd safe-mode` says more."
    )
    assert render_guards.left("*", others).splitlines() == [
        "Out of safe mode: everybody.",
        "Still in one of their own: a, b; `safetyd safe-mode` says more.",
    ]


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

    assert entered.stdout == "Every agent without a key is in safe mode: only reading is allowed.\n"
    assert shown.startswith("SAFE MODE: all agents without a key may only read, by local")
    assert "`safetyd safe-mode exit --agent '*keyless'` ends it" in shown
    assert left.stdout == "Out of safe mode: all agents without a key.\n"


def test_a_reset_says_all_that_it_forgets(daemon):
    heard(daemon, "looping")

    whole = told(daemon, "reset", "looping").stdout
    part = told(daemon, "reset", "looping", "--episode", "e1").stdout

    assert "its loop visits, rounds and cooldowns are forgotten" in whole
    assert "its loop visits are forgotten" in part


def budget(**fields: object) -> dict[str, object]:
    row = {
        "scope": "day",
        "id": "2026-03-01",
        "agent": None,
        "spent": 1.5,
        "reserved": 0.25,
        "pending": 8.0,
    }
    return {**row, "limit": 50.0, "raised": 0.0, **fields}


def test_budgets_are_dollars_and_no_limit_is_none():
    view = {
        "budgets": [budget(), budget(scope="agent", id="code", agent="code", limit=None)],
        "spending": [{"agent": "code", "session": "", "model": "m", "spent": 0.0015}],
        "left_out": 2,
    }

    assert render_money.budgets(view).splitlines() == [
        "BUDGET  NAME        AGENT  SPENT  RESERVED  PENDING  LIMIT",
        "day     2026-03-01  -      $1.50  $0.25     $8.00    $50.00",
        "agent   code        code   $1.50  $0.25     $8.00    none",
        "",
        "AGENT  SESSION  MODEL  SPENT",
        "code   -        m      $0.0015",
        "",
        "2 lines left out.",
    ]


def test_budgets_without_spending_are_one_table():
    view = {"budgets": [budget()], "spending": [], "left_out": 0}

    assert len(render_money.budgets(view).splitlines()) == 2


def breaker(**fields: object) -> dict[str, object]:
    row = {"breaker": "api", "state": "half_open", "agent": None, "reason": "5 calls failed"}
    counts = {"calls": 0, "failures": 0, "probes_out": 1}
    return {**row, "keyless": False, "open_s": 31.0, **counts, **fields}


def test_breakers_say_their_state_and_why():
    closed = breaker(state="closed", agent="code", reason="", open_s=None, calls=4, failures=1)

    rows = [breaker(), breaker(keyless=True), closed]
    assert render_guards.breakers({"breakers": rows}).splitlines() == [
        "BREAKER  STATE      FOR                   CALLS  FAILED  WHY",
        "api      half open  agents with keys      -      -       5 calls failed, 31 s ago",
        "api      half open  agents without a key  -      -       5 calls failed, 31 s ago",
        "api      closed     code                  4      1       -",
    ]


def test_no_breakers_is_a_sentence():
    assert render_guards.breakers({}) == "No dependency has been called yet."


def bucket(**fields: object) -> dict[str, object]:
    row = {"kind": "agent", "id": "code", "tokens": 2.9, "burst": 120.0, "per_s": 5.0}
    return {**row, "full_s": 23.4, **fields}


def test_limits_are_a_table_of_rates_and_one_of_each_that_holds():
    common = bucket(kind="global", id="", tokens=1500.0, burst=1500.0, per_s=100.0, full_s=0.0)
    view = {
        "buckets": [common, bucket(), bucket(kind="model", id="m")],
        "iterations": [{"agent": "code", "session": "", "rounds": 3, "limit": 3}],
        "cooldowns": [{"agent": "ops", "target": "deploy", "left_s": 40.0, "cooldown_s": 60.0}],
        "left_out": 1,
    }

    assert render_guards.limits(view).splitlines() == [
        "RATE OF    NAME  LEFT          A MINUTE  FULL",
        "everybody  -     1500 of 1500  6000      now",
        "agent      code  2 of 120      300       in 23 s",
        "model      m     2 of 120      300       in 23 s",
        "",
        "AGENT  SESSION  ROUNDS",
        "code   -        3 of 3",
        "",
        "AGENT  DISPATCHES TO  AGAIN IN",
        "ops    deploy         40 s",
        "",
        "1 line left out.",
    ]


def test_limits_that_hold_nobody_back_are_one_table():
    view = {"buckets": [bucket()], "iterations": [], "cooldowns": [], "left_out": 0}

    assert len(render_guards.limits(view).splitlines()) == 2


KNOWN = {
    "type": "push",
    "tier": "requires_permission",
    "risk": "high",
    "reversibility": "irreversible",
    "human": False,
}


def test_unknown_types_come_with_what_to_write():
    row = {"type": "bake", "count": 2, "toml": '[types.bake]\ntier = "requires_permission"'}
    same = {"Push": "push"}
    view = {"types": [{**KNOWN, "human": True}, KNOWN], "same_as": same, "unknown": [row]}

    assert render_guards.types(view).splitlines() == [
        "TYPE  TIER                 RISK  REVERSIBILITY  SPEAKS TO A PERSON",
        "push  requires_permission  high  irreversible   yes",
        "push  requires_permission  high  irreversible   -",
        "",
        "NAME  SAME AS",
        "Push  push",
        "",
        *render_guards.TIERS.splitlines(),
        "",
        "Proposed, but not known. To make one known, put into the configuration:",
        "",
        "# bake: proposed 2 times",
        "[types.bake]",
        'tier = "requires_permission"',
    ]


def test_other_names_of_a_type_stand_below_the_table_and_fold():
    names = [f"another_name_{number}" for number in range(6)]
    view = {"types": [{**KNOWN, "aliases": names}, KNOWN], "same_as": {}, "unknown": []}

    assert render_guards.types(view).splitlines()[3:9] == [
        "",
        "TYPE  ALSO KNOWN AS",
        f"push  {', '.join(names[:4])},",
        f"      {', '.join(names[4:])}",
        render_guards.ONE_WORD,
        "",
    ]


def test_words_of_agents_are_harmless():
    unknown = {"type": HOSTILE, "count": 1, "toml": f'[types."{HOSTILE}"]\nx = 1'}
    spend = {"agent": HOSTILE, "session": HOSTILE, "model": HOSTILE, "spent": 1.0}
    hostile = budget(id=HOSTILE, agent=HOSTILE)
    hostile_type = {**KNOWN, "type": HOSTILE, "aliases": [HOSTILE]}
    said = (
        render_guards.types(
            {"types": [hostile_type], "same_as": {HOSTILE: HOSTILE}, "unknown": [unknown]}
        )
        + render_guards.breakers(
            {"breakers": [breaker(breaker=HOSTILE, reason=HOSTILE, agent=HOSTILE)]}
        )
        + render_money.budgets({"budgets": [hostile], "spending": [spend], "left_out": 0})
        + render_guards.limits(
            {
                "buckets": [bucket(id=HOSTILE)],
                "iterations": [{"agent": HOSTILE, "session": HOSTILE, "rounds": 3, "limit": 3}],
                "cooldowns": [{"agent": HOSTILE, "target": HOSTILE, "left_s": 4.0}],
                "left_out": 0,
            }
        )
        + render_guards.safe_mode(safe(holds=[hold(HOSTILE, by=HOSTILE, reason=HOSTILE)]))
        + render_guards.left(HOSTILE, {"left": [HOSTILE], "more": 0, "still": ["*"]})
        + render_guards.left("*", {"left": ["*"], "more": 0, "still": [HOSTILE]})
        + render_guards.unpaused(HOSTILE, {"cleared": [HOSTILE]})
    )

    assert not set(HOSTILE[:1] + HOSTILE[-2:]) & set(said)


def test_types_that_are_all_known_are_one_table_and_what_its_words_mean():
    view = {"types": [KNOWN], "same_as": {}, "unknown": []}

    assert render_guards.types(view).splitlines()[3:] == render_guards.TIERS.splitlines()


def test_breakers_that_did_not_fit_are_counted():
    assert render_guards.breakers({"breakers": [breaker()], "left_out": 2}).endswith(
        "\n\n2 lines left out."
    )


@pytest.mark.parametrize("given", [("wrong way",), ("--reason", "wrong way")])
def test_a_reason_is_a_word_or_an_option(daemon, given):
    heard(daemon, "slowed")

    assert told(daemon, "pause", "slowed", *given).returncode == 0
    (pause,) = read(daemon, "agents", "slowed")["pauses"]
    told(daemon, "unpause", "slowed")

    assert pause["reason"] == "wrong way"
    assert told(daemon, "stop", "--agent", "slowed", *given).stdout.startswith("slowed is stopped.")
    assert told(daemon, "resume", "--agent", "slowed", *given).returncode == 0


def test_a_reason_that_is_given_twice_is_refused(daemon):
    said = told(daemon, "pause", "slowed", "one", "--reason", "two")

    assert (said.returncode, said.stderr) == (
        2,
        "safetyd: the reason is given twice: leave one of them out\n",
    )
