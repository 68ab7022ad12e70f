"""The steps of docs/cluster.md lead from three machines to a cluster. All run on loopback."""

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.conftest import RunningDaemon, environment
from tests.documents.document_blocks import noted_block
from tests.free_ports import free_ports
from tests.journeys.agents import until
from tests.nats_process import SERVER

CLUSTER: Final = ROOT / "docs/cluster.md"
NODES: Final = ("a", "b", "c")
DAEMONS: Final = ("a", "b")
WEB: Final = "\n[web]\nport = 0\n"


class Machines:
    """Three machines as three folders. Host names become ports of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ports = free_ports(6)
        self.clients = dict(zip(NODES, ports[:3], strict=True))
        self.routes = dict(zip(NODES, ports[3:], strict=True))
        self.daemons: dict[str, RunningDaemon] = {}
        self.servers: list[subprocess.Popen[bytes]] = []

    def here(self, text: str, machine: str) -> str:
        """Return a block with the paths and addresses that it has in this test."""
        home = self.root / machine
        for node in NODES:
            text = text.replace(f"nats-{node}.example:4222", f"127.0.0.1:{self.clients[node]}")
            address = f"127.0.0.1:{self.clients[node]}:{self.routes[node]}"
            text = text.replace(f"{node}=nats-{node}.example", f"{node}={address}")
        text = text.replace("/etc/safetyd/safetyd.toml", str(home / "safetyd.toml"))
        text = text.replace("/var/lib/safetyd", str(home / "data"))
        text = text.replace("-g nats", f"-g {os.getgid()}")
        return text.replace("/etc/nats", str(home / "nats"))

    def run(self, note: str, machine: str, folder: Path | None = None) -> str:
        """Run a block of commands on a machine, in a folder, and return what it prints."""
        home = self.root / machine
        block = noted_block(CLUSTER, note).replace("a.conf", f"{machine}.conf")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/bash", "-ec", self.here(block, machine)],
            env=environment(SAFETYD_DATA_DIR=str(home / "data"), PATH=path),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=folder or home,
        )
        assert done.returncode == 0, f"{note}: {done.stdout}{done.stderr}"
        return done.stdout

    def configure(self, publics: list[str]) -> None:
        example = noted_block(CLUSTER, "configuration")
        shown = re.findall(r'^  "(U[A-Z2-7]{55})",$', example, re.MULTILINE)
        for name in DAEMONS:
            text = example.replace('name = "a"', f'name = "{name}"')
            for placeholder, public in zip(shown, publics, strict=True):
                text = text.replace(placeholder, public)
            (self.root / name / "safetyd.toml").write_text(self.here(text, name) + WEB)

    def install_nodes(self) -> None:
        """Write the configuration of the nodes on a, and install it on all machines."""
        self.run("nodes", "a")
        for name in NODES:
            self.run("install", name, self.root / "a/data/nodes")

    def start_nodes(self) -> None:
        """Start nats-server with the arguments of the unit."""
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read_string(noted_block(CLUSTER, "unit"))
        for name in NODES:
            config = self.root / name / "nats" / f"{name}.conf"
            text = config.read_text().replace("0.0.0.0", "127.0.0.1")
            config.write_text(text.replace("/var/lib/nats", str(self.root / name / "store")))
            command = unit["Service"]["ExecStart"].replace("a.conf", f"{name}.conf")
            command = self.here(command, name).replace("/opt/safetyd/bin/nats-server", str(SERVER))
            command = command.replace("/run/nats", str(self.root / name))
            with (self.root / f"{name}.log").open("wb") as log:
                self.servers.append(subprocess.Popen(command.split(), stderr=log))

    def update_accounts(self) -> None:
        """Write the accounts again, and reload them on all machines."""
        self.run("nodes", "a")
        for name, server in zip(NODES, self.servers, strict=True):
            shutil.copy(self.root / "a/data/nodes/accounts.conf", self.root / name / "nats")
            server.send_signal(signal.SIGHUP)

    def start_daemon(self, name: str) -> None:
        home = self.root / name
        self.daemons[name] = RunningDaemon(home, (home / "safetyd.toml").read_text())

    def close(self) -> None:
        for daemon in self.daemons.values():
            daemon.stop()
        for server in self.servers:
            server.kill()
            server.wait()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    for name in NODES:
        (tmp_path / name / "data").mkdir(mode=0o700, parents=True)
    yield machines
    machines.close()


@pytest.mark.journey
def test_the_steps_lead_to_a_cluster_that_survives_a_kill(machines: Machines) -> None:
    machines.configure([machines.run("keys", name).strip() for name in DAEMONS])
    machines.install_nodes()
    machines.start_nodes()
    for name in DAEMONS:
        machines.start_daemon(name)
    assert [machines.daemons[name].endpoint.standby for name in DAEMONS] == [False, True]

    machines.run("look", "a")
    machines.run("agent", "b")
    until((machines.root / "a/data/keys/agents/code.pub").exists)
    machines.update_accounts()
    until(lambda: machines.daemons["b"].safetyd("cluster").returncode == 0)
    machines.run("look", "b")
    machines.run("handover", "a")
    until(lambda: machines.run("look", "b").startswith("All is well: b decides"))
    machines.run("handover", "b")
    until(lambda: machines.run("look", "a").startswith("All is well: a decides"))
    machines.daemons["a"].kill()
    until(lambda: not machines.daemons["b"].endpoint.standby)
    assert machines.run("after the kill", "b").startswith("b decides")


def test_systemd_accepts_the_unit_of_the_nats_servers(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    assert analyze, "run tests/system-packages"
    unit = tmp_path / "nats-server.service"
    text = noted_block(CLUSTER, "unit").replace("/opt/safetyd/bin/nats-server", str(SERVER))
    unit.write_text(text.replace("User=nats", "User=root").replace("Group=nats", "Group=root"))

    verified = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )

    assert (verified.returncode, verified.stderr) == (0, "")
