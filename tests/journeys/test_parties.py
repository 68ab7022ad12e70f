"""Anonymous agents can invent names; nothing they do affects agents with keys."""

from typing import Any, Final

import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.hosts.recorded_telemetry import sent_now
from tests.hosts.telemetry_sender import TelemetrySender
from tests.journeys.agents import until
from tests.journeys.keyed_callers import Caller, with_keys
from tests.journeys.people import control, query

pytestmark = pytest.mark.journey

CALL: Final[dict[str, Any]] = {"type": "model_call", "model": "llama3", "cost_usd": 0.5}


def budget(daemon: RunningDaemon, scope: str) -> dict[str, object]:
    rows = query(daemon, "budgets")["budgets"]
    return next(row for row in rows if row["scope"] == scope)


def test_costs_of_anonymous_agents_use_up_only_the_anonymous_share(
    start_daemon: StartDaemon,
) -> None:
    daemon = with_keys(start_daemon, "[budget]\nsession_usd = 0\n", "code", "ops")
    with Caller(daemon) as anybody, Caller(daemon, "code") as code, Caller(daemon, "ops") as ops:
        absurd = anybody.reports("made-up", cost_usd=1e308)
        assert (absurd["ok"], absurd["code"]) == (False, "malformed")
        assert "cost_usd is 1e+308" in absurd["error"]
        for number in range(3):
            assert anybody.reports(f"made-up-{number}", cost_usd=1e9)["ok"]

        assert code.proposes(**CALL)["decision"] == "allow"
        assert budget(daemon, "day")["spent"] == 12.5
        assert anybody.proposes("honest", **CALL)["decision"] == "allow"
        assert anybody.proposes("made-up-1", **CALL)["decision"] == "block"

        assert ops.reports(cost_usd=20)["ok"]
        assert ops.reports(cost_usd=1e9)["ok"]
        assert budget(daemon, "day")["spent"] == 25
        assert ops.proposes()["cause"] == "paused"
        assert code.proposes(**CALL)["decision"] == "allow"
        assert daemon.safetyd("unpause", "ops").returncode == 0
        refused = ops.proposes(**CALL)
        assert refused["limit_id"] == "budget.share:ops"
        raised = daemon.safetyd("budgets", "raise", "agent:ops", "3", "--reason", "it was right")
        assert "$28.00" in raised.stdout, raised.stderr
        assert ops.proposes(**CALL)["decision"] == "allow"


def test_failures_of_anonymous_agents_put_only_the_anonymous_pool_in_safe_mode(
    start_daemon: StartDaemon,
) -> None:
    daemon = with_keys(start_daemon, "", "code", heard=False)
    with Caller(daemon) as anybody, Caller(daemon, "code") as code:
        for number in range(9):
            assert anybody.reports(f"made-up-{number % 3}", ok=False)["ok"]

        assert code.proposes(type="edit_file")["decision"] == "allow"
        held = anybody.proposes("honest", type="edit_file")
        assert (held["cause"], held["decision"]) == ("safe_mode", "block")
        assert anybody.proposes("honest")["decision"] == "allow"
        assert "*" not in query(daemon, "safe_mode")["agents"]

        left = daemon.safetyd(
            "safe-mode", "exit", "--agent", "*keyless", "--force", "--reason", "a drill"
        )
        assert "all anonymous agents" in left.stdout, left.stderr
        assert anybody.proposes("honest", type="edit_file")["decision"] == "allow"


CROWDED: Final = f"""{UNLIMITED}
[rate.production.model]
tokens_per_minute = 1_000_000
burst = 1_000_000
[bus]
max_agents = 20
"""


