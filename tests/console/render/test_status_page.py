"""What an operator reads at night: the first line says whether all is well."""

import re
from typing import Any

import pytest

from safetyd.console.render import agent_tables, status_page
from safetyd.console.render.status_page import MAX_FINDINGS, SETTINGS, WELL
from safetyd.core.events.disk_words import MAKE_ROOM
from tests.filled import reading

HOSTILE = "\x1b]0;owned\x07\u202e"
SINCE = "2026-02-08T14:02:00Z"
RAISE = "  `safetyd budgets raise day AMOUNT --reason WHY` adds to it until 2026-02-09 00:00:00Z"
MEND = "  mend it, then `safetyd reload`; until then the last good one holds"
MISSING = {"since": "2026-03-02", "day": "2026-03-04", "error": "the disk is full"}
OUTLET = {"name": "postgres", "behind": 7, "problem": "it is down"}
CALM = {
    "active": False,
    "state": "ready",
    "consecutive_errors": 0,
    "threshold": 3,
    "since": None,
    "cooldown_remaining_ms": 0,
    "agent": None,
    "agents": [],
    "holds": [],
}


status = reading(status_page.status)
agents = reading(agent_tables.agents)


def stop(source: str) -> dict[str, object]:
    return {"source": source, "by": "alice", "reason": "drill", "agent": None, "since": SINCE}


def disk(level: str, free: int, **more: object) -> dict[str, object]:
    sizes = {"free_bytes": free * 1024**3, "total_bytes": 40 * 1024**3}
    return {"level": level, "disk": "/var", **sizes, "parts": {}, **more}


def budget(scope: str, spent: float, limit: float | None) -> dict[str, object]:
    return {"scope": scope, "id": "", "agent": None, "spent": spent, "reserved": 0, "limit": limit}


def row(agent: str, **more: object) -> dict[str, object]:
    said = {"agent": agent, "key": True, "heard_s": 1, "stopped": False, "pauses": []}
    said |= {"state": "ready", "consecutive_errors": 1, "max_consecutive_errors": 3}
    said |= {"tokens": 118.7, "burst": 120.0, "iterations": 2, "max_iterations": 5}
    said |= {"allowed": 3, "asked": 0, "blocked": 4, "failed": 0}
    said |= {"open_actions": ["p1"], "unreported": 2, "anomalies": {}, "near": []}
    said |= {"reached": []}
    return {**said, "budgets": [budget("session", 0.5, 10), budget("agent", 0.5, None)], **more}


def requests(**more: object) -> dict[str, object]:
    nobody = {"channels": [], "down": [], "unnotified": 0}
    return {"pending": 0, "oldest_s": 0.0, **nobody, **more}


def answer(**more: object) -> dict[str, Any]:
    still = {"active": False, "stops": [], "acknowledged": [], "silent": []}
    view = {
        "version": "0.1.0",
        "problem": "",
        "at": SINCE,
        "pid": 7,
        "started": SINCE,
        "bus": "",
        "web": "",
    }
    view |= {"embedded": True, "data_dir": "", "agents": 0, "keys": 0}
    view |= {"open_agents": True, "decisions": {"allow": 2}, "seq": 1, "stop": still}
    view |= {"safe_mode": CALM, "paused": [], "pauses": [], "breakers": [], "tripped": 0}
    view |= {"findings": [], "found": 0, "foremost": [], "warn_ratio": 0.8, "failing": []}
    view["requests"] = requests()
    view["wide_grants"] = []
    view["keyless_today"] = None
    return {**view, "today": budget("day", 12.5, 50), **more}


def lines(**more: object) -> list[str]:
    return status(answer(**more)).splitlines()


def test_the_first_line_says_that_all_is_well():
    assert lines()[:3] == [WELL, "", "safetyd 0.1.0: healthy"]


def test_a_disk_with_room_is_a_fact_and_nothing_wrong():
    said = lines(disk=disk("good", free=30))

    assert said[0] == WELL
    assert "  disk     25 % full at /var: 30.0 GiB of 40.0 GiB is free" in said


@pytest.mark.parametrize(("level", "title"), [("warn", "FILLING"), ("critical", "NEARLY FULL")])
def test_a_disk_that_fills_is_named_with_what_fills_it_and_what_to_do(level, title):
    filled = disk(level, free=4, parts={"audit": 2 * 1024**3, "journal": 1024**3})

    assert lines(disk=filled)[:4] == [
        f"DISK {title}: the disk at /var is 90 % full: 4.0 GiB of 40.0 GiB is free",
        "  safetyd has 3.0 GiB there (audit 2.0 GiB, journal 1.0 GiB)",
        f"  {MAKE_ROOM}; once it is full nothing is allowed",
        "",
    ]
    assert lines(disk=disk(level, free=4))[2] == ""


