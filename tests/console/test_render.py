import msgspec
import pytest

from safetyd.console import render
from safetyd.console.causes import cause, ending
from safetyd.console.heard import still_open, unheard
from safetyd.console.render_audit import record
from safetyd.console.render_explain import account
from safetyd.console.render_status import status
from safetyd.console.unknown_fields import unknown_fields
from safetyd.core.decision import Decision
from safetyd.core.verdict import Severity

HOSTILE = "\x1b]0;owned\x07\u202e"


def answer(decision: Severity, **fields) -> Decision:
    return Decision(id="p-1", agent="code", decision=decision, **fields)


def test_an_allow_says_passed_for_agent_and_type():
    said = render.decision(answer(Severity.ALLOW), "read_file")

    assert said == "PASSED: All safety checks passed for code:read_file\n  id  p-1"


def test_a_block_says_why_by_which_rule_and_when_to_try_again():
    blocked = answer(
        Severity.BLOCK, reason="too fast", triggered_rules=("rate.agent",), retry_after_s=1.5
    )

    assert render.decision(blocked, "x").splitlines() == [
        "BLOCKED: too fast",
        "  rule   rate.agent",
        "  retry  in 1.5 s",
        "  id     p-1",
    ]


def test_a_question_says_that_it_needs_a_person():
    asked = answer(Severity.ASK, reason="Irreversible")

    assert render.decision(asked, "x").startswith("WAITING: needs a person: Irreversible\n")


def test_a_question_in_the_queue_names_its_request():
    asked = answer(Severity.ASK, reason="Irreversible", request_id="req_7")

    assert render.decision(asked, "x").startswith("WAITING: needs a person (req_7): Irreversible")


def test_every_view_shows_hostile_words_harmlessly():
    views = (
        render.decision(answer(Severity.BLOCK, reason=HOSTILE, triggered_rules=(HOSTILE,)), "x"),
        render.event({"timestamp": HOSTILE, "event_type": "X", "reason": HOSTILE, "metadata": {}}),
        still_open([{"agent": HOSTILE, "open_actions": ["p"], "unreported": 0}]),
        unheard("a", [{"agent": f"a{HOSTILE}"}]) + unheard(HOSTILE, []),
        *(f"{cause(stop)}{ending(stop)}" for stop in hostile_stops()),
        "".join(unknown_fields({f"text{HOSTILE}": 1})),
        record(msgspec.json.encode({"event": HOSTILE, "words": HOSTILE, HOSTILE: [HOSTILE]})),
        account(explained(text=HOSTILE, context={"diff": HOSTILE})),
        account({**explained(), "outcomes": [failed(HOSTILE)]}),
    )

    for view in views:
        assert view.replace("\n", "").isprintable()


def hostile_stops() -> list[dict[str, object]]:
    sources = ("operator", f"file:/{HOSTILE}", "environment", "anomaly", HOSTILE)
    said = {"agent": HOSTILE, "reason": HOSTILE, "by": HOSTILE, "since": HOSTILE}
    return [{**said, "source": source} for source in sources]


def failed(error: str) -> dict[str, object]:
    return {"seq": 9, "at": "2026-02-08T14:30:23Z", "agent": "code", "ok": False, "error": error}


def test_several_rules_stand_under_one_label():
    blocked = answer(Severity.BLOCK, reason="no", triggered_rules=("gate.a", "gate.b"))

    assert render.decision(blocked, "x").splitlines()[1] == "  rules  gate.a, gate.b"


def test_a_dry_run_and_a_question_that_nobody_hears_are_marked():
    asked = answer(Severity.ASK, reason="Irreversible")

    assert render.decision(asked, "x", dry_run=True).splitlines()[1:3] == [
        "  a dry run: nothing was consumed",
        "  nobody can be asked yet, so it does not happen",
    ]


def row(agent: str, *open_actions: str, unreported: int = 0) -> dict[str, object]:
    return {"agent": agent, "open_actions": open_actions, "unreported": unreported}


def test_open_actions_are_counted_by_agent_with_those_that_are_only_counted():
    rows = [row("a", "p1", "p2", unreported=1), row("b", "p3"), row("c")]

    assert still_open(rows) == (
        "Nothing new is allowed. 4 allowed actions have not reported an end: a 3, b 1; "
        "check them by hand."
    )
    assert still_open(rows, "b").endswith(
        "1 allowed action has not reported an end: b 1; check it by hand."
    )
    assert still_open(rows, "c") == ""


def test_the_same_number_is_open_in_the_list_of_agents():
    said = {"key": True, "heard_s": 1, "allowed": 3, "asked": 0, "blocked": 0, "failed": 0}

    shown = render.agents([{**row("a", "p1", unreported=2), **said}])

    assert shown.splitlines()[1].split()[-2:] == ["3", "no"]


def stop(source: str, by: str = "alice", agent: str | None = None) -> dict[str, object]:
    since = "2026-02-08T14:02:00Z"
    return {"source": source, "by": by, "reason": "drill", "agent": agent, "since": since}


@pytest.mark.parametrize(
    ("source", "by", "said"),
    [
        ("operator", "alice", "alice's command"),
        ("file:/d/HALT", "alice", "the file /d/HALT of alice"),
        ("file:/d/HALT", "file", "the file /d/HALT"),
        ("environment", "environment", "the daemon's environment"),
        ("anomaly", "anomaly", "an anomaly"),
    ],
)
def test_a_cause_is_said_in_plain_words(source, by, said):
    assert cause(stop(source, by)) == f"everything by {said} since 2026-02-08 14:02:00Z: drill"


