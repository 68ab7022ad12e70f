"""Every guard through the client library and a running daemon."""

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
"""

GOOD: Final = {
    "strategic_alignment": 4,
    "autonomy_appropriateness": 4,
    "output_quality": 4,
    "resource_efficiency": 4,
    "learning_application": 4,
}
PASSWORD: Final = {"name": "password"}


def poor(**scores: float) -> dict[str, Any]:
    return {"scores": {**GOOD, **scores}}


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
    """Return a function that opens a client under a name."""
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
def test_a_stop_blocks_all_agents(daemon: RunningDaemon, agents: Agents, people: Listener) -> None:
    crew = [agents(name) for name in ("one", "two", "three")]
    assert all(agent.propose("read_file").allowed for agent in crew)

    assert control(daemon, "stop", reason="drill")["ok"]
    refusals = [agent.propose("read_file") for agent in crew]
    assert control(daemon, "resume")["ok"]

    assert people.hear("EMERGENCY_STOP", None)["reason"] == "drill"
    assert [refused.cause for refused in refusals] == ["stopped"] * 3
    assert all("emergency stop is active" in refused.reason for refused in refusals)
    assert all(agent.propose("read_file").allowed for agent in crew)


def test_a_paused_agent_cannot_even_read(
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
def test_development_mode_blocks_cloud_models(agents: Agents, people: Listener) -> None:
    cloudy = agents("cloudy")

    refused = cloudy.propose("model_call", provider="openai", model="gpt-5.2", cost_usd=0.0)

    assert (refused.decision, refused.cause) == (Severity.BLOCK, "mode_violation")
    assert people.hear("MODE_VIOLATION", "cloudy")["reason"] == refused.reason
    assert cloudy.propose("model_call", provider="ollama", model="llama3").allowed


@pytest.mark.req("S0.1")
@pytest.mark.req("S0.8")
@pytest.mark.req("S0.11")
@pytest.mark.req("S2.41")
def test_three_errors_put_an_agent_in_safe_mode_until_an_operator_ends_it(
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


@pytest.mark.req("S2.10", "S2.11", "S2.12", "S2.15", "S2.16", "S3.11", "S3.16", "S4.1", "S4.26")
@pytest.mark.parametrize(
    ("action", "fields", "decision", "rule"),
    [
        ("read_file", {"scores": GOOD}, Severity.ALLOW, None),
        ("edit_file", {}, Severity.ALLOW, None),
        ("deploy", {}, Severity.ASK, "classify.high"),
        ("dance", {}, Severity.ASK, "classify.unknown_type"),
        ("push", {"remote": "origin"}, Severity.ASK, "classify.high"),
        ("push", {"remote": "backup"}, Severity.ALLOW, None),
        ("change_password", {}, Severity.BLOCK, "classify.prohibited"),
        ("type", {"text": "rm -rf /"}, Severity.BLOCK, "gate.blocklist:rm_rf"),
        ("type", {"text": "x", "target": PASSWORD}, Severity.ASK, "gate.credential:password"),
        ("click", {"target": {"label": "Submit"}}, Severity.ASK, "gate.irreversible:submit"),
        ("click", {"confidence": 0.5}, Severity.ASK, "gate.confidence"),
        ("read_file", poor(output_quality=3.9), Severity.ASK, "scores.average"),
        ("read_file", poor(output_quality=1), Severity.ASK, "scores.critical"),
        ("read_file", poor(autonomy_appropriateness=2), Severity.ASK, "scores.autonomy"),
    ],
)
def test_type_and_text_of_an_action_decide_its_verdict(
    agents: Agents, action: str, fields: dict[str, Any], decision: Severity, rule: str | None
) -> None:
    answer = agents(action).propose(action, **fields)

    assert answer.decision is decision
    assert rule in (answer.triggered_rules or (None,))


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


@pytest.mark.req("S2.42")
def test_a_cooldown_check_passes_once_and_then_gives_the_remaining_seconds(
    daemon: RunningDaemon,
) -> None:
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
def test_only_the_fast_agent_is_rate_limited(agents: Agents, people: Listener) -> None:
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
def test_a_chain_budget_warns_and_then_blocks(agents: Agents, people: Listener) -> None:
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
def test_an_exhausted_session_budget_pauses_the_agent(
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
def test_the_breaker_opens_for_all_agents_when_a_dependency_keeps_failing(
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


@pytest.mark.req("S1.22", "S1.34", "S2.35", "S2.36", "S2.47")
def test_rapid_repetition_raises_an_alert_and_then_pauses_the_agent(
    agents: Agents, people: Listener
) -> None:
    frantic = agents("frantic")

    *allowed, sixth, seventh = [frantic.propose("edit_file", text="again") for _ in range(7)]

    assert all(decision.allowed for decision in allowed)
    found = people.hear("ANOMALY_DETECTED", "frantic")
    assert found["metadata"] == {"rule": "anomaly.rapid_identical", "severity": "medium"}
    assert (sixth.cause, seventh.cause) == ("anomaly", "paused")
    assert people.hear("AGENT_PAUSED", "frantic")["metadata"]["source"] == "anomaly"


@pytest.mark.req("S1.2")
@pytest.mark.req("S1.26")
@pytest.mark.req("S1.27")
@pytest.mark.req("S1.42")
def test_every_audit_line_matches_the_schema(
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


def test_a_failing_loop_runs_three_times(daemon: RunningDaemon) -> None:
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
