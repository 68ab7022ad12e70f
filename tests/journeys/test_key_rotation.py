"""Key rotation: both keys work for a while, then only the new one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from safetyd.client import SyncSafety
from safetyd.core.events.daemon_events import KeysChanged
from tests.bus.peer import Peer, Refused
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.access.test_control_room import link, signed_in, status
from tests.console.console_rig import here, told
from tests.journeys.agents import until
from tests.journeys.audit_record import events
from tests.journeys.test_second_daemon import Shared
from tests.journeys.wall_clock import WallClock

pytestmark = pytest.mark.journey

HOUR: Final = 3600.0


class Rotated(NamedTuple):
    """A user whose key was rotated: a copy of the old seed, and the path of the new one."""

    daemon: RunningDaemon
    old: Path
    new: Path
    inbox: str
    subject: str
    question: dict[str, str]

    def connect(self, seed: Path) -> Peer:
        return Peer(self.daemon.endpoint.bus, seed, self.inbox)

    def is_heard(self, peer: Peer) -> bool:
        answer = peer.ask(self.subject, msgspec.json.encode(self.question))
        if not answer.payload:
            return False  # no daemon is listening yet
        return bool(answer.fields.get("ok") or answer.fields.get("decision") == "allow")

    def is_let_in(self, seed: Path) -> bool:
        try:
            with self.connect(seed) as peer:
                return self.is_heard(peer)
        except Refused:
            return False


@pytest.fixture
def wall(tmp_path: Path) -> WallClock:
    (tmp_path / "clock").mkdir()
    return WallClock(tmp_path / "clock")


@pytest.fixture(params=["code", "alice", "local"])
def rotated(
    request: pytest.FixtureRequest, start_daemon: StartDaemon, wall: WallClock, tmp_path: Path
) -> Rotated:
    """An agent, an operator and the local operator, at the start of a 24-hour overlap."""
    daemon, name = start_daemon(variables=wall.variables), str(request.param)
    keys = daemon.data_dir / "keys"
    group, new = {
        "code": ("agent", keys / "agents" / "code.nk"),
        "alice": ("operator", keys / "operators" / "alice.nk"),
        "local": ("operator", keys / "operator.nk"),
    }[name]
    if not new.exists():
        assert told(daemon, group, "add", name).returncode == 0
    old = Path(shutil.copy(new, tmp_path / "copy.nk"))
    if group == "agent":
        question = {"type": "read_file", "text": "notes.txt"}
        who = Rotated(daemon, old, new, "_INBOX.agent.code", "safety.v1.propose.code", question)
    else:
        subject, question = f"safety.v1.query.{name}", {"command": "status"}
        who = Rotated(daemon, old, new, f"_INBOX.op.{name}", subject, question)
    until(lambda: who.is_let_in(old))
    with who.connect(old) as before:
        said = told(daemon, group, "rotate", name)
        assert said.returncode == 0, said.stderr
        assert who.is_heard(before), "a rotation ends no connection"
    assert old.read_bytes() != new.read_bytes()
    until(lambda: who.is_let_in(new))
    return who


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    shared = Shared(tmp_path)
    yield shared
    shared.bus.stop()


def take_on(shared: Shared, accounts: str) -> None:
    """Give the external bus new accounts."""
    (shared.bus.directory / "accounts.conf").write_text(accounts)
    shared.bus.stop()
    shared.bus.start()


def last_change(daemon: RunningDaemon) -> KeysChanged:
    return [event for event in events(daemon.data_dir) if isinstance(event, KeysChanged)][-1]


def test_both_keys_work_until_the_old_one_expires(rotated: Rotated, wall: WallClock) -> None:
    assert rotated.is_let_in(rotated.old)
    rotated.daemon.restart()

    with rotated.connect(rotated.old) as old, rotated.connect(rotated.new) as new:
        wall.step(23 * HOUR)
        assert rotated.is_heard(old)
        assert rotated.is_heard(new)
        wall.step(HOUR)
        assert old.closed()
        assert rotated.is_heard(new)

    assert not rotated.is_let_in(rotated.old)
    assert rotated.is_let_in(rotated.new)
    assert not list((rotated.daemon.data_dir / "keys").rglob("*.old.json"))
    until(lambda: last_change(rotated.daemon).by == "overlap")
    change = last_change(rotated.daemon)
    assert change.added == ()
    assert [text.split(" ")[0] for text in change.removed] == ["old"]


@pytest.mark.parametrize("rotated", ["alice"], indirect=True)
def test_a_key_that_expired_while_the_daemon_was_down_is_rejected(
    rotated: Rotated, wall: WallClock
) -> None:
    rotated.daemon.kill()
    wall.step(24 * HOUR)

    rotated.daemon.start()

    assert not rotated.is_let_in(rotated.old)
    assert rotated.is_let_in(rotated.new)


def test_browsers_are_signed_out_when_the_old_key_expires(
    start_daemon: StartDaemon, wall: WallClock
) -> None:
    daemon = start_daemon(variables=wall.variables)
    before = link(daemon)
    cookies = [signed_in(before)]
    assert told(daemon, "operator", "rotate", "local", "--overlap", "1h").returncode == 0
    cookies.append(signed_in(link(daemon)))
    base = before.partition("/signin/")[0]
    meanwhile = [status(base, cookie) for cookie in cookies]

    wall.step(HOUR)

    assert meanwhile == [200, 200]
    until(lambda: [status(base, cookie) for cookie in cookies] == [401, 401])
    assert status(base, signed_in(link(daemon))) == 200


def test_an_agent_that_rereads_its_key_file_continues_by_itself(
    start_daemon: StartDaemon, wall: WallClock, tmp_path: Path
) -> None:
    daemon = start_daemon(variables=wall.variables)
    told(daemon, "agent", "add", "code")
    seed = daemon.data_dir / "keys" / "agents" / "code.nk"
    copy = Path(shutil.copy(seed, tmp_path / "copy.nk"))

    with (
        SyncSafety("code", data_dir=daemon.data_dir, key_file=seed) as reader,
        SyncSafety("code", data_dir=daemon.data_dir, key_file=copy) as owner,
    ):
        assert reader.propose("read_file").allowed
        assert owner.propose("read_file").allowed
        told(daemon, "agent", "rotate", "code")
        assert reader.propose("read_file").allowed
        assert owner.propose("read_file").allowed
        wall.step(24 * HOUR)
        until(lambda: owner.propose("read_file").cause == "unavailable")
        until(lambda: reader.propose("read_file").allowed)


def test_rotation_on_an_external_bus_prints_both_steps(
    start_daemon: StartDaemon, shared: Shared, tmp_path: Path
) -> None:
    daemon, where = start_daemon(shared.config), ("--data-dir", str(tmp_path))
    old = Path(shutil.copy(shared.agent, tmp_path / "copy.nk"))
    question = {"type": "read_file", "text": "notes.txt"}
    agent = Rotated(
        daemon, old, shared.agent, "_INBOX.agent.code", "safety.v1.propose.code", question
    )

    said = here("agent", "rotate", "code", *where, "--url", shared.bus.url)

    assert "`safetyd nats-config` now, and again after " in said.stdout
    assert [agent.is_let_in(seed) for seed in (old, shared.agent)] == [True, False]
    take_on(shared, here("nats-config", *where).stdout)
    until(lambda: agent.is_let_in(shared.agent))
    assert agent.is_let_in(old)
    until(lambda: here("status", *where, "--url", shared.bus.url).returncode == 0)
    said = here("agent", "rotate", "code", "--now", *where, "--url", shared.bus.url)
    assert "`safetyd nats-config` now.\n" in said.stdout
    take_on(shared, here("nats-config", *where).stdout)
    until(lambda: agent.is_let_in(shared.agent))
    assert not agent.is_let_in(old)
