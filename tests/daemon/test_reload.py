from datetime import datetime, timedelta
from pathlib import Path

import anyio
import pytest

from safetyd.agents import intake
from safetyd.bus import question_limits
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.keyring import public_key
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import ConfigRejected, KeysChanged
from safetyd.core.events.event import Event, Moment
from safetyd.core.policy import Configured, Policy
from safetyd.daemon.config import load
from safetyd.daemon.reload import SHOWN_CHARS, SHOWN_ERRORS, Reload
from safetyd.daemon.settings import Settings
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import Mailbox
from tests.servers import until

SECOND = timedelta(seconds=1)


class LaterClock(Clock):
    """Two hours from now."""

    def now(self) -> Moment:
        moment = super().now()
        return Moment(moment.at + timedelta(hours=2), moment.t)


class ReloadRig:
    """What a reload needs, and an engine that opens the envelopes it writes."""

    def __init__(self, directory: Path, toml: str = "", *, embedded: bool = True) -> None:
        self.path = directory / "safetyd.toml"
        self.path.write_text(toml)
        self.settings = Settings(load(self.path), self.path, directory)
        self.settings.keyring.make_own()
        self.mailbox = Mailbox()
        self.server = EmbeddedServer(directory / "nats", Subjects()) if embedded else None
        self.reload = Reload(self.settings, self.server, self.mailbox)
        self.reload.take_on_keys("start")

    def journalled(self) -> list[Event]:
        events: list[Event] = []
        engine, moment = Engine(Policy()), Clock().now()
        while (envelope := self.mailbox.take()) is not None:
            events += put(engine, envelope, moment)
            envelope.deliver(late=False)
        return events


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReloadRig:
    monkeypatch.setattr("safetyd.daemon.reload.WRITTEN_S", 0.01)
    return ReloadRig(tmp_path)


async def test_new_rules_are_written_down(rig: ReloadRig) -> None:
    rig.path.write_text('mode = "development"\n')

    assert await rig.reload.run("alice") == []

    (configured,) = (e for e in rig.journalled() if isinstance(e, Configured))
    assert (configured.policy.mode, configured.why) == ("development", "reload")
    assert rig.reload.problem == ""


async def test_wrong_file_is_remembered_until_it_is_mended(rig: ReloadRig) -> None:
    rig.path.write_text("mode = 1\nprofile = 2\n")

    errors = await rig.reload.run("alice")

    assert len(errors) == 2
    assert rig.reload.problem == "; ".join(errors)
    assert rig.reload.problem
    assert any(isinstance(event, ConfigRejected) for event in rig.journalled())
    rig.path.write_text("")
    assert await rig.reload.run("alice") == []
    assert rig.reload.problem == ""


async def test_who_may_connect_is_written_down_when_it_changes(rig: ReloadRig) -> None:
    rig.settings.keyring.add("agents", "code")
    await rig.reload.run("alice")

    (added,) = (e for e in rig.journalled() if isinstance(e, KeysChanged))
    assert added.by == "alice"
    assert added.added[0].startswith("agent code U")
    rig.settings.keyring.revoke("agents", "code")
    await rig.reload.run("bob")
    (removed,) = (e for e in rig.journalled() if isinstance(e, KeysChanged))
    assert (removed.removed, removed.added) == (added.added, ())


def rotated(rig: ReloadRig) -> tuple[str, str, datetime]:
    """Give an agent a key and then another; return both, and when the first ends."""
    seed, now = rig.settings.keyring.add("agents", "code"), Clock().now().at
    old, until = public_key(seed), now + timedelta(hours=1)
    assert rig.reload.take_on_keys("alice") == []
    new = rig.settings.keyring.rotate("agents", "code", now=now, until=until).public
    assert rig.reload.take_on_keys("alice") == []
    return old, new, until


def changes(rig: ReloadRig) -> list[KeysChanged]:
    return [event for event in rig.journalled() if isinstance(event, KeysChanged)]


def test_rotated_key_is_told_with_the_one_that_it_follows(rig: ReloadRig, tmp_path: Path) -> None:
    old, new, ends = rotated(rig)

    added = changes(rig)[-1]

    moment = f"{ends:%Y-%m-%d %H:%M:%SZ}"
    assert added.added == (f"agent code {new} after {old}, which ends {moment}",)
    assert added.removed == ()
    lines = (tmp_path / "nats" / "nats.conf").read_text().splitlines()
    first, second = (line.split(",", 1) for line in lines if "propose.code" in line)
    assert {new, old} == {first[0].split()[-1], second[0].split()[-1]}
    assert first[1] == second[1]
    assert rig.settings.name_of(old) == rig.settings.name_of(new) == "code"


