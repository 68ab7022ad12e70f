"""One process that holds many connections cannot keep others out."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.bus.server_config import MAX_AGENTS, MAX_PEOPLE
from tests.bus.peer import Peer, Refused
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.people import control, query

pytestmark = pytest.mark.journey

MANY: Final = 200


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    started = start_module_daemon()
    keyring = Keyring(started.data_dir / "keys")
    keyring.add("observers", "wall")
    keyring.add("agents", "code")
    keyring.add("agents", "idle")
    started.restart()
    return started


def allowed(peer: Peer, name: str) -> bool:
    answer = peer.ask(f"safety.v1.propose.{name}", b'{"type":"read_file"}')
    return bool(answer.fields["decision"] == "allow")


def lets_in(daemon: RunningDaemon, name: str, key: Path | None = None) -> bool:
    """Return whether an agent that connects now gets an answer."""
    try:
        with Peer(daemon.endpoint.bus, key, f"_INBOX.agent.{name}") as peer:
            return allowed(peer, name)
    except (AssertionError, OSError, Refused):
        return False


def obeys(daemon: RunningDaemon) -> bool:
    """Return whether an operator who connects now gets an answer."""
    try:
        return bool(query(daemon, "status")["ok"])
    except (AssertionError, OSError, Refused):
        return False


@contextmanager
def holding(
    daemon: RunningDaemon, said: bytes, key: Path | None = None, many: int = MANY
) -> Iterator[None]:
    """Hold as many connections as possible, each idle after one message."""
    with ExitStack() as stack:
        for _ in range(many):
            try:
                peer = stack.enter_context(Peer(daemon.endpoint.bus, key))
                peer.send(said)
            except (OSError, Refused):
                continue
        yield


@pytest.mark.parametrize(
    "said",
    [b"", b"SUB safety.v1.state.stop 1\r\n", b"PUB safety.v1.propose.quiet 2\r\n{}\r\n"],
    ids=["nothing", "listens", "spoke once"],
)
def test_the_longest_idle_connections_are_closed_first(daemon: RunningDaemon, said: bytes) -> None:
    with Peer(daemon.endpoint.bus) as working:
        assert allowed(working, "working")

        with holding(daemon, said):
            until(lambda: lets_in(daemon, "late"))
            assert lets_in(daemon, "later")

        if b"PUB" not in said:
            assert allowed(working, "working"), "who has spoken stays while others have not"
    until(lambda: "connections of anonymous agents: " in daemon.log())


def test_one_observer_cannot_keep_operators_out(daemon: RunningDaemon) -> None:
    keys = daemon.data_dir / "keys"

    with holding(daemon, b"", keys / "observers" / "wall.nk", MAX_PEOPLE):
        until(lambda: obeys(daemon))
        assert control(daemon, "stop", agent="nobody")["journalled"]

    until(lambda: "connections of wall: " in daemon.log())


def test_one_agent_cannot_keep_other_agents_out(daemon: RunningDaemon) -> None:
    keys = daemon.data_dir / "keys" / "agents"
    with Peer(daemon.endpoint.bus, keys / "idle.nk", "_INBOX.agent.idle") as working:
        assert allowed(working, "idle")

        with holding(daemon, b"", keys / "idle.nk", MAX_AGENTS):
            until(lambda: lets_in(daemon, "code", keys / "code.nk"))
            assert allowed(working, "idle"), "who has spoken stays while others have not"

    until(lambda: "connections of idle: " in daemon.log())