def test_status_begins_with_what_is_stopped_once_per_cause():
    stops = [stop("operator"), {**stop("file:/d/HALT"), "by": "bob"}]
    halted = {"active": True, "stops": stops, "acknowledged": ["a"], "silent": []}

    said = lines(stop=halted)

    assert [line.startswith("STOPPED: everything by ") for line in said[:4]] == [True, False] * 2
    assert said[4:8] == ["  heard it  a", "  silent    nobody", "", "safetyd 0.1.0: healthy"]


def test_command_of_a_stop_and_the_file_that_it_wrote_are_one_stop():
    command = {**stop("operator"), "reason": "fire\ndrill"}
    stops = [command, {**stop("file:/d/HALT"), "reason": "fire drill"}]
    halted = {"active": True, "stops": stops, "acknowledged": [], "silent": []}

    said = lines(stop=halted)

    assert said[:3] == [
        (
            "STOPPED: everything by alice's command and the file /d/HALT since "
            "2026-02-08 14:02:00Z: fire\\ndrill"
        ),
        "  it ends when /d/HALT is gone; it cannot be seen from here",
        "  heard it  nobody",
    ]


def test_stop_without_a_word_is_one_stop_too():
    stops = [{**stop("operator"), "reason": ""}, {**stop("file:/d/H"), "reason": "/d/H is there"}]
    halted = {"active": True, "stops": stops, "acknowledged": [], "silent": []}

    said = lines(stop=halted)

    assert said[0].startswith("STOPPED: everything by alice's command and the file /d/H since ")
    assert said[2].startswith("  heard it")


def test_a_thousand_silent_agents_are_a_few_names_and_a_number():
    silent = [f"a{n}" for n in range(1000)]
    halted = {"active": True, "stops": [stop("operator")], "acknowledged": [], "silent": silent}

    assert lines(stop=halted)[3].endswith("a8, a9 and 990 more")


def pause(agent: str, reason: str = "lunch") -> dict[str, object]:
    return {"agent": agent, "source": "operator", "by": "alice", "reason": reason, "since": SINCE}


def breaker(**more: object) -> dict[str, object]:
    said = {"breaker": "api", "state": "half_open", "agent": None, "reason": "5 calls failed"}
    return {**said, "keyless": False, "open_s": 31.0, "wait_s": None, **more}


def finding(severity: str, **more: object) -> dict[str, object]:
    said = {"at": SINCE, "rule": "anomaly.x", "severity": severity, "message": "odd"}
    return {**said, "agent": "code", "breaker": None, "seen": False, **more}


def hold(agent: str, **more: object) -> dict[str, object]:
    said = {"agent": agent, "since": SINCE, "by": "alice", "reason": "drill"}
    return {**said, "cooldown_remaining_ms": 0, **more}


