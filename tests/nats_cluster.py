"""Three real nats-servers with JetStream, and links between them that can be cut.

Every route between two nodes and every connection of a client passes through a link
(`tests/tcp_links.py`). All methods block; call them in a thread from asynchronous tests.
"""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.from_thread

from safetyd.bus.cluster_config import ACCOUNTS, ROUTES, ClusterNode, node_config, routes_config
from safetyd.bus.keyring import Keyring, seed_in
from safetyd.bus.nats_client import HardenedClient
from tests.conftest import safetyd
from tests.free_ports import free_ports
from tests.nats_process import SERVER
from tests.tcp_links import TcpLinks

PATIENCE_S: Final = 60.0
NAMES: Final = ("a", "b", "c")
LATELY_NS: Final = 1.5e9
HOST: Final = "127.0.0.1"

PASSWORD: Final = "between-the-nodes-of-a-test"
# Nodes use only the links, and no addresses that they hear of each other.
UNHEARD: Final = 'advertise: "127.0.0.1:1"\n'


class Node:
    """One nats-server of the cluster. Its ports change at each start."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}
        self.frozen = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def url(self) -> str:
        """Return the node's own address, which no cut affects."""
        return f"nats://127.0.0.1:{self.port('nats')}"

    def port(self, of: str) -> int:
        return self._ports[of]

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            command = [str(SERVER), "-c", str(self.directory / "nats.conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        written = self.directory / f"{SERVER.name}_{self.pid}.ports"
        _until(lambda: self._read_ports(written), lambda: f"{self.name} did not start")

    def kill(self) -> None:
        """Kill the node, as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the node as a service manager would."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Freeze the node and wait until it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        self.frozen = True

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.frozen = False

    def ask(self, path: str) -> dict[str, Any]:
        """Return what the node's monitoring page says, or nothing if it does not answer."""
        url = f"http://127.0.0.1:{self.port('monitoring')}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, urllib.error.URLError, ValueError):
            return {}

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            if self.frozen:
                self.thaw()
            self._process.wait()
            self._process = None

    def _read_ports(self, written: Path) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} did not start: {self.log()}"
        try:
            found = json.loads(written.read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        self._ports = {name: int(urls[0].rpartition(":")[2]) for name, urls in found.items()}
        return {"nats", "monitoring", "cluster"} <= self._ports.keys()


class Clients:
    """A link to each node for one client, for example one daemon."""

    def __init__(self, cluster: "NatsCluster", name: str) -> None:
        self._cluster = cluster
        self._links = {node: f"{name}>{node}" for node in NAMES}
        self._ports = {node: cluster.links.add(link) for node, link in self._links.items()}
        for node in cluster.nodes.values():
            self.aim(node)

    @property
    def url(self) -> str:
        """Return the addresses of all nodes, separated by commas."""
        return ",".join(map(self.url_of, NAMES))

    def url_of(self, node: str) -> str:
        return f"nats://127.0.0.1:{self._ports[node]}"

    def cut(self, *nodes: str) -> None:
        """Cut this client off from these nodes, or from all of them."""
        self._cluster.links.cut(*(self._links[node] for node in nodes or NAMES))

    def heal(self) -> None:
        self._cluster.links.heal(*self._links.values())

    def aim(self, node: Node) -> None:
        if node.running:
            self._cluster.links.aim(self._links[node.name], node.port("nats"))


class NatsCluster:
    """Nodes a, b and c with the accounts that safetyd needs.

    If they are not `linked`, the routes between them pass through no links, and cannot be cut.
    """

    def __init__(self, directory: Path, *, linked: bool = True) -> None:
        self.keys = Keyring(directory / "keys")
        self.keys.make_own()
        self.operator = self.keys.operator
        self.agent = self.keys.add("agents", "code")
        self.directory = directory
        self.write_accounts()
        self.links = TcpLinks()
        ends = tuple(permutations(NAMES, 2))
        self._routes = {(a, b): f"route {a}>{b}" for a, b in ends if linked}
        own = dict.fromkeys(NAMES, -1) if linked else dict(zip(NAMES, free_ports(3), strict=True))
        ports = {(a, b): own[b] for a, b in ends}
        ports |= {ends: self.links.add(link) for ends, link in self._routes.items()}
        self._cut: set[frozenset[str]] = set()
        self.nodes = {name: self._prepared(name, own[name], ports) for name in NAMES}
        self._clients: list[Clients] = []
        self.default = self.clients("anyone")

    @property
    def url(self) -> str:
        """Return the addresses of all nodes, separated by commas."""
        return self.default.url

    def clients(self, name: str) -> Clients:
        """Add links for one client, so that it can be cut off alone."""
        self._clients.append(clients := Clients(self, name))
        return clients

    def write_accounts(self) -> None:
        """Write the accounts again, after keys have changed. `reload` loads them."""
        where = ("--out", str(self.directory), "--data-dir", str(self.directory))
        printed = safetyd("nats-config", "--cluster", *where)
        assert printed.returncode == 0, printed.stderr
        for name in NAMES:
            (self.directory / name).mkdir(exist_ok=True)
            shutil.copy(self.directory / ACCOUNTS, self.directory / name / ACCOUNTS)

    def reload(self) -> None:
        """Make the nodes read their accounts again."""
        for node in self.nodes.values():
            os.kill(node.pid, signal.SIGHUP)

    def start(self, *names: str) -> None:
        """Start nodes, or all of them, and wait until they serve JetStream."""
        for name in names or NAMES:
            node = self.nodes[name]
            node.start()
            for (_, end), link in self._routes.items():
                if end == name:
                    self.links.aim(link, node.port("cluster"))
            for clients in self._clients:
                clients.aim(node)
        if len(self.reachable()) > len(NAMES) // 2:
            for node in self.reachable():
                _until(
                    lambda node=node: node.ask("healthz").get("status") == "ok",  # type: ignore[misc]
                    lambda node=node: f"{node.name} is not healthy: {node.log()}",  # type: ignore[misc]
                )

    def kill(self, *names: str) -> None:
        """Kill nodes, or all of them, as a power cut would."""
        for name in names or NAMES:
            self.nodes[name].kill()

    def restart(self, name: str) -> None:
        """End a node as a service manager would, and start it again."""
        self.nodes[name].stop()
        self.start(name)

    def freeze(self, name: str) -> None:
        self.nodes[name].freeze()

    def thaw(self, name: str) -> None:
        self.nodes[name].thaw()

    def cut(self, name: str, *others: str) -> None:
        """Cut a node off from these nodes, or from all others. Clients can still reach it."""
        self._set(name, others, cut=True)

    def heal(self, name: str, *others: str) -> None:
        self._set(name, others, cut=False)

    def reachable(self) -> list[Node]:
        """Return the nodes that run and are not cut off from all others."""
        alone = {n for n in NAMES if all(frozenset({n, m}) in self._cut for m in NAMES if m != n)}
        nodes = (node for name, node in self.nodes.items() if name not in alone)
        return [node for node in nodes if node.running and not node.frozen]

    def leader_of(self, stream: str) -> str:
        """Wait until exactly one reachable node leads a stream, and return its name."""
        leaders: list[str] = []

        def found() -> bool:
            leaders[:] = [
                node.name
                for node in self.reachable()
                if self.seen_by(node.name, stream).get("leader") == node.name
            ]
            return len(leaders) == 1

        _until(found, lambda: f"nodes that lead {stream}: {leaders}")
        return leaders[0]

    def seen_by(self, name: str, stream: str) -> dict[str, Any]:
        """Return the leader and replicas of a stream, as one node sees them."""
        page = self.nodes[name].ask("jsz?accounts=true&streams=true&config=true")
        for account in page.get("account_details", ()):
            for found in account.get("stream_detail", ()):
                if found["name"] == stream:
                    return {**found.get("cluster", {}), "config": found["config"]}
        return {}

    def step_down(self, stream: str) -> str:
        """Make the leader of a stream step down, and return the name of the next one."""
        before = self.leader_of(stream)
        self.ask_jetstream(f"STREAM.LEADER.STEPDOWN.{stream}", before)
        _until(lambda: self.leader_of(stream) != before, lambda: f"{before} still leads {stream}")
        return self.leader_of(stream)

    def wait_until_current(self, stream: str) -> None:
        """Wait until every replica of a stream has all its messages."""
        seen: dict[str, Any] = {}

        def current() -> bool:
            seen.clear()
            seen.update(self.seen_by(self.leader_of(stream), stream))
            replicas = seen.get("replicas", [])
            wanted = seen.get("config", {}).get("num_replicas", 1) - 1
            # The leader calls a node current until it has been silent for ten seconds.
            up = all(r.get("current") and r.get("active", 0) < LATELY_NS for r in replicas)
            heard = {self.seen_by(r["name"], stream).get("leader") for r in replicas}
            return len(replicas) == wanted and up and heard <= {seen["leader"]}

        _until(current, lambda: f"not current: {seen}")

    def ask_jetstream(self, what: str, node: str, payload: bytes = b"") -> dict[str, Any]:
        """Send a request to the JetStream API through one node, with the daemon's key."""

        async def ask() -> bytes:
            client = HardenedClient()
            seed = seed_in(self.keys.daemon)
            await client.connect(
                self.nodes[node].url, nkeys_seed_str=seed, inbox_prefix="_INBOX.daemon"
            )
            try:
                answer = await client.request(f"$JS.API.{what}", payload, timeout=10)
                return bytes(answer.data)
            finally:
                await client.close()

        with anyio.from_thread.start_blocking_portal() as portal:
            found: dict[str, Any] = json.loads(portal.call(ask))
        assert "error" not in found, found
        return found

    def close(self) -> None:
        for node in self.nodes.values():
            with suppress(ProcessLookupError):
                node.kill()
        self.links.close()

    def _set(self, name: str, others: tuple[str, ...], *, cut: bool) -> None:
        for other in others or [n for n in NAMES if n != name]:
            links = self._routes[name, other], self._routes[other, name]
            if cut:
                self._cut.add(frozenset({name, other}))
                self.links.cut(*links)
            else:
                self._cut.discard(frozenset({name, other}))
                self.links.heal(*links)

    def _prepared(self, name: str, route_port: int, ports: dict[tuple[str, str], int]) -> Node:
        directory = self.directory / name
        own = ClusterNode(name=name, host=HOST, port=-1, route_port=route_port)
        others = [
            ClusterNode(name=other, host=HOST, route_port=ports[name, other])
            for other in NAMES
            if other != name
        ]
        (directory / ROUTES).write_text(UNHEARD + routes_config(others, PASSWORD))
        watched = f'http: "{HOST}:-1"\nports_file_dir: "{directory}"\n'
        text = node_config(own, str(directory / "store"), HOST)
        (directory / "nats.conf").write_text(text + watched)
        return Node(name, directory)


@contextmanager
def running_cluster(directory: Path) -> Iterator[NatsCluster]:
    """Yield a running cluster, and end it."""
    cluster = NatsCluster(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def _until(happens: Callable[[], object], otherwise: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.02)
