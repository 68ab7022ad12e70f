"""A flood of queries from an observer hardly affects others."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Peer, Refused
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.journeys.agents import until
from tests.journeys.flood_round import (
    FLOOD_S,
    MB,
    ROUNDS,
    Round,
    assert_hardly_slower,
    flood,
    measure,
    peak_bytes,
)
from tests.journeys.people import control, query
from tests.journeys.proposer import NAMES, Proposer, introduce

pytestmark = [pytest.mark.alone, pytest.mark.journey]

AGAIN_S: Final = 1.0
ASKED: Final = 40
RETRIED_S: Final = 1.0  # time to start a command
MAX_GROWTH_BYTES: Final = 100 * MB


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    """A daemon with many known agents, and keys for an agent, observers and an operator."""
    started = start_module_daemon(UNLIMITED)
    keyring = Keyring(started.data_dir / "keys")
    keyring.add("agents", "code")
    for number in range(ROUNDS):
        keyring.add("observers", f"wall-{number}")
    keyring.add("operators", "night")
    started.restart()
    introduce(started)
    return started


def test_a_flood_of_queries_slows_neither_agents_nor_operators(daemon: RunningDaemon) -> None:
    url, keys = daemon.endpoint.bus, daemon.data_dir / "keys"

    def measured(number: int) -> Round:
        # A different observer each time, because a flooding one stays disconnected for long.
        observer = keys / "observers" / f"wall-{number}.nk"
        with Proposer(url, keys / "agents" / "code.nk") as proposer:

            def during() -> Sequence[float]:
                with flood("question_flood", url, observer):
                    waits = proposer.propose(FLOOD_S / 2)
                    assert control(daemon, "ack")["ok"]
                    until(lambda: is_answered(url, keys / "operator.nk"))
                    return waits + proposer.propose(FLOOD_S / 2)

            found = measure(proposer.propose, during, lambda: peak_bytes(daemon.pid))
        assert found.grown < MAX_GROWTH_BYTES
        assert f"{observer.stem} floods the bus with queries" in daemon.log()
        assert query(daemon, "status")["agents"] > NAMES
        return found

    assert_hardly_slower(measured)


def is_answered(url: str, key: Path) -> bool:
    with Peer(url, key, "_INBOX.op.local") as peer:
        try:
            answer = peer.ask("safety.v1.query.local", b'{"command":"status"}', AGAIN_S)
        except AssertionError:
            return False
    return bool(answer.payload and answer.fields["ok"])


def test_queries_are_limited_only_while_agents_keep_the_daemon_busy(
    daemon: RunningDaemon,
) -> None:
    url, keys = daemon.endpoint.bus, daemon.data_dir / "keys"
    with (
        Peer(url, keys / "operator.nk", "_INBOX.op.local") as peer,
        Proposer(url, keys / "agents" / "code.nk") as proposer,
        ThreadPoolExecutor() as threads,
    ):

        def ask(command: str) -> dict[str, Any]:
            asked = msgspec.json.encode({"command": command})
            return peer.ask("safety.v1.query.local", asked).fields

        assert all(ask("agents")["ok"] for _ in range(ASKED))
        assert ask("limits")["ok"]

        over = threading.Event()
        busy = threads.submit(proposing, proposer, over)
        until(lambda: ask("limits").get("retry_after_s", 0.0) > RETRIED_S or not ask("agents"))
        said = told(daemon, "limits")
        denied = told(daemon, "deny", "--agent", "code", "--yes")
        over.set()
        busy.result()

    assert said.returncode == 0
    assert 'Too many queries from operator "local". Retrying in ' in said.stderr
    assert "Too many" not in denied.stderr
    assert denied.returncode == 0


def proposing(proposer: Proposer, over: threading.Event) -> None:
    while not over.is_set():
        proposer.propose(0.25)


def test_an_operator_who_floods_queries_can_still_send_commands(daemon: RunningDaemon) -> None:
    url, key = daemon.endpoint.bus, daemon.data_dir / "keys" / "operators" / "night.nk"

    with flood("question_flood", url, key):
        until(lambda: may_not_ask(url, key))
        until(lambda: may_command(url, key))

    assert "night floods the bus with queries" in daemon.log()


# When a user is disconnected or admitted again, the server may close connections and lose
# messages, so both are repeated until they are answered.


def may_not_ask(url: str, key: Path) -> bool:
    try:
        with Peer(url, key, "_INBOX.op.night") as night:
            night.publish("safety.v1.query.night", b'{"command":"status"}')
            night.settle()
    except (Refused, AssertionError, OSError):
        return False
    return any("Permissions Violation" in error for error in night.errors)


def may_command(url: str, key: Path) -> bool:
    stop = b'{"command":"stop","agent":"nobody"}'
    try:
        with Peer(url, key, "_INBOX.op.night.command") as night:
            stopped = night.ask("safety.v1.control.night", stop, AGAIN_S)
            return bool(stopped.fields["journalled"])
    except (Refused, AssertionError, OSError):
        return False