def test_old_key_is_taken_away_when_its_time_is_over(rig: ReloadRig, tmp_path: Path) -> None:
    old, new, ends = rotated(rig)
    changes(rig)

    assert rig.reload.drop_ended(Moment(ends - SECOND, 0)) == ""
    assert changes(rig) == []
    assert rig.reload.drop_ended(Moment(ends, 0)) == ""

    (ended,) = changes(rig)
    assert (ended.added, ended.removed, ended.by) == ((), (f"old agent code {old}",), "overlap")
    config = (tmp_path / "nats" / "nats.conf").read_text()
    assert (old in config, new in config) == (False, True)
    assert not list((tmp_path / "keys").rglob("*.old.json"))
    assert rig.reload.drop_ended(Moment(ends, 0)) == ""
    assert changes(rig) == []


def test_old_key_has_no_more_time_because_the_clock_was_put_back(
    rig: ReloadRig, tmp_path: Path
) -> None:
    old, _, ends = rotated(rig)
    hour = timedelta(hours=1)
    assert rig.reload.drop_ended(Moment(ends - hour, 100.0)) == ""

    assert rig.reload.drop_ended(Moment(ends - 2 * hour, 3699.0)) == ""
    before = (tmp_path / "nats" / "nats.conf").read_text()
    assert rig.reload.drop_ended(Moment(ends - hour, 3700.0)) == ""

    after = (tmp_path / "nats" / "nats.conf").read_text()
    assert (old in before, old in after) == (True, False)
    assert rig.reload.take_on_keys("alice") == []
    assert old not in (tmp_path / "nats" / "nats.conf").read_text()


def test_mistake_in_another_file_gives_no_old_key_more_time(rig: ReloadRig, tmp_path: Path) -> None:
    old, _, ends = rotated(rig)
    (tmp_path / "keys" / "agents" / "zed.pub").write_text("garbage\n")

    assert rig.reload.drop_ended(Moment(ends, 0)) == ""

    assert old not in (tmp_path / "nats" / "nats.conf").read_text()


def test_old_key_that_cannot_be_taken_away_is_told_and_tried_again(
    rig: ReloadRig, tmp_path: Path
) -> None:
    old, _, ends = rotated(rig)
    (tmp_path / "nats" / "nats.conf.new").mkdir()

    assert "nats.conf.new" in rig.reload.drop_ended(Moment(ends, 0))

    (tmp_path / "nats" / "nats.conf.new").rmdir()
    assert rig.reload.drop_ended(Moment(ends, 0)) == ""
    assert old not in (tmp_path / "nats" / "nats.conf").read_text()


async def test_old_key_is_looked_after_for_ever(
    rig: ReloadRig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("safetyd.daemon.reload.END_S", 0.001)
    old, _, _ = rotated(rig)
    rig.reload._clock = LaterClock()
    config, obstacle = tmp_path / "nats" / "nats.conf", tmp_path / "nats" / "nats.conf.new"
    obstacle.mkdir()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.reload.end_old_keys)
        await until(lambda: "expired key" in caplog.text)
        obstacle.rmdir()
        await until(lambda: old not in config.read_text())
        tasks.cancel_scope.cancel()

    assert caplog.text.count("expired key") == 1


def test_old_key_that_ended_while_nothing_ran_is_not_taken_on(
    rig: ReloadRig, tmp_path: Path
) -> None:
    now, seed = Clock().now().at, rig.settings.keyring.add("agents", "code")
    old, hour = public_key(seed), timedelta(hours=1)
    rig.settings.keyring.rotate("agents", "code", now=now - 2 * hour, until=now - hour)

    ReloadRig(tmp_path)

    config = (tmp_path / "nats" / "nats.conf").read_text()
    assert (old in config, public_key(seed) in config) == (False, True)
    assert not list((tmp_path / "keys").rglob("*.old.json"))


def test_on_a_bus_elsewhere_the_end_of_an_old_key_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = ReloadRig(tmp_path, embedded=False)
    _, _, ends = rotated(rig)

    assert rig.reload.drop_ended(Moment(ends, 0)) == ""

    assert "`safetyd nats-config`" in caplog.text


def test_revoked_key_takes_its_old_keys_with_it(rig: ReloadRig) -> None:
    old, new, _ = rotated(rig)
    changes(rig)
    rig.settings.keyring.revoke("agents", "code")

    assert rig.reload.take_on_keys("bob") == []

    (revoked,) = changes(rig)
    assert set(revoked.removed) == {f"agent code {new}", f"old agent code {old}"}


