"""An agent cannot disable the guard by a command, a file or another name."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from safetyd.core.events.request_events import Answered, Granted
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, waiting
from tests.journeys.audit_record import assert_verifies, events

pytestmark = pytest.mark.journey

_numbers: Final = count()

# Commands that would let an agent approve itself; `{data}` is the data directory.
FORBIDDEN: Final = (
    "safetyd grant add --agent code --type run_shell --text '.*' --uses 9 --for 1h --reason x",
    "rm {data}/EMERGENCY_STOP",
    "cat {data}/keys/operator.nk",
    "systemctl stop safetyd",
    "nats pub safety.v1.review.local '{}'",
    "cd /tmp && cat /proc/self/root{data}/keys/links.json",
)


@pytest.fixture(scope="module", params=["strict", "coding"])
def daemon(start_module_daemon: StartDaemon, request: pytest.FixtureRequest) -> RunningDaemon:
    return start_module_daemon(f'profile = "{request.param}"\n{UNLIMITED}')


@pytest.fixture
def agent(daemon: RunningDaemon) -> Iterator[Asker]:
    """Yield an agent without any past requests."""
    with Asker(daemon, f"agent{next(_numbers)}") as asker:
        yield asker


def shell(agent: Asker, command: str) -> dict[str, Any]:
    return agent.propose(f"s{next(_numbers)}", type="run_shell", text=command)


def test_an_agent_cannot_approve_its_own_request(daemon: RunningDaemon, agent: Asker) -> None:
    push = {"type": "run_shell", "text": "git push origin main"}
    asked = agent.propose("push-1", **push)
    request = asked["request_id"]

    tried = shell(agent, f"safetyd approve {request}")
    again = agent.propose("push-2", **push)

    assert asked["status"] == again["status"] == "pending"
    assert again["request_id"] == request
    assert (tried["decision"], tried["request_id"]) == ("block", None)
    assert "gate.own" in tried["triggered_rules"]
    assert "the text names safetyd" in tried["reason"]
    assert request in {row["id"] for row in waiting(daemon)}


def test_commands_that_touch_safetyds_own_files_are_never_allowed(
    daemon: RunningDaemon, agent: Asker
) -> None:
    commands = [command.replace("{data}", str(daemon.data_dir)) for command in FORBIDDEN]

    answers = {command: shell(agent, command) for command in commands}

    passed = {c: a["reason"] for c, a in answers.items() if a["decision"] != "block"}
    assert passed == {}
    said = ("the text names", "belongs to safetyd")
    assert all(any(why in answer["reason"] for why in said) for answer in answers.values())
    assert not [e for e in events(daemon.data_dir) if isinstance(e, Answered | Granted)]
    assert_verifies(daemon)


def test_an_operator_can_allow_one_exact_command_on_safetyds_files_but_no_path(
    daemon: RunningDaemon, agent: Asker
) -> None:
    usual, text = shell(agent, "make it"), "make it; safetyd watch"
    key = str(daemon.data_dir / "keys" / "operator.nk")
    terms = ("--uses", "2", "--for", "1h", "--reason", "it looks", "--rule", "gate.own")

    def grant(pattern: str) -> int:
        added = daemon.safetyd("grant", "add", "--agent", agent.name, "--text", pattern, *terms)
        return added.returncode

    assert shell(agent, text)["decision"] == "block"
    assert grant("safetyd") == 1
    assert grant("^make it\\; safetyd watch$") == 0

    assert shell(agent, text)["decision"] == usual["decision"]
    assert shell(agent, f"{text}; safetyd stop")["decision"] == "block"
    read = agent.propose("key", type="read_file", text=text, paths=[key])
    assert (read["decision"], read["triggered_rules"][-1]) == ("block", "gate.own")


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "key", "text": "a", "target": {"window": "safetyd review"}},
        {"type": "click", "target": {"label": "OK"}, "observation": {"window_title": "safetyd"}},
        {"type": "edit_file", "target": {"path": "{data}/keys/operators/evil.pub"}},
        {"type": "edit_file", "place": "{data}/keys/operators/evil.pub"},
        {"type": "edit_file", "target": {"role": "{data}/EMERGENCY_STOP"}},
        {"type": "run_shell", "text": "ls", "cwd": "{data}/keys"},
    ],
    ids=str,
)
def test_safetyds_own_files_are_found_in_long_texts_and_unknown_fields(
    daemon: RunningDaemon, agent: Asker, fields: dict[str, Any]
) -> None:
    written = json.loads(json.dumps(fields).replace("{data}", str(daemon.data_dir)))

    answer = agent.propose("p1", **{"text": "", **written})

    assert (answer["decision"], answer["triggered_rules"][-1]) == ("block", "gate.own")


def test_an_agent_cannot_contact_the_ports_that_the_daemon_chose(
    daemon: RunningDaemon, agent: Asker
) -> None:
    ports = {urlsplit(url).port for url in (daemon.endpoint.web, daemon.endpoint.bus)}
    said = [f"http://{host}:{port}/" for host in ("127.1", "0", "localhost") for port in ports]

    answers = {
        url: [
            shell(agent, f"curl -s {url}"),
            agent.propose(f"s{next(_numbers)}", type="web_fetch", target={"url": url}),
            agent.propose(f"s{next(_numbers)}", type="mcp_read", text=f'x/get {{"url": "{url}"}}'),
        ]
        for url in said
    }

    assert None not in ports
    passed = [url for url in said for a in answers[url] if "gate.own" not in a["triggered_rules"]]
    assert passed == []
