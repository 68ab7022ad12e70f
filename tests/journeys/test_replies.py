"""Senders choose reply subjects, but replies cannot pass for what the daemon publishes."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import anyio
import pytest

from safetyd.bus.keyring import Keyring
from safetyd.client import Safety
from tests.bus.peer import Message, Peer
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.journeys.people import control

pytestmark = pytest.mark.journey

PATIENCE_S: Final = 15.0
ROGUE: Final = ("safety.v1.event.EMERGENCY_STOP", "safety.v1.event.X", "safety.v1.state.stop")
NOTICE: Final = b"\r\nSafetyd-Notice: 1\r\n"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    started = start_module_daemon()
    keyring = Keyring(started.data_dir / "keys")
    for name in ("code", "rogue"):
        keyring.add("agents", name)
    keyring.add("observers", "wall")
    started.restart()
    return started


def keys(daemon: RunningDaemon) -> Path:
    return daemon.data_dir / "keys"


@contextmanager
def watching(daemon: RunningDaemon, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "safetyd", "watch", *options]
    variables = environment(SAFETYD_DATA_DIR=str(daemon.data_dir))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables
    ) as watch:
        assert watch.stderr is not None
        try:
            read_until(watch.stderr, b"Ctrl-C")
            yield watch
        finally:
            watch.terminate()


def read_until(stream: IO[bytes], words: bytes) -> bytes:
    """Return the output up to these words."""
    said = b""
    while words not in said:
        ready, _, _ = select.select([stream], [], [], PATIENCE_S)
        chunk = os.read(stream.fileno(), 65536) if ready else b""
        assert chunk, f"{words!r} did not come; it said {said!r}"
        said += chunk
    return said


def ask_towards(daemon: RunningDaemon, *replies: str) -> None:
    """Send queries as an observer with these reply subjects, and wait for the replies."""
    with Peer(
        daemon.endpoint.bus, keys(daemon) / "observers" / "wall.nk", "_INBOX.op.wall"
    ) as wall:
        for reply in replies:
            wall.publish("safety.v1.query.wall", b'{"command":"safe_mode"}', reply)
            wall.publish("safety.v1.query.wall", b"nonsense", reply)
        assert wall.ask("safety.v1.query.wall", b'{"command":"safe_mode"}').fields["ok"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_reply_ends_or_reaches_an_event_subscriber(
    daemon: RunningDaemon, options: tuple[str, ...]
) -> None:
    with watching(daemon, *options) as watch:
        ask_towards(daemon, *ROGUE)
        control(daemon, "stop", agent="nobody", reason="a drill")
        assert watch.stdout is not None

        said = read_until(watch.stdout, b"a drill")

        assert watch.poll() is None
    assert b'"ok"' not in said
    control(daemon, "resume", agent="nobody")


def test_only_messages_published_by_the_daemon_carry_its_header(daemon: RunningDaemon) -> None:
    with Peer(daemon.endpoint.bus, keys(daemon) / "operator.nk", "_INBOX.op.local") as operator:
        operator.subscribe("safety.v1.event.>")
        operator.subscribe("safety.v1.state.>")
        operator.settle()
        ask_towards(daemon, *ROGUE)
        control(daemon, "stop", agent="nobody")
        control(daemon, "resume", agent="nobody")

        heard = operator.settle()

    answers = [message for message in heard if b'"ok"' in message.payload]
    events = [message for message in heard if message not in answers]
    assert len(answers) == 2 * len(ROGUE)
    assert not any(marked(message) for message in answers)
    assert {message.subject.rpartition(b".")[0] for message in events} == {
        b"safety.v1.event",
        b"safety.v1.state",
    }
    assert all(marked(message) for message in events)


def marked(message: Message) -> bool:
    return NOTICE in message.headers


async def test_no_agent_can_stop_or_answer_another_through_its_reply_subject(
    daemon: RunningDaemon,
) -> None:
    key = keys(daemon) / "agents" / "code.nk"
    async with Safety("code", url=daemon.endpoint.bus, key_file=key) as safety:
        assert (await safety.propose("read_file", text="notes")).allowed
        await anyio.to_thread.run_sync(act_up, daemon)

        decision = await safety.propose("read_file", text="plans", id="next")

    assert decision.allowed
    assert (decision.agent, decision.id) == ("code", "next")


def act_up(daemon: RunningDaemon) -> None:
    """Propose as another agent with reply subjects that the first agent subscribes to."""
    key = keys(daemon) / "agents" / "rogue.nk"
    with Peer(daemon.endpoint.bus, key, "_INBOX.agent.rogue") as rogue:
        for reply in ("safety.v1.state.stop", "safety.v1.decision.code.next"):
            payload = b'{"id":"next","type":"run_shell","text":"rm -rf /"}'
            rogue.publish("safety.v1.propose.rogue", payload, reply)
        rogue.ask("safety.v1.propose.rogue", b'{"type":"read_file"}')