def test_a_file_without_words_is_named_once():
    silent = {**stop("file:/d/HALT", "file"), "reason": "/d/HALT is there"}

    assert cause(silent) == "everything by the file /d/HALT since 2026-02-08 14:02:00Z"


def test_what_ends_a_stop_depends_on_its_cause(tmp_path):
    ours, theirs, directory = (tmp_path / name for name in ("ours", "theirs", "directory"))
    ours.write_text("Stopped by: a\nTime: b\nReason: c\n")
    theirs.touch()
    directory.mkdir()

    assert ending(stop("operator")) == "`safetyd resume` ends it"
    assert ending(stop("operator", agent="code")) == "`safetyd resume --agent code` ends it"
    assert ending(stop(f"file:{ours}")) == "`safetyd resume` ends it"
    assert ending(stop(f"file:{theirs}")).startswith("`safetyd resume`, which shows it and asks")
    assert f"`rm -r {directory}` ends it" in ending(stop(f"file:{directory}"))
    assert "cannot be seen from here" in ending(stop(f"file:{tmp_path}/none"))
    assert "a start of the daemon without that variable" in ending(stop("environment"))


def healthy(**more: object) -> dict[str, object]:
    still = {"active": False, "stops": [], "acknowledged": [], "silent": []}
    view = {"version": "0.1.0", "problem": "", "pid": 7, "started": "", "bus": "", "web": ""}
    view |= {"embedded": True, "data_dir": "", "mode": "", "profile": "", "agents": 1, "keys": 0}
    return {**view, "open_agents": True, "decisions": {"allow": 2}, "seq": 1, "stop": still, **more}


def test_status_begins_with_what_is_stopped_once_per_cause():
    stops = [stop("operator"), stop("file:/d/HALT")]
    halted = {"active": True, "stops": stops, "acknowledged": ["a"], "silent": ["b"]}

    said = status(healthy(stop=halted)).splitlines()

    assert [line.startswith("STOPPED: everything by ") for line in said[:4]] == [True, False] * 2
    assert said[4:7] == ["  heard it  a", "  silent    b", ""]
    assert said[7] == "safetyd 0.1.0: healthy"


def test_status_labels_its_counts_and_says_what_is_refused_or_waits():
    said = status(healthy(config_problem="mode is wrong", next_start=["web"])).splitlines()

    assert "  decided  2 allow since the start" in said
    assert "  log      1 event" in said
    assert "  refused  the newest configuration: mode is wrong" in said
    assert said[-2:] == [
        "[web] has changed and takes effect at the next start",
        "Nothing is stopped.",
    ]


def test_an_account_tells_how_it_went():
    done = {**failed(""), "ok": True}

    said = account({**explained(), "outcomes": [failed("no disk"), done]})

    assert "\n2026-02-08 14:30:23Z code reported (event 9): it failed: no disk\n" in said
    assert "\n2026-02-08 14:30:23Z code reported (event 9): it was done\n" in said


def explained(**proposal: object) -> dict[str, object]:
    decided = {
        "seq": 8,
        "at": "2026-02-08T14:30:22.5Z",
        "agent": "code",
        "type": "run_shell",
        "tier": "requires_permission",
        "risk": "high",
        "reversibility": "unknown",
        "decision": "block",
        "first": True,
        "digest": "sha256:1",
        "verdicts": [
            {
                "guard": "gate",
                "decision": "block",
                "rule": "gate.blocklist:rm_rf",
                "also": ["gate.blocklist:sudo_rm"],
                "reason": "Blocklist: matches",
            }
        ],
        "proposal": {"type": "run_shell", **proposal},
    }
    withheld = {"seq": 9, "at": "2026-02-08T14:30:23Z", "why": "stopped"}
    return {"id": "p-1", "decisions": [decided], "withheld": [withheld]}


def test_an_account_names_guard_rules_reason_proposal_and_withholding():
    said = account(explained(text="rm -rf /", paths=["a"])).splitlines()

    assert said[2] == "2026-02-08 14:30:22Z blocked (event 8)"
    assert "  gate: blocked by gate.blocklist:rm_rf, gate.blocklist:sudo_rm" in said
    assert "    Blocklist: matches" in said
    assert "    text   rm -rf /" in said
    assert '    paths  ["a"]' in said
    assert said[-1] == (
        "2026-02-08 14:30:23Z withheld (event 9): everything was stopped before it left"
    )


def test_an_event_is_one_line_with_its_rule_and_count():
    event = {
        "timestamp": "2026-02-08T14:30:22Z",
        "event_type": "ACTION_BLOCKED",
        "agent_id": "code",
        "reason": "no",
        "metadata": {"rule": "gate.loop", "count": 3},
    }

    assert render.event(event) == (
        "2026-02-08 14:30:22Z ACTION_BLOCKED code [gate.loop]: no (3 times)"
    )


def test_no_agents_is_said_in_words():
    assert render.agents([]) == "No agent has been heard yet."


def test_durations_have_one_unit():
    assert [render.duration(s) for s in (0.4, 59, 61, 7200, 90000)] == [
        "0 s",
        "59 s",
        "1 min",
        "2 h",
        "1 d",
    ]