def in_safe_mode(*holds: dict[str, object]) -> dict[str, object]:
    return {**CALM, "active": True, "agents": [one["agent"] for one in holds], "holds": holds}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"problem": "the journal is gone"}, ["NOTHING IS ALLOWED: the journal is gone"]),
        (
            {"safe_mode": in_safe_mode(hold("*"))},
            [
                "SAFE MODE: everybody may only read, by alice since 2026-02-08 14:02:00Z: drill",
                "  now `safetyd safe-mode exit --agent '*'` ends it",
            ],
        ),
        (
            {"paused": ["a", "b", "c"], "pauses": [pause("a"), pause("b", "")]},
            [
                "PAUSED: a by alice since 2026-02-08 14:02:00Z: lunch",
                "  `safetyd unpause a` ends it",
                "PAUSED: b by alice since 2026-02-08 14:02:00Z",
                "  `safetyd unpause b` ends it",
                "  and 1 more: `safetyd agents`",
            ],
        ),
        (
            {
                "breakers": [breaker(), breaker(state="open", agent="code", wait_s=29.0)],
                "tripped": 4,
            },
            [
                "BREAKER: api is half open for agents with keys: 5 calls failed, 31 s ago",
                "  it is tried now, and closes by itself once that works",
                "BREAKER: api is open for code: 5 calls failed, 31 s ago",
                "  it is tried again in 29 s, and closes by itself once that works",
                "  and 2 more: `safetyd breakers`",
            ],
        ),
        (
            {"keyless_today": budget("keyless", 25, 25)},
            [
                (
                    "BUDGET: $25.00 of $25.00 is used today, all agents without a key: "
                    "what needs money is blocked"
                ),
                RAISE.replace(" day ", " keyless "),
            ],
        ),
        (
            {"today": budget("day", 40, 50)},
            ["BUDGET: $40.00 of $50.00 is used today, all agents together", RAISE],
        ),
        (
            {"today": {**budget("day", 3.9, 5), "reserved": 1.1}},
            [
                (
                    "BUDGET: $5.00 of $5.00 is used today, all agents together: "
                    "what needs money is blocked"
                ),
                "  $1.10 of it is only reserved, for actions without an outcome",
                RAISE,
            ],
        ),
        (
            {"foremost": [row("a", near=["errors", "agent"]), row("b")], "agents": 2},
            [
                (
                    "NEAR A LIMIT: a: 1 error in a row; 3 lead to safe mode "
                    "(safe_mode.max_consecutive_errors)"
                ),
                "NEAR A LIMIT: a: it has today used $0.50 (budget.agent_usd)",
                f"  {SETTINGS}",
            ],
        ),
        (
            {
                "foremost": [
                    row(
                        "a",
                        near=["tokens", "iterations", "chain", "session"],
                        reached=["tokens", "chain"],
                        budgets=[
                            {**budget("chain", 1, 1), "id": "c-7"},
                            budget("session", 9.5, 10),
                        ],
                    )
                ],
                "agents": 1,
            },
            [
                "AT A LIMIT: a: 118 of the 120 actions at once are left (agents.a.burst)",
                "AT A LIMIT: a: chain c-7 has used $1.00 of $1.00 (budget.chain_usd)",
                f"  {SETTINGS}",
                "NEAR A LIMIT: a: 2 of the 5 rounds of a session (agents.a.iterations)",
                (
                    "NEAR A LIMIT: a: session without a name has used $9.50 of $10.00 "
                    "(agents.a.session_usd)"
                ),
                f"  {SETTINGS}",
            ],
        ),
        (
            {"findings": [finding("high"), finding("low")], "found": 7},
            [
                "ANOMALY: 2026-02-08 14:02:00Z high, code: odd",
                (
                    "  the other 6 of the last hour: `safetyd anomalies`; "
                    "`safetyd ack` says that you have seen it"
                ),
            ],
        ),
        (
            {"findings": [finding("high", agent=None, breaker="api")], "found": 1},
            [
                "ANOMALY: 2026-02-08 14:02:00Z high, api: odd",
                "  `safetyd ack` says that you have seen it",
            ],
        ),
        (
            {"config_problem": "mode is wrong"},
            ["REFUSED: the newest configuration: mode is wrong", MEND],
        ),
        (
            {"missing": MISSING},
            [
                "MISSING: no snapshot of 2026-03-02 to 2026-03-04: the disk is full",
                "  that of 2026-03-04 is made up for as soon as it can be",
            ],
        ),
        (
            {"outlets": [OUTLET]},
            [
                "OUTLET: postgres is 7 events behind: it is down",
                "  `safetyd outlet status` says more; nothing is lost, and agents do not wait",
            ],
        ),
        (
            {"config_problem": "mode is wrong", "findings": [finding("high")], "found": 1},
            [
                "REFUSED: the newest configuration: mode is wrong",
                MEND,
                "ANOMALY: 2026-02-08 14:02:00Z high, code: odd",
                "  `safetyd ack` says that you have seen it",
            ],
        ),
    ],
)
def test_what_is_wrong_comes_first(wrong, said):
    assert lines(**wrong)[: len(said) + 1] == [*said, ""]


@pytest.mark.parametrize(
    "fine",
    [
        {"findings": [finding("low")], "found": 1},
        {"findings": [finding("high", seen=True)], "found": 1},
        {"today": budget("day", 39, 50)},
        {"today": budget("day", 1000, None)},
        {"foremost": [row("a")], "agents": 1},
    ],
)
def test_what_nobody_must_look_at_is_well(fine):
    assert lines(**fine)[0] == WELL


def test_safe_mode_has_a_line_for_each_kernel_with_its_own_way_out():
    held = in_safe_mode(hold("*"), hold("a", by="safetyd", cooldown_remaining_ms=42_000))
    more = {**held, "agents": ["*", "a", "b", "c"]}

    assert lines(safe_mode=more)[:5] == [
        "SAFE MODE: everybody may only read, by alice since 2026-02-08 14:02:00Z: drill",
        "  now `safetyd safe-mode exit --agent '*'` ends it",
        "SAFE MODE: a may only read, by safetyd since 2026-02-08 14:02:00Z: drill",
        "  in 42 s `safetyd safe-mode exit --agent a` ends it, before that with --force --reason",
        "  and 2 more: `safetyd safe-mode --json`; `safetyd safe-mode exit --all` ends it for all",
    ]


def test_the_anomaly_behind_a_pause_is_told_once():
    paused = {**pause("code", "odd"), "source": "anomaly", "by": "safetyd"}

    said = lines(pauses=[paused], paused=["code"], findings=[finding("high")], found=1)

    assert said[0] == "PAUSED: code by safetyd since 2026-02-08 14:02:00Z: odd"
    assert not any(line.startswith("ANOMALY") for line in said)


