"""Agents learn why they were blocked, and never the command that would allow it."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from safetyd.bus.keyring import Keyring
from safetyd.console.command_table import COMMANDS
from tests.bus.peer import Peer
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.people import control, query

pytestmark = pytest.mark.journey

CONFIG: Final = """
mode = "development"
[rate]
attempts_per_second = 0
[agents.hasty]
tokens_per_minute = 1
burst = 1
[approvals]
max_pending_per_agent = 1
[decisions]
ttl_s = 60
[[rules.custom]]
name = "freeze"
when = { types = ["git_commit"] }
then = "block"
"""
COMMAND: Final = re.compile(rf"safetyd[ `'\"]+(?:{'|'.join(COMMANDS)})\b|--reason|--text|--rule")
LOW: Final = dict.fromkeys(
    (
        "strategic_alignment",
        "autonomy_appropriateness",
        "output_quality",
        "resource_efficiency",
        "learning_application",
    ),
    1,
)

# A proposal, and the rule or cause of its decision.
BLOCKS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "blocklist": ({"type": "run_shell", "text": "rm -rf /"}, "gate.blocklist:rm_rf"),
    "prohibited": ({"type": "change_password"}, "classify.prohibited"),
    "own rule": ({"type": "git_commit"}, "rules.freeze"),
    "mode": ({"type": "model_call", "model": "gpt-5"}, "mode_violation"),
    "score": ({"type": "edit_file", "scores": LOW}, "low_score"),
    "budget": ({"type": "read_file", "cost_usd": 1e6}, "budget"),
    "unknown": ({"type": "bake"}, "classify.unknown_type"),
    "too many wait": ({"type": "push", "text": "git push 2"}, "approvals.agent"),
    "malformed": ({"type": 5}, "malformed"),
    "stopped": ({"type": "read_file"}, "stopped"),
    "paused": ({"type": "read_file"}, "paused"),
    "hasty": ({"type": "read_file"}, "rate_limit"),
    "conflict": ({"type": "read_file", "id": "p1", "text": "b"}, "conflict"),
    "keyed": ({"type": "read_file"}, "malformed"),
}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon(CONFIG)
    Keyring(daemon.data_dir / "keys").add("agents", "keyed")
    daemon.restart()
    control(daemon, "stop", agent="stopped", reason="drill")
    control(daemon, "pause", agent="paused", reason="drill")
    return daemon


@pytest.fixture(scope="module")
def agent(daemon: RunningDaemon) -> Iterator[Peer]:
    with Peer(daemon.endpoint.bus) as peer:
        proposes(peer, "hasty", {"type": "read_file", "text": "a"})
        proposes(peer, "conflict", {"type": "read_file", "id": "p1", "text": "a"})
        proposes(peer, "too_many_wait", {"type": "push", "text": "git push 1"})
        yield peer


def proposes(peer: Peer, name: str, proposal: dict[str, Any]) -> bytes:
    payload = msgspec.json.encode(proposal)
    return peer.ask(f"safety.v1.propose.{name}", payload).payload


@pytest.mark.parametrize("why", BLOCKS)
def test_no_decision_shows_an_agent_how_to_approve_itself(
    daemon: RunningDaemon, agent: Peer, why: str
) -> None:
    (proposal, rule), name = BLOCKS[why], why.replace(" ", "_")
    with Peer(daemon.endpoint.bus) as listener:
        heard = listener.subscribe(f"safety.v1.decision.{name}.*")
        listener.settle()

        answer = proposes(agent, name, proposal)
        told = listener.heard(heard).payload

    decision = msgspec.json.decode(answer)
    assert decision["decision"] != "allow"
    assert rule in {*decision["triggered_rules"], decision["cause"]}
    assert decision["reason"]
    assert COMMAND.findall((answer + told).decode()) == []


@pytest.mark.parametrize("why", ["blocklist", "prohibited", "stopped", "paused"])
def test_no_permission_reply_shows_an_agent_how_to_approve_itself(agent: Peer, why: str) -> None:
    proposal, _ = BLOCKS[why]
    ask = {"action": proposal["type"], "context": {"text": proposal.get("text", "")}}

    answer = agent.ask(f"safety.v1.permission.{why}", msgspec.json.encode(ask))

    assert answer.fields["approved"] is False
    assert COMMAND.findall(answer.payload.decode()) == []


def test_no_state_message_shows_an_agent_how_to_approve_itself(agent: Peer) -> None:
    heard = agent.subscribe("safety.v1.state.stop")

    state = agent.heard(heard, 15.0)  # it is repeated every ten seconds

    assert COMMAND.findall(state.payload.decode()) == []


def test_operators_get_the_command_to_type(daemon: RunningDaemon, agent: Peer) -> None:
    proposal = {"type": "click", "text": "reset the layout"}
    decision = msgspec.json.decode(proposes(agent, "asker", proposal))

    explained = daemon.safetyd("explain", decision["id"]).stdout

    said = " ".join(explained.split())
    assert "To be allowed:" in said
    assert "after `safetyd grant add --agent asker --type click" in said


@pytest.mark.parametrize(
    ("odd", "toml"),
    [
        ("git_commits", '[types.git_commits]\nsame_as = "git_commit"'),
        ("http_request", "[types.http_request]\ntier ="),
        ("destroy", "[types.destroy]\ntier ="),
        ("keys", "[types.keys]\ntier ="),
        ("run_test", "[types.run_test]\ntier ="),
    ],
)
def test_an_unknown_type_is_never_compared_to_a_laxer_one(
    daemon: RunningDaemon, agent: Peer, odd: str, toml: str
) -> None:
    decision = msgspec.json.decode(proposes(agent, f"with-{odd}", {"type": odd}))

    (row,) = [row for row in query(daemon, "types")["unknown"] if row["type"] == odd]

    assert row["toml"].startswith(toml)
    assert ("same_as" in decision["reason"]) == ("same_as" in toml)
