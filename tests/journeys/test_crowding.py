"""One process that holds connections without a key, and the agents that need one too."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.bus.peer import Peer, Refused
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until

pytestmark = pytest.mark.journey

MANY = 200


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def allowed(peer: Peer, name: str) -> bool:
    answer = peer.ask(f"safety.v1.propose.{name}", b'{"type":"read_file"}')
    return bool(answer.fields["decision"] == "allow")


def lets_in(daemon: RunningDaemon, name: str) -> bool:
    """Say whether an agent that comes now is heard."""
    try:
        with Peer(daemon.endpoint.bus) as peer:
            return allowed(peer, name)
    except (AssertionError, OSError, Refused):
        return False


@contextmanager
def holding(daemon: RunningDaemon, said: bytes) -> Iterator[None]:
    """Hold as many connections as one gets, each of which says one thing and then nothing."""
    with ExitStack() as stack:
        for _ in range(MANY):
            try:
                peer = stack.enter_context(Peer(daemon.endpoint.bus))
                peer.send(said)
            except (OSError, Refused):
                continue
        yield


@pytest.mark.parametrize(
    "said",
    [b"", b"SUB safety.v1.state.stop 1\r\n", b"PUB safety.v1.propose.idle 2\r\n{}\r\n"],
    ids=["nothing", "listens", "spoke once"],
)
def test_connections_that_have_been_silent_longest_give_way(
    daemon: RunningDaemon, said: bytes
) -> None:
    with Peer(daemon.endpoint.bus) as working:
        assert allowed(working, "working")

        with holding(daemon, said):
            until(lambda: lets_in(daemon, "late"))
            assert lets_in(daemon, "later")

        if b"PUB" not in said:
            assert allowed(working, "working"), "who has spoken stays while others have not"
    assert "connections without a key are ended" in daemon.log()
