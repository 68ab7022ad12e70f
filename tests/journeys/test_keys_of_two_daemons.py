"""Two daemons on one external bus share keys, also while one of them is a standby."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.client import OK
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from safetyd.bus.keyring import Keyring, Role, public_key
from safetyd.core.events.daemon_events import KeysChanged
from safetyd.notify.links.signing_keys import LinkKeys
from tests.bus.peer import Peer, Refused
from tests.conftest import RunningDaemon, environment, safetyd
from tests.journeys.agents import UNBOUNDED, until
from tests.journeys.audit_record import events
from tests.journeys.test_second_daemon import JETSTREAM
from tests.nats_process import NatsProcess

PROPOSAL = b'{"type": "read_file", "text": "notes.txt"}'
PID_FILE = 'pid_file: "{}"\n'


class TwoDaemons:
    """An external bus and two daemons, each with its own keys. The second one is a standby."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.homes = [directory / name for name in ("one", "two")]
        self.rings = [Keyring(home / "data" / "keys") for home in self.homes]
        for home, ring in zip(self.homes, self.rings, strict=True):
            (home / "data").mkdir(mode=0o700, parents=True)
            ring.make_own()
        self.daemons: list[RunningDaemon] = []

    def start(self) -> None:
        """Start the bus with the keys of the first daemon, then both daemons."""
        config = self.directory / "bus.toml"
        config.write_text(self.config(0, "nats://127.0.0.1:1"))
        where = ("--config", str(config), "--data-dir", str(self.homes[0] / "data"))
        accounts = safetyd("nats-config", *where).stdout
        (self.directory / "accounts.conf").write_text(accounts)
        pid_file = PID_FILE.format(self.directory / "nats.pid")
        store = JETSTREAM.format(store=self.directory / "store")
        self.bus = NatsProcess(self.directory, pid_file + store)
        for number, home in enumerate(self.homes):
            self.daemons.append(RunningDaemon(home, UNBOUNDED + self.config(number, self.bus.url)))
        assert self.daemons[1].endpoint.standby

    def config(self, number: int, url: str) -> str:
        own, publics = self.rings[number].daemon, [public_key(ring.daemon) for ring in self.rings]
        return f'[bus]\nurl = "{url}"\nkey_file = "{own}"\ndaemons = {publics}\n'

    def copied(self, role: Role, name: str) -> Path:
        """Add a key on the first daemon. Return a copy of its seed, which nobody deletes."""
        copy = self.directory / f"{name}.nk"
        copy.write_bytes(self.rings[0].add(role, name).read_bytes())
        return copy

    def stop(self) -> None:
        for daemon in self.daemons:
            with suppress(AssertionError):
                daemon.stop()
        self.bus.stop()

    @contextmanager
    def accounts_followed(self) -> Iterator[None]:
        """Keep the accounts of the bus up to date."""
        config, out = self.daemons[0].config_path, self.directory / "accounts.conf"
        files = ["--out", str(out), "--pid-file", str(self.directory / "nats.pid")]
        command = [sys.executable, "-m", "safetyd", "nats-accounts", "--config", str(config)]
        with (self.directory / "follower.log").open("wb") as log:
            follower = subprocess.Popen([*command, *files], stderr=log, env=environment())
            try:
                yield
            finally:
                follower.terminate()
                follower.wait()

    def agent(self, seed: Path, name: str) -> Peer:
        return Peer(self.bus.url, seed, f"_INBOX.agent.{name}")

    def person(self, seed: Path, name: str) -> Peer:
        return Peer(self.bus.url, seed, f"_INBOX.op.{name}")

    def is_let_in(self, seed: Path, name: str) -> bool:
        try:
            self.agent(seed, name).close()
        except (Refused, ConnectionError):
            return False
        return True


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoDaemons]:
    two = TwoDaemons(tmp_path)
    yield two
    two.stop()


def ask(peer: Peer, verb: str, name: str, payload: bytes) -> dict[str, Any]:
    return peer.ask(f"safety.v1.{verb}.{name}", payload).fields


def command(peer: Peer, verb: str, name: str, **fields: str) -> dict[str, Any]:
    return ask(peer, verb, name, msgspec.json.encode(fields))


def status(link: str) -> int:
    try:
        with urlopen(link) as answer:
            return int(answer.status)
    except HTTPError as exc:
        return exc.code


def knows(ring: Keyring, name: str) -> bool:
    return name in dict(ring.public("agents"))