async def test_key_that_is_none_is_named_and_nothing_changes(
    rig: ReloadRig, tmp_path: Path
) -> None:
    before = (tmp_path / "nats" / "nats.conf").read_bytes()
    directory = tmp_path / "keys" / "agents"
    directory.mkdir(exist_ok=True)
    (directory / "zed.pub").write_text("garbage\n")

    (error,) = await rig.reload.run("alice")

    assert "zed.pub does not contain a public" in error
    assert (tmp_path / "nats" / "nats.conf").read_bytes() == before


async def test_good_file_is_not_taken_on_with_keys_that_are_none(
    rig: ReloadRig, tmp_path: Path
) -> None:
    rig.path.write_text('mode = "development"\n')
    directory = tmp_path / "keys" / "agents"
    directory.mkdir(exist_ok=True)
    (directory / "zed.pub").write_text("garbage\n")

    await rig.reload.run("alice")

    assert rig.settings.config.mode == "production"


async def test_what_the_server_refuses_is_not_taken_on(rig: ReloadRig, tmp_path: Path) -> None:
    before = (tmp_path / "nats" / "nats.conf").read_bytes()
    directory = tmp_path / "keys" / "agents"
    directory.mkdir(exist_ok=True)
    # It looks like a key, but its checksum is wrong.
    (directory / "zed.pub").write_text("U" + "A" * 55)

    (error,) = await rig.reload.run("alice")

    assert "nats-server rejected its configuration" in error
    assert (tmp_path / "nats" / "nats.conf").read_bytes() == before


async def test_long_refusals_are_cut_for_the_journal(rig: ReloadRig) -> None:
    rig.path.write_text("".join(f"k{n}{'x' * 600} = 1\n" for n in range(30)))

    await rig.reload.run("alice")

    (rejected,) = (e for e in rig.journalled() if isinstance(e, ConfigRejected))
    assert len(rejected.errors) == SHOWN_ERRORS
    assert max(map(len, rejected.errors)) == SHOWN_CHARS


def test_without_a_server_of_our_own_only_the_names_are_read(tmp_path: Path) -> None:
    rig = ReloadRig(tmp_path, embedded=False)
    rig.settings.keyring.add("agents", "code")

    assert rig.reload.take_on_keys("alice") == []
    assert rig.settings.has_key("code")


def test_who_floods_is_shut_out_and_nothing_else_changes(rig: ReloadRig, tmp_path: Path) -> None:
    rig.settings.keyring.add("observers", "wall")
    rig.reload.take_on_keys("alice")
    before = (tmp_path / "nats" / "nats.conf").read_text()
    rig.settings.keyring.add("agents", "code")  # waits for a reload
    for _ in range(10 * int(question_limits.BOUNDS.flood)):  # some are forgiven meanwhile
        rig.settings.question_limits.flood_gate.turned_away("wall", 30)

    assert rig.reload.shut_out() == []

    after = (tmp_path / "nats" / "nats.conf").read_text()
    gone = set(before.splitlines()) - set(after.splitlines())
    assert "safety.v1.query.wall" in "".join(gone)
    assert set(after.splitlines()) < set(before.splitlines())


def test_agent_that_floods_is_not_let_in_and_keeps_its_key(rig: ReloadRig, tmp_path: Path) -> None:
    rig.settings.keyring.add("agents", "code")
    rig.settings.keyring.add("operators", "code")
    rig.reload.take_on_keys("alice")
    before = (tmp_path / "nats" / "nats.conf").read_text()
    for _ in range(2 * int(intake.BOUNDS.flood)):
        rig.settings.flood_gate.turned_away("code", 30)

    assert rig.reload.shut_out() == []

    after = (tmp_path / "nats" / "nats.conf").read_text()
    (gone,) = set(before.splitlines()) - set(after.splitlines())
    assert "safety.v1.propose.code" in gone
    assert rig.settings.has_key("code")


def test_full_disk_shuts_nobody_out_and_says_so(rig: ReloadRig, tmp_path: Path) -> None:
    (tmp_path / "nats" / "nats.conf.new").mkdir()

    (problem,) = rig.reload.shut_out()

    assert "flooding" in problem


def test_on_a_bus_elsewhere_nobody_is_shut_out(tmp_path: Path) -> None:
    rig = ReloadRig(tmp_path, embedded=False)

    assert rig.reload.shut_out() == []


def test_server_that_ends_at_once_says_why(rig: ReloadRig, tmp_path: Path) -> None:
    server = rig.server
    assert server is not None
    assert server.end == ""
    (tmp_path / "nats" / "jetstream").write_text("no directory")

    server.start()
    assert server._process is not None
    server._process.wait(10)

    assert server.end.startswith("nats-server ended with 1: ")
    assert server.end.rstrip().endswith("directory") or "jetstream" in server.end
    server.log_file.unlink()
    assert server.end == "nats-server ended with 1: "