def test_invented_names_displace_no_agent_and_no_hold(
    start_daemon: StartDaemon,
) -> None:
    daemon = with_keys(start_daemon, CROWDED, "code")
    with Caller(daemon) as anybody, Caller(daemon, "code") as code:
        asked = anybody.proposes("waiting", type="push")
        assert anybody.proposes("resting")["decision"] == "allow"
        assert control(daemon, "pause", agent="resting", reason="lunch")["ok"]
        for number in range(60):
            anybody.proposes(f"made-up-{number}", text=str(number))

        assert anybody.proposes("new")["decision"] == "allow"
        assert anybody.proposes("resting")["cause"] == "paused"
        assert anybody.proposes("waiting", type="push")["request_id"] == asked["request_id"]
        names = {row["agent"] for row in query(daemon, "agents")["agents"]}
        assert len(names) == 21
        assert names > {"code", "new", "resting", "waiting", "made-up-59"}

        for number in range(1001):
            anybody.proposes("made-up-59", model=f"model-{number}", dependency=f"host-{number}")
        used = code.proposes(model="model-1000", dependency="host-1000")
        assert used["decision"] == "allow", used
    daemon.restart()
    with Caller(daemon) as anybody:
        assert anybody.proposes("newer")["decision"] == "allow"
        assert anybody.proposes("resting")["cause"] == "paused"


API: Final[dict[str, Any]] = {"dependency": "api"}
DB: Final[dict[str, Any]] = {"dependency": "db"}


def test_an_agent_that_fails_on_purpose_opens_the_breaker_only_for_itself(
    start_daemon: StartDaemon,
) -> None:
    daemon = with_keys(start_daemon, UNLIMITED, "bad", "good", "quiet")
    with (
        Caller(daemon) as anybody,
        Caller(daemon, "bad") as bad,
        Caller(daemon, "good") as good,
        Caller(daemon, "quiet") as quiet,
    ):
        for number in range(5):
            assert anybody.fails(f"made-up-{number}", **API)["decision"] == "allow"
            assert bad.fails(**API)["decision"] == "allow"

        assert bad.proposes(**API)["limit_id"] == "breaker:api/bad"
        assert anybody.proposes("made-up", **API)["limit_id"] == "breaker:api"
        assert good.fails(**API)["decision"] == "allow"  # it happens
        for _ in range(3):
            assert quiet.proposes(**API)["decision"] == "allow"
            assert good.proposes(**API)["decision"] == "allow"

        for caller in (bad, good, bad, good, bad):
            assert caller.fails(**DB)["decision"] == "allow"
        assert quiet.proposes(**DB)["limit_id"] == "breaker:db"


def test_an_absurd_report_costs_others_nothing_and_is_struck(start_daemon: StartDaemon) -> None:
    limits = "[budget]\nsession_usd = 0\nchain_usd = 0\n"
    daemon = start_daemon(limits + '[hosts]\nunasked = "tell"\n')
    with Caller(daemon) as anybody:
        assert anybody.proposes("liar")["decision"] == "allow"
        assert anybody.reports("liar", cost_usd=9e8)["ok"]
        for sent in sent_now("claude-code-2.1.326"):
            content = sent.content.replace(b"0.00014000000000000001", b"900000000.0")
            TelemetrySender(daemon, "claude").send(sent.signal, content)
        until(lambda: len(query(daemon, "budgets")["large_reports"]) == 2)

        assert budget(daemon, "day")["spent"] == 25
        assert anybody.proposes("honest", **CALL)["decision"] == "allow"
        assert anybody.proposes("liar")["cause"] == "paused"
        assert anybody.proposes("claude")["cause"] == "paused"

    shown = daemon.safetyd("budgets").stdout
    assert "budgets strike ID" in shown
    assert daemon.safetyd("budgets", "strike", "0", "--reason", "a drill").returncode != 0
    for row in query(daemon, "budgets")["large_reports"]:
        assert row["id"] in shown
        struck = daemon.safetyd("budgets", "strike", row["id"], "--reason", "a drill")
        assert f"safetyd unpause {row['agent']}" in struck.stdout, struck.stderr
    assert daemon.safetyd("unpause", "liar").returncode == 0
    with Caller(daemon) as anybody:
        assert anybody.proposes("liar", **CALL)["decision"] == "allow"
    left = budget(daemon, "day")["spent"]
    assert left != 25
    daemon.restart()
    assert budget(daemon, "day")["spent"] == left
    assert query(daemon, "budgets")["large_reports"] == []
