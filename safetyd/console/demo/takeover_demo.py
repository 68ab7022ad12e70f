"""`safetyd demo --cluster`: a standby takes over from a daemon that is killed, and hands over."""

import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import click

from safetyd.bus.cluster_config import ClusterNode, node_config
from safetyd.bus.embedded_server import shipped_binary
from safetyd.bus.keyring import Keyring
from safetyd.client.safety import Safety
from safetyd.clock import uptime
from safetyd.console.demo.demo_daemon import end, started
from safetyd.console.failure import Failure
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.cluster_events import WriterChanged
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.journal.audit import files

HOST: Final = "127.0.0.1"
AGENT: Final = "robin"
AT_ONCE: Final = 4  # how many proposals the agent has in flight
PAUSE_S: Final = 0.02
ANSWERS: Final = 50  # before and after each event
PATIENCE_S: Final = 30.0

CONFIG: Final = """\
[web]
port = 0
[bus]
name = "{name}"
url = "{url}"
key_file = "{key}"
[journal]
replicas = 3
[rate]
attempts_per_second = 0
[rate.production.agent]
tokens_per_minute = 1_000_000
burst = 1_000_000
[rate.production.global]
tokens_per_minute = 1_000_000
burst = 1_000_000
"""


class Answer(NamedTuple):
    """The answer to one proposal, and how long the agent waited for it."""

    id: str
    allowed: bool
    asked_t: float
    waited_s: float


class Agent:
    """Proposes without end. A proposal without an answer is repeated under the same id."""

    def __init__(self, url: str, key: Path) -> None:
        self._url = url
        self._key = key
        self._sent = 0
        self._told = 0  # how many answers are shown already
        self._answered = anyio.Event()
        self.answers: list[Answer] = []

    async def propose(self) -> None:
        async with Safety(AGENT, url=self._url, key_file=self._key, deadline_s=1.0) as safety:
            while True:
                self._sent += 1
                id_, asked_t = f"{AGENT}-{self._sent}", uptime()
                decision = await safety.propose("read_file", id=id_, text="notes.txt")
                while decision.cause == "unavailable":
                    await anyio.sleep(PAUSE_S)
                    decision = await safety.propose("read_file", id=id_, text="notes.txt")
                answer = Answer(id_, decision.allowed, asked_t, uptime() - asked_t)
                self.answers.append(answer)
                self._answered.set()
                await anyio.sleep(PAUSE_S)

    async def longest_wait(self) -> float:
        """Wait until further proposals are answered. Return the longest wait since the last call.

        At least one of these proposals is sent after the call.
        """
        begun, enough = uptime(), len(self.answers) + ANSWERS
        with anyio.fail_after(PATIENCE_S):
            while len(self.answers) < enough or self.answers[-1].asked_t < begun:
                self._answered = anyio.Event()
                await self._answered.wait()
        new, self._told = self.answers[self._told :], len(self.answers)
        return max(answer.waited_s for answer in new)