def test_of_many_anomalies_the_first_few_are_shown_and_the_rest_is_where_it_says():
    found = [finding("high", message=f"odd {n}") for n in range(MAX_FINDINGS + 3)]

    said = lines(findings=found, found=len(found))

    assert sum(line.startswith("ANOMALY") for line in said) == MAX_FINDINGS
    assert said[MAX_FINDINGS].startswith("  the other 3 of the last hour: `safetyd anomalies`")


def test_anomalies_that_somebody_has_seen_are_still_counted():
    said = lines(findings=[finding("high", seen=True)], found=1)

    assert "  unusual  1 finding in the last hour: `safetyd anomalies`" in said


def test_status_labels_its_counts_and_says_what_waits():
    said = lines(next_start=["web"], outlets=[{**OUTLET, "problem": ""}])

    assert "  postgres  7 events behind" in said
    assert "  decided   2 allow since the start" in said
    assert "  today     $12.50 of $50.00, all agents together" in said
    assert "  log       1 event" in said
    assert said[-1] == "[web] has changed and takes effect at the next start"


def test_what_waits_is_said_with_how_people_are_told():
    told, untold = (
        lines(requests=requests(pending=2, oldest_s=120.0, channels=channels))
        for channels in (["email", "sms"], [])
    )

    assert told[0].startswith("WAITING: 2 requests wait for a person, the oldest for 2 min")
    assert told[1] == "  `safetyd list` shows what waits. People are told by email, sms."
    assert "Nobody is told of requests: no channel is configured" in untold[1]


def test_agent_that_asks_for_most_of_many_is_named_with_what_to_do():
    loud = lines(requests=requests(pending=53, most="looper", most_pending=50))
    even = lines(requests=requests(pending=53, most="one", most_pending=26))
    few = lines(requests=requests(pending=4, most="one", most_pending=4))

    assert loud[1] == "  50 of 53 are of looper: `safetyd deny --agent looper` denies them"
    assert not any("deny" in line for line in (*even, *few))


def test_requests_that_nobody_knows_of_and_channels_that_are_down_are_said_aloud():
    said = lines(requests=requests(unnotified=1, down=["email", "s\x1bms"], channels=["email"]))

    assert said[:4] == [
        "UNTOLD: nobody knows of 1 request",
        "  `safetyd notify outbox` shows what was not sent, and why",
        "DOWN: email takes no messages; `safetyd notify channels` says why",
        "DOWN: s\\x1bms takes no messages; `safetyd notify channels` says why",
    ]


def test_agents_that_matter_are_shown_with_their_limits_and_the_rest_is_counted():
    first = row("a", near=["iterations"], iterations=5, state="safe_mode", anomalies={"x": 1})

    said = lines(foremost=[first, row("b", state="paused")], agents=1000)

    assert said[-4].split() == [
        *("AGENT", "STATE", "HEARD", "ERRORS", "RATE", "ITERATIONS"),
        *("CHAIN", "SESSION", "TODAY", "ANOMALIES"),
    ]
    assert re.split(r" {2,}", said[-3]) == [
        *("a", "safe mode", "1 s ago", "1 of 3", "118 of 120", "5 of 5 !"),
        *("-", "$0.50 of $10.00", "$0.50", "x"),
    ]
    assert said[-2].split()[:2] == ["b", "paused"]
    assert said[-1] == "and 998 more: `safetyd agents`"


def test_the_list_of_agents_counts_open_actions_with_those_that_are_only_counted():
    said = agents([row("a"), row("b", state="stopped", key=False)]).splitlines()

    assert said[0].split()[-6:] == ["KEY", "ALLOWED", "ASKED", "BLOCKED", "FAILED", "OPEN"]
    assert said[1].split()[-6:] == ["yes", "3", "0", "4", "0", "3"]
    assert (said[2].split()[1], said[2].split()[-6]) == ("stopped", "no")


def test_no_agents_is_said_in_words():
    assert agents([]) == "No agent has been heard yet."


def test_words_of_agents_and_people_are_harmless():
    hostile = row(HOSTILE, anomalies={HOSTILE: 1})
    said = status(
        answer(
            problem=HOSTILE,
            paused=[HOSTILE],
            pauses=[{**pause(HOSTILE, HOSTILE), "by": HOSTILE}],
            breakers=[breaker(breaker=HOSTILE, agent=HOSTILE, reason=HOSTILE)],
            tripped=1,
            findings=[finding("high", agent=HOSTILE, message=HOSTILE)],
            foremost=[hostile],
            config_problem=HOSTILE,
            outlets=[{**OUTLET, "name": HOSTILE, "problem": HOSTILE}],
            missing={**MISSING, "error": HOSTILE},
            safe_mode=in_safe_mode(hold(HOSTILE, by=HOSTILE, reason=HOSTILE)),
        )
    )

    assert said.replace("\n", "").isprintable()
    assert agents([hostile]).replace("\n", "").isprintable()