@pytest.mark.journey
def test_a_revoked_agent_is_refused_by_all_daemons_while_the_bus_still_accepts_its_key(
    two: TwoDaemons,
) -> None:
    seeds = {name: two.copied("agents", name) for name in ("code", "other")}
    two.start()
    writer, standby = two.daemons
    until(lambda: knows(two.rings[1], "code"))

    with two.agent(seeds["code"], "code") as code, two.agent(seeds["other"], "other") as other:
        assert ask(code, "propose", "code", PROPOSAL)["decision"] == "allow"
        revoked = time.monotonic()
        standby.safetyd("agent", "revoke", "code")
        until(lambda: ask(code, "propose", "code", PROPOSAL)["cause"] == "malformed")
        print(f"a daemon refused the agent {time.monotonic() - revoked:.2f} s later")
        assert ask(code, "telemetry", "code", b'{"type": "heartbeat"}')["code"] == "malformed"
        assert ask(code, "claim", "code", b'{"id": "x"}')["cause"] == "malformed"
        assert ask(code, "permission", "code", PROPOSAL)["cause"] == "malformed"

        assert ask(other, "propose", "other", PROPOSAL)["decision"] == "allow"
        two.rings[0].revoke("agents", "other")
        until(lambda: not knows(two.rings[1], "other"))
        writer.kill()
        assert ask(other, "propose", "other", PROPOSAL)["cause"] == "malformed"
    standby.stop()
    assert "keys are not shared" not in writer.log() + standby.log()


@pytest.mark.journey
def test_a_revoked_operator_is_refused_by_a_daemon_while_the_bus_still_accepts_the_key(
    two: TwoDaemons,
) -> None:
    seeds = {"alice": two.copied("operators", "alice"), "wall": two.copied("observers", "wall")}
    two.start()
    until(lambda: "wall" in dict(two.rings[1].public("observers")))

    with (
        two.person(seeds["alice"], "alice") as alice,
        two.person(seeds["wall"], "wall") as wall,
    ):
        assert command(alice, "query", "alice", command="agents")["ok"]
        assert command(wall, "query", "wall", command="agents")["ok"]

        two.daemons[1].safetyd("operator", "revoke", "alice")
        until(lambda: not command(alice, "query", "alice", command="agents")["ok"])
        stop = command(alice, "control", "alice", command="stop", reason="mine")
        assert (stop["ok"], stop["code"]) == (False, "no_key")
        assert command(wall, "query", "wall", command="agents")["ok"]

        two.daemons[1].safetyd("operator", "revoke", "wall")
        until(lambda: not command(wall, "query", "wall", command="agents")["ok"])


@pytest.mark.journey
def test_links_that_are_revoked_on_a_standby_no_longer_open_on_the_writer(two: TwoDaemons) -> None:
    two.start()
    writer, standby = two.daemons
    link = json.loads(writer.safetyd("pair", "--json").stdout)["link"]
    files = [daemon.data_dir / "keys" / "links.json" for daemon in (writer, standby)]
    until(lambda: files[1].exists() and files[0].read_bytes() == files[1].read_bytes())
    assert status(link) == OK

    LinkKeys(files[1]).rotate(datetime.now(UTC), revoke_now=True)

    until(lambda: status(link) != OK)
    fresh = json.loads(writer.safetyd("pair", "--json").stdout)["link"]
    assert status(fresh) == OK


@pytest.mark.journey
def test_keys_added_on_a_standby_work_on_the_bus_and_revoked_ones_are_disconnected(
    two: TwoDaemons,
) -> None:
    two.start()
    writer, standby = two.daemons

    with two.accounts_followed():
        assert standby.safetyd("agent", "add", "code").returncode == 0
        seed, local = two.rings[1].seed_of("agents", "code"), two.rings[1].operator
        until(lambda: two.is_let_in(seed, "code"))
        with two.agent(seed, "code") as code, two.person(local, "local") as person:
            assert ask(code, "propose", "code", PROPOSAL)["decision"] == "allow"
            assert command(person, "query", "local", command="agents")["ok"]

            said = writer.safetyd("agent", "revoke", "code")

            assert said.returncode == 0, said.stderr
            assert code.closed()
            assert command(person, "query", "local", command="agents")["ok"]
    until(lambda: not seed.exists())
    changes = [event for event in events(writer.data_dir) if isinstance(event, KeysChanged)]
    assert [change.by for change in changes if "agent code" in str(change.added)] == [
        f"daemon {public_key(two.rings[1].daemon)}"
    ]
