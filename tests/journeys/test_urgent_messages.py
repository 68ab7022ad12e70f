"""Urgent requests of others use up their own urgent messages, and nobody else's."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.bus.peer import Peer
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import PUSH, Asker
from tests.journeys.delivery_targets import Targets, targets, until

FREELY: Final = 5  # urgent messages of one party that go out as they come
CONFIG: Final = f"""
{UNLIMITED}
[notifications]
quiet_start = "00:00"
quiet_end = "00:00"
"""


@pytest.fixture
def everywhere() -> Iterator[Targets]:
    with targets() as found:
        yield found


@pytest.fixture
def daemon(start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path) -> RunningDaemon:
    daemon = start_daemon(CONFIG + everywhere.configure(tmp_path))
    for name in ("deployer", "other"):
        assert daemon.safetyd("agent", "add", name).returncode == 0
    return daemon


def made_up(daemon: RunningDaemon) -> list[str]:
    """Ask under names that somebody made up."""
    with Asker(daemon) as asker:
        return [_asked(asker.peer, f"made-up-{n}", "p1") for n in range(FREELY + 3)]


def another(daemon: RunningDaemon) -> list[str]:
    return with_key(daemon, "other", FREELY + 3)


def with_key(daemon: RunningDaemon, name: str, count: int) -> list[str]:
    key = daemon.data_dir / "keys" / "agents" / f"{name}.nk"
    with Peer(daemon.endpoint.bus, key, f"_INBOX.agent.{name}") as peer:
        return [_asked(peer, name, f"p{n}") for n in range(count)]


def _asked(peer: Peer, name: str, id_: str) -> str:
    text = f"git push origin {name} {id_}"
    payload = msgspec.json.encode({**PUSH, "id": id_, "text": text, "urgency": "high"})
    decision: dict[str, Any] = peer.ask(f"safety.v1.propose.{name}", payload).fields
    assert decision["status"] == "pending", decision
    return str(decision["request_id"])


@pytest.mark.parametrize("others", [made_up, another])
def test_urgent_requests_of_others_do_not_delay_that_of_an_agent_with_a_key(
    daemon: RunningDaemon, everywhere: Targets, others: Callable[[RunningDaemon], list[str]]
) -> None:
    first, rest = (asked := others(daemon))[:FREELY], asked[FREELY:]
    until(lambda: all(told(everywhere, ref) for ref in first), "the first ones of the others")

    (mine,) = with_key(daemon, "deployer", 1)
    until(lambda: told(everywhere, mine), "that of the agent with a key")

    # What is one too many of the others comes later.
    assert not any(told(everywhere, ref) for ref in rest)


def told(everywhere: Targets, request: str) -> bool:
    return all(
        any(request in arrival.words for arrival in everywhere.arrivals(channel))
        for channel in ("email", "webhook")
    )