class Demo:
    """Three nodes, the daemons d1 and d2, and the processes of both."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        keys = Keyring(self.data_dir("d1") / "keys")
        keys.make_own()
        self.key = keys.add("agents", AGENT)
        self._daemon_key = keys.daemon
        nodes = [_node(name) for name in ("a", "b", "c")]
        self.url = ",".join(node.url for node in nodes)
        self._configure(nodes)
        for node in nodes:
            stack.enter_context(self._running(node))

    def data_dir(self, daemon: str) -> Path:
        return self._directory / daemon

    def start(self, name: str) -> None:
        self.data_dir(name).mkdir(exist_ok=True)
        settings = CONFIG.format(name=name, url=self.url, key=self._daemon_key)
        self._processes[name] = started(self.data_dir(name), settings)

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self.end(name)

    def end(self, name: str) -> None:
        end(self._processes.pop(name))

    def end_all(self) -> None:
        for name in tuple(self._processes):
            self.end(name)

    def writer(self, daemon: str) -> str:
        """Return which daemon decides, as the audit file of this one says."""
        changes = [e for e in self.events(daemon) if isinstance(e, WriterChanged)]
        return changes[-1].daemon if changes else ""

    def events(self, daemon: str) -> list[Event]:
        return [
            decode(line)
            for path in files(self.data_dir(daemon) / "audit")
            for line in path.read_bytes().splitlines(keepends=True)[1:]
            if line.endswith(b"\n")
        ]

    def _configure(self, nodes: Sequence[ClusterNode]) -> None:
        named = [f"--node={node.name}={node.host}:{node.port}:{node.route_port}" for node in nodes]
        where = ("--out", str(self._directory), "--data-dir", str(self.data_dir("d1")))
        command = [sys.executable, "-m", "safetyd", "nats-config", "--cluster", *where, *named]
        made = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if made.returncode:
            raise Failure(f"`safetyd nats-config --cluster` failed:\n{made.stderr}")
        for node in nodes:  # the printed files are for three machines
            store = str(self._directory / "store" / node.name)
            (self._directory / f"{node.name}.conf").write_text(node_config(node, store, HOST))

    @contextmanager
    def _running(self, node: ClusterNode) -> Iterator[None]:
        with (self._directory / f"{node.name}.log").open("wb") as log:
            command = [shipped_binary(), "-c", str(self._directory / f"{node.name}.conf")]
            process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own
        try:
            yield
        finally:
            process.kill()
            process.wait()


def play_takeover() -> bool:
    """Play the demo. Return True if something was lost, doubled or refused."""
    with (
        tempfile.TemporaryDirectory(prefix="safetyd-demo-", ignore_cleanup_errors=True) as place,
        ExitStack() as stack,
    ):
        click.echo("Starting three NATS nodes and two daemons, d1 and d2 ...")
        demo = Demo(Path(place), stack)
        stack.callback(demo.end_all)
        demo.start("d1")
        demo.start("d2")
        return anyio.run(_told, demo)


async def _told(demo: Demo) -> bool:
    agent = Agent(demo.url, demo.key)
    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(agent.propose)
        await _story(demo, agent)
        tasks.cancel_scope.cancel()
    return _summary(demo, agent)


async def _story(demo: Demo, agent: Agent) -> None:
    waited_s = await agent.longest_wait()
    first = demo.writer("d2")
    click.echo(f"{first} decides, and the other daemon follows the journal as a standby.")
    click.echo(f"The agent {AGENT} proposes all the time. Its longest wait: {waited_s:.2f} s.")

    second = "d2" if first == "d1" else "d1"
    demo.kill(first)
    click.echo(f"\n{first} is killed, as by a power cut.")
    waited_s = await agent.longest_wait()
    click.echo(f"{demo.writer(second)} has taken over. The longest wait: {waited_s:.2f} s.")

    await anyio.to_thread.run_sync(demo.start, first)
    click.echo(f"\n{first} is back as a standby. Now {second} is shut down, as for an upgrade.")
    await anyio.to_thread.run_sync(demo.end, second)
    waited_s = await agent.longest_wait()
    click.echo(f"{demo.writer(first)} has taken over. The longest wait: {waited_s:.2f} s.")


def _summary(demo: Demo, agent: Agent) -> bool:
    demo.end_all()
    last = max(("d1", "d2"), key=lambda name: len(demo.events(name)))
    decided = Counter(e.id for e in demo.events(last) if isinstance(e, Decided) and e.first)
    lost = sum(answer.id not in decided for answer in agent.answers)
    doubled = sum(times > 1 for times in decided.values())
    refused = sum(not answer.allowed for answer in agent.answers)
    click.echo(f"\n{len(agent.answers)} proposals were answered, {refused} were refused.")
    click.echo(f"In the journal, {lost} of them are missing and {doubled} are there twice.")
    return bool(lost or doubled or refused)


def _node(name: str) -> ClusterNode:
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOST, 0))
        other.bind((HOST, 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    return ClusterNode(name=name, host=HOST, port=ports[0], route_port=ports[1])
