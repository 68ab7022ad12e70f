"""Every guard as an agent meets it: through the client library and a running daemon."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import anyio
import pytest
from jsonschema import Draft202012Validator

from docs.generate import DOCS
from safetyd.client import Blocked, Decision, Safety, Severity, SyncSafety
from safetyd.journal.audit import files
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import review
from tests.journeys.audit_record import assert_verifies
from tests.journeys.people import Listener, control

pytestmark = pytest.mark.journey

CONFIG: Final = """
mode = "development"
[rules]
allow_push_to = ["backup"]
[anomaly.repeated_action]
severity = "high"
[rate]
attempts_per_second = 0
[agents.hasty]
tokens_per_minute = 1
burst = 2
[agents.runaway]
dispatch_s = 0
"""

GOOD: Final = {
    "strategic_alignment": 4,
    "autonomy_appropriateness": 4,
    "output_quality": 4,
    "resource_efficiency": 4,
    "learning_application": 4,
}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(CONFIG)


@pytest.fixture
def people(daemon: RunningDaemon) -> Iterator[Listener]:
    with Listener(daemon) as listener:
        yield listener


Agents = Callable[[str], SyncSafety]


@pytest.fixture
def agents(daemon: RunningDaemon) -> Iterator[Agents]:
    """`agents("code")` is a client under that name."""
    opened: list[SyncSafety] = []

    def client(name: str) -> SyncSafety:
        opened.append(SyncSafety(name, data_dir=daemon.data_dir))
        return opened[-1]

    yield client
    for safety in opened:
        safety.close()


def fails(safety: SyncSafety, decision: Decision, **fields: Any) -> None:
    assert decision.allowed, decision.reason
    assert safety.report(decision.id, ok=False, error="it broke", **fields)


@pytest.mark.req("S2.24")
@pytest.mark.req("S2.47")
def test_a_stop_halts_all_agents(daemon: RunningDaemon, agents: Agents, people: Listener) -> None:
    crew = [agents(name) for name in ("one", "two", "three")]
    assert all(agent.propose("read_file").allowed for agent in crew)

    assert control(daemon, "stop", reason="drill")["ok"]
    refusals = [agent.propose("read_file") for agent in crew]
    assert control(daemon, "resume")["ok"]

    assert people.hear("EMERGENCY_STOP", None)["reason"] == "drill"
    assert [refused.cause for refused in refusals] == ["stopped"] * 3
    assert all("emergency stop is active" in refused.reason for refused in refusals)
    assert all(agent.propose("read_file").allowed for agent in crew)


def test_a_paused_agent_may_not_even_read(
    daemon: RunningDaemon, agents: Agents, people: Listener
) -> None:
    resting = agents("resting")

    assert control(daemon, "pause", agent="resting", reason="lunch")["ok"]
    paused = resting.propose("read_file")
    assert control(daemon, "unpause", agent="resting")["ok"]

    assert paused.cause == "paused"
    assert people.hear("AGENT_PAUSED", "resting")["reason"] == "lunch"
    assert resting.propose("read_file").allowed


@pytest.mark.req("S1.3")
@pytest.mark.req("S1.20")
@pytest.mark.req("S1.35")
def test_in_development_no_model_in_the_cloud_is_called(agents: Agents, people: Listener) -> None:
    cloudy = agents("cloudy")

    refused = cloudy.propose("model_call", provider="openai", model="gpt-5.2", cost_usd=0.0)

    assert (refused.decision, refused.cause) == (Severity.BLOCK, "mode_violation")
    assert people.hear("MODE_VIOLATION", "cloudy")["reason"] == refused.reason
    assert cloudy.propose("model_call", provider="ollama", model="llama3").allowed


@pytest.mark.req("S0.1")
@pytest.mark.req("S0.8")
@pytest.mark.req("S0.11")
@pytest.mark.req("S2.41")
def test_three_errors_leave_an_agent_reading_until_a_person_lets_it_go(
    daemon: RunningDaemon, agents: Agents, people: Listener
) -> None:
    clumsy = agents("clumsy")
    for number in range(3):
        fails(clumsy, clumsy.propose("edit_file", text=f"line {number}"))
    assert people.hear("SAFE_MODE_ENTERED", "clumsy")["metadata"]["errors"] == 3

    refused = clumsy.propose("edit_file", text="line 4")

    assert refused.triggered_rules == ("safe_mode_restricted",)
    assert clumsy.propose("read_file").allowed
    assert not control(daemon, "safe_mode_exit", agent="clumsy")["ok"]
    assert control(daemon, "safe_mode_exit", agent="clumsy", force=True, reason="mended")["ok"]
    assert clumsy.propose("edit_file", text="line 5").allowed


@pytest.mark.req("S2.15")
@pytest.mark.req("S2.16")
@pytest.mark.req("S3.11")
@pytest.mark.req("S3.16")
@pytest.mark.parametrize(
    ("action", "fields", "decision"),
    [
        ("read_file", {}, "allow"),
        ("edit_file", {}, "allow"),
        ("deploy", {}, "require_confirmation"),
        ("dance", {}, "require_confirmation"),
        ("push", {"remote": "origin"}, "require_confirmation"),
        ("push", {"remote": "backup"}, "allow"),
        ("change_password", {}, "block"),
    ],
)
def test_what_an_action_is_decides_whether_it_runs(
    agents: Agents, action: str, fields: dict[str, Any], decision: str
) -> None:
    assert agents("worker").propose(action, **fields).decision == decision


@pytest.mark.req("S4.1")
@pytest.mark.req("S4.26")
@pytest.mark.parametrize(
    ("action", "fields", "rule"),
    [
        ("type", {"text": "rm -rf /"}, "gate.blocklist:rm_rf"),
        ("click", {"target": {"label": "Submit Order"}}, "gate.irreversible:submit"),
        ("click", {"target": {"label": "Next"}, "confidence": 0.5}, "gate.confidence"),
        ("type", {"text": "x", "target": {"name": "password"}}, "gate.credential:password"),
    ],
)
def test_what_an_action_says_decides_whether_it_runs(
    agents: Agents, action: str, fields: dict[str, Any], rule: str
) -> None:
    refused = agents("clicker").propose(action, **fields)

    assert not refused.allowed
    assert refused.triggered_rules == (rule,)


@pytest.mark.req("S4.12")
@pytest.mark.req("S4.21")
@pytest.mark.req("S4.26")
def test_the_third_visit_of_a_state_is_a_loop_until_the_episode_ends(agents: Agents) -> None:
    lost = agents("lost")

    def click() -> Decision:
        seen = {"window_title": "Cart", "app_name": "Shop"}
        return lost.propose("click", target={"label": "Next"}, observation=seen, episode="e-1")

    causes = [click().cause for _ in range(4)]
    assert lost.episode_ended("e-1")

    assert causes[-2:] == ["loop", "loop"]
    assert click().allowed


@pytest.mark.req("S2.10")
@pytest.mark.req("S2.11")
@pytest.mark.req("S2.12")
@pytest.mark.parametrize(
    ("poor", "rule"),
    [
        ({"output_quality": 3.9}, "scores.average"),
        ({"output_quality": 1, "learning_application": 5}, "scores.critical"),
        ({"autonomy_appropriateness": 2, "output_quality": 5}, "scores.autonomy"),
    ],
)
def test_poor_scores_are_put_to_a_person(agents: Agents, poor: dict[str, float], rule: str) -> None:
    judged = agents("judged")

    refused = judged.propose("read_file", text=rule, scores={**GOOD, **poor})

    assert (refused.decision, refused.cause) == (Severity.ASK, "low_score")
    assert rule in refused.triggered_rules
    assert judged.propose("read_file", text=rule, scores=GOOD).allowed


@pytest.mark.req("S2.7")
@pytest.mark.req("S2.47")
def test_an_agent_that_dispatches_itself_without_end_is_ended(agents: Agents) -> None:
    runaway = agents("runaway")

    answers = [runaway.propose("dispatch", text=f"round {n}") for n in range(7)]

    assert [answer.allowed for answer in answers] == [True] * 5 + [False] * 2
    assert answers[-1].reason == "iteration limit reached (5 >= 5)"


@pytest.mark.req("S2.2")
def test_a_second_dispatch_within_a_minute_says_how_long_to_wait(agents: Agents) -> None:
    eager = agents("eager")

    first, second = (eager.propose("dispatch", target={"name": "ops"}) for _ in range(2))

    assert first.allowed
    assert second.cause == "cooldown"
    assert second.retry_after_s is not None
    assert 50 < second.retry_after_s <= 60
    assert eager.propose("dispatch", target={"name": "code"}).allowed


@pytest.mark.req("S2.42")
def test_check_passes_once_and_then_says_the_seconds_that_are_left(daemon: RunningDaemon) -> None:
    first = daemon.safetyd("check", "planner", "dispatch")
    second = daemon.safetyd("check", "planner", "dispatch")

    assert (first.returncode, second.returncode) == (0, 1)
    assert first.stdout.startswith("PASSED: All safety checks passed for planner:dispatch\n")
    blocked = r"BLOCKED: cooldown not elapsed \(\ds < 60s\)\n(?s:.*) in (\d+)(\.\d+)? s\n"
    said = re.match(blocked, second.stdout)
    assert said, second.stdout
    assert 50 <= int(said[1]) <= 60


@pytest.mark.req("S1.13")
@pytest.mark.req("S1.16")
@pytest.mark.req("S1.31")
def test_a_hasty_agent_is_slowed_down_and_others_are_not(agents: Agents, people: Listener) -> None:
    hasty = agents("hasty")

    answers = [hasty.propose("read_file", text=str(number)) for number in range(3)]

    assert [answer.allowed for answer in answers] == [True, True, False]
    assert (answers[-1].cause, answers[-1].limit_id) == ("rate_limit", "rate.agent:hasty")
    assert people.hear("RATE_LIMIT_BLOCK", "hasty")["metadata"]["count"] == 1
    assert agents("calm").propose("read_file").allowed


@pytest.mark.req("S1.32")
@pytest.mark.req("S1.33")
@pytest.mark.req("S2.3")
@pytest.mark.req("S2.47")
def test_a_chain_is_warned_of_and_ended_when_its_money_is_gone(
    agents: Agents, people: Listener
) -> None:
    spender = agents("spender")

    first, second, third = (
        spender.propose("model_call", provider="ollama", model="m", chain="c-1", cost_usd=cost)
        for cost in (4.0, 1.5, 1.0)
    )

    assert (first.allowed, second.allowed, third.allowed) == (True, False, True)
    assert (second.cause, second.limit_id) == ("budget", "budget.chain:c-1")
    warning = people.hear("COST_WARNING", "spender")["cost_snapshot"]
    assert (warning["scope"], warning["reserved"], warning["limit"]) == ("chain", 4.0, 5.0)
    assert people.hear("COST_BUDGET_EXCEEDED", "spender")["cost_snapshot"]["estimate"] == 1.5
    assert spender.propose("read_file", chain="c-1").cause == "budget"
    assert spender.propose("read_file", chain="c-2").allowed


@pytest.mark.req("S2.5")
def test_a_session_whose_money_is_gone_pauses_its_agent(
    daemon: RunningDaemon, agents: Agents, people: Listener
) -> None:
    lavish = agents("lavish")

    assert lavish.propose("read_file", cost_usd=9.5).allowed
    refused = lavish.propose("read_file", cost_usd=1.0)

    assert (refused.decision, refused.cause) == (Severity.ASK, "budget")
    assert people.hear("AGENT_PAUSED", "lavish")["metadata"]["source"] == "budget"
    assert lavish.propose("read_file").cause == "paused"
    assert review(daemon, "approve", refused.request_id or "")["ok"]
    assert lavish.propose("read_file", cost_usd=1.0).allowed
    assert lavish.propose("read_file", cost_usd=1.0, text="once more").allowed


@pytest.mark.req("S1.4")
@pytest.mark.req("S1.6")
@pytest.mark.req("S1.10")
@pytest.mark.req("S1.29")
def test_a_dependency_that_keeps_failing_is_left_alone_by_everybody(
    agents: Agents, people: Listener
) -> None:
    caller = agents("caller")
    for number in range(5):
        call = caller.propose("web_fetch", dependency="api", text=f"page {number}")
        fails(caller, call, dependency="api")
    assert people.hear("CIRCUIT_TRIPPED", None)["breaker_id"] == "api"

    refused = agents("bystander").propose("web_fetch", dependency="api")

    assert refused.cause == "breaker_open"
    assert refused.retry_after_s is not None
    assert caller.propose("web_fetch", dependency="other").allowed


@pytest.mark.req("S1.22")
@pytest.mark.req("S1.34")
@pytest.mark.req("S2.36")
@pytest.mark.req("S2.47")
def test_the_same_request_in_quick_succession_is_told_to_people(
    agents: Agents, people: Listener
) -> None:
    stuck = agents("stuck")

    assert all(stuck.propose("edit_file", text="again").allowed for _ in range(5))

    found = people.hear("ANOMALY_DETECTED", "stuck")
    assert found["metadata"] == {"rule": "anomaly.rapid_identical", "severity": "medium"}
    assert found["reason"] == "Rapid identical requests: edit_file 5 times in 10 s"


@pytest.mark.req("S2.35")
def test_a_severe_anomaly_pauses_its_agent(agents: Agents, people: Listener) -> None:
    frantic = agents("frantic")

    *allowed, sixth, seventh = [frantic.propose("edit_file", text="again") for _ in range(7)]

    assert all(decision.allowed for decision in allowed)
    assert (sixth.cause, seventh.cause) == ("anomaly", "paused")
    assert people.hear("AGENT_PAUSED", "frantic")["metadata"]["source"] == "anomaly"


@pytest.mark.req("S2.4")
@pytest.mark.req("S2.47")
def test_a_day_whose_money_is_gone_ends_for_all_and_a_name_too_many_is_refused(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("[bus]\nmax_agents = 2\n[budget]\nday_usd = 1\n")

    answers = []
    for name in ("first", "second", "third"):
        with SyncSafety(name, data_dir=daemon.data_dir) as safety:
            answers.append(safety.propose("read_file", cost_usd=1.0))
        assert control(daemon, "pause", agent=name)["ok"]  # or its name would make room

    assert [answer.allowed for answer in answers] == [True, False, False]
    assert [answer.limit_id for answer in answers] == [None, "budget.day", "keys.agents"]


@pytest.mark.req("S1.2")
@pytest.mark.req("S1.26")
@pytest.mark.req("S1.27")
@pytest.mark.req("S1.42")
def test_what_people_hear_is_in_the_audit_log_whose_every_line_fits_the_schema(
    daemon: RunningDaemon, agents: Agents, people: Listener
) -> None:
    agents("vandal").propose("type", text="rm -rf /")
    heard = people.hear("ACTION_BLOCKED", "vandal")

    schema = Draft202012Validator(json.loads((DOCS / "schemas" / "audit_line.json").read_text()))
    lines = [
        json.loads(line)
        for path in files(daemon.data_dir / "audit")
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]

    assert [line for line in lines if not schema.is_valid(line)] == []
    [kept] = [line for line in lines if line.get("id") == heard["id"]]
    assert {name: kept[name] for name in heard} == heard
    assert_verifies(daemon)


def test_edits_with_different_diffs_in_one_window_are_no_loop(agents: Agents) -> None:
    editor = agents("editor")

    def edits(diff: str) -> Decision:
        seen = {"window_title": "app.py - Editor", "app_name": "Editor"}
        return editor.propose(
            "edit_file", paths=["app.py"], context={"diff": diff}, observation=seen
        )

    assert all(edits(f"-{n}\n+{n + 1}\n").allowed for n in range(6))
    assert [edits("-5\n+6\n").cause for _ in range(2)][-1] == "loop"


def test_a_tight_loop_that_always_fails_runs_three_bodies(daemon: RunningDaemon) -> None:
    bodies = 0

    async def fails_again_and_again() -> Blocked:
        nonlocal bodies
        async with Safety("clumsy", data_dir=daemon.data_dir) as safety:
            while True:
                try:
                    async with safety.guard("write_log", text=f"line {bodies}"):
                        bodies += 1
                        raise OSError("it broke")  # noqa: TRY301
                except OSError:
                    continue
                except Blocked as blocked:
                    return blocked

    blocked = anyio.run(fails_again_and_again)

    assert (bodies, blocked.decision.cause) == (3, "safe_mode")


def test_a_click_that_buys_needs_approval_and_one_that_shows_does_not(agents: Agents) -> None:
    shopper = agents("shopper")

    def clicks(label: str) -> str:
        return shopper.propose("click", target={"label": label}).decision

    labels = ("Place your order", "Subscribe and save", "Cancel order", "Publish review")
    assert {clicks(label) for label in labels} == {"require_confirmation"}
    assert {clicks(label) for label in ("Show order", "Cancel", "Next")} == {"allow"}
    assert shopper.propose("git_commit", text="checkout: step 40").allowed
