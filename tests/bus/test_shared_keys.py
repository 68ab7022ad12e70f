"""Daemons with separate data directories share keys over a real server."""

import json
import logging
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import nats.js.errors
import pytest

from safetyd.bus import shared_keys
from safetyd.bus.agent_tokens import AgentTokens
from safetyd.bus.key_bucket import BUCKET
from safetyd.bus.key_entry import DaemonKey, KeyEntry, NameKeys, sealed
from safetyd.bus.keyring import Keyring, new_pair, public_key, seed_in
from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.shared_keys import SharedKeys
from safetyd.bus.subjects import Subjects
from safetyd.host import Unusable
from safetyd.notify.links.signing_keys import LinkKeys
from tests.nats_process import NatsProcess
from tests.servers import connected, down, until

NOW = datetime.now(UTC)
TOMORROW = NOW + timedelta(days=1)
STREAM = f"KV_{BUCKET}"


class Machine:
    """The keys of one daemon."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "keys"
        self.ring = Keyring(self.directory)
        self.ring.make_own()
        self.tokens = AgentTokens(self.directory)
        self.links = LinkKeys(self.directory / "links.json")
        self.links.keys(NOW)
        self.taken_on: list[str] = []
        self.daemons: tuple[str, ...] = ()

    @property
    def public(self) -> str:
        return public_key(self.ring.daemon)

    @property
    def agents(self) -> dict[str, str]:
        return dict(self.ring.public("agents"))

    @property
    def secrets(self) -> tuple[str, str]:
        return self.ring.telemetry_key.read_text(), (self.directory / "links.json").read_text()

    def shared(self, client: HardenedClient) -> SharedKeys:
        return SharedKeys(
            client,
            Subjects(),
            self.directory,
            seed=seed_in(self.ring.daemon),
            daemons=self.daemons,
            take_on=self._took,
        )

    def _took(self, by: str) -> list[str]:
        self.taken_on.append(by)
        return []

    @asynccontextmanager
    async def running(self, bus: NatsProcess) -> AsyncIterator[None]:
        """Share the keys, from before the block until its end."""
        async with connected(bus.url) as client, anyio.create_task_group() as tasks:
            shared = self.shared(client)
            await shared.begin()
            assert not shared.problem
            tasks.start_soon(shared.run)
            yield
            tasks.cancel_scope.cancel()


Machines = Callable[[int], list[Machine]]


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    def make(number: int) -> list[Machine]:
        made = [Machine(tmp_path / str(n)) for n in range(number)]
        for machine in made:
            machine.daemons = tuple(each.public for each in made)
        return made

    return make


@pytest.fixture
async def bus(jetstream: NatsProcess) -> AsyncIterator[NatsProcess]:
    """A server without a key bucket."""
    await forget(jetstream)
    yield jetstream
    await forget(jetstream)


async def forget(bus: NatsProcess) -> None:
    async with connected(bus.url) as client:
        with suppress(nats.js.errors.NotFoundError):
            await client.jetstream().delete_stream(STREAM)


async def entries(bus: NatsProcess) -> dict[str, bytes]:
    async with connected(bus.url) as client:
        kv = await client.jetstream().key_value(BUCKET)
        return {key: (await kv.get(key)).value or b"" for key in await kv.keys()}


def content(entry: bytes) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(json.loads(entry)["entry"])
    return decoded


async def test_keys_tokens_and_secrets_of_one_daemon_reach_the_other(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    one.ring.add("agents", "code")
    one.tokens.add("web")
    assert one.secrets != two.secrets

    async with one.running(bus), two.running(bus):
        assert two.agents == one.agents != {}
        assert two.tokens.hashes() == one.tokens.hashes()
        assert two.secrets == one.secrets
        assert not two.ring.seed_of("agents", "code").exists()

        two.ring.add("operators", "alice")
        await until(lambda: "alice" in dict(one.ring.public("operators")))
        two.ring.revoke("agents", "code")
        await until(lambda: one.agents == {})
        assert not one.ring.seed_of("agents", "code").exists()
        two.links.rotate(NOW, revoke_now=True)
        await until(lambda: two.secrets == one.secrets)
        one.ring.rotate("operators", "alice", now=NOW, until=TOMORROW)
        await until(lambda: two.ring.old_keys(NOW) == one.ring.old_keys(NOW))

    assert f"daemon {two.public}" in one.taken_on


async def test_other_daemons_learn_the_key_of_a_local_operator_and_nobody_replaces_it(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    before = public_key(one.ring.operator)

    async with one.running(bus), two.running(bus):
        await until(lambda: one.ring.other_locals(NOW) == (public_key(two.ring.operator),))
        assert two.ring.other_locals(NOW) == (before,)
        rotation = one.ring.rotate("operators", "local", now=NOW, until=TOMORROW)
        await until(lambda: two.ring.other_locals(NOW) == (rotation.public, before))

    two.daemons = (two.public,)
    async with two.running(bus):
        assert two.ring.other_locals(NOW) == ()


async def test_a_daemon_that_was_away_does_not_resurrect_a_revoked_key(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    one.ring.add("agents", "code")
    one.ring.add("agents", "other")
    async with one.running(bus), two.running(bus):
        assert set(two.agents) == {"code", "other"}

    two.ring.rotate("agents", "code", now=NOW, until=TOMORROW)  # while it is away
    one.ring.revoke("agents", "code")
    one.ring.revoke("agents", "other")
    async with one.running(bus), two.running(bus):
        assert two.agents == {}

    two.ring.add("agents", "code")  # after the revocation
    async with two.running(bus), one.running(bus):
        assert one.agents == two.agents != {}


async def test_a_revocation_while_away_beats_a_rotation_elsewhere(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    one.ring.add("agents", "code")
    async with one.running(bus), two.running(bus):
        assert two.agents

    two.ring.revoke("agents", "code")
    one.ring.rotate("agents", "code", now=NOW, until=TOMORROW)
    async with one.running(bus), two.running(bus):
        await until(lambda: one.agents == {})
        assert two.agents == {}


async def test_a_joining_daemon_with_a_key_of_the_same_name_takes_the_shared_one(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    one.ring.add("agents", "code")
    two.ring.add("agents", "code")
    two.ring.add("agents", "own")
    kept = one.agents["code"]

    async with one.running(bus), two.running(bus):
        await until(lambda: one.agents == two.agents)
        assert one.agents["code"] == kept
        assert set(one.agents) == {"code", "own"}


async def test_daemons_that_change_keys_at_the_same_time_end_with_the_same_keys(
    bus: NatsProcess, machines: Machines
) -> None:
    crowd = machines(3)
    crowd[0].ring.add("agents", "code")
    async with crowd[0].running(bus), crowd[1].running(bus), crowd[2].running(bus):
        await until(lambda: all(machine.agents for machine in crowd))
        for number in range(5):
            for n, machine in enumerate(crowd):
                machine.ring.rotate("agents", "code", now=NOW, until=TOMORROW)
                machine.ring.add("agents", f"a{n}-{number}")
                machine.tokens.add(f"t{n}-{number}")
        whole = 1 + 3 * 5
        await until(lambda: all(len(machine.agents) == whole for machine in crowd))
        await until(lambda: all(len(machine.tokens.hashes()) == 15 for machine in crowd))
        await until(lambda: len({machine.agents["code"] for machine in crowd}) == 1)
        await until(lambda: len({str(m.ring.old_keys(NOW)) for m in crowd}) == 1)


async def test_two_first_daemons_on_an_empty_bus_share_the_keys_of_both(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    one.ring.add("agents", "a")
    two.ring.add("agents", "b")
    async with (
        connected(bus.url) as first,
        connected(bus.url) as second,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(one.shared(first).run)
        tasks.start_soon(two.shared(second).run)
        await until(lambda: set(one.agents) == set(two.agents) == {"a", "b"})
        await until(lambda: one.secrets == two.secrets)
        tasks.cancel_scope.cancel()


async def test_daemons_restore_a_bucket_that_was_deleted_with_its_revocations(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    one.ring.add("agents", "code")
    one.ring.add("agents", "gone")
    async with one.running(bus), two.running(bus):
        two.ring.revoke("agents", "gone")
        await until(lambda: set(one.agents) == {"code"})
        before = await entries(bus)
        await forget(bus)
        two.ring.add("agents", "last")
        await until(lambda: set(one.agents) == {"code", "last"})
        # One daemon restores each entry, before it learns of the new one.
        restored = await entries(bus)

    assert set(two.agents) == {"code", "last"}
    assert before.keys() | {"agents.last"} == restored.keys()
    assert content(restored["agents.gone"])["keys"] == {}


async def test_keys_are_shared_again_after_the_server_was_down(
    bus: NatsProcess, machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = machines(2)
    caplog.set_level(logging.INFO, "safetyd.keys")
    async with one.running(bus), two.running(bus):
        with down(bus):
            two.ring.add("agents", "code")
            await until(lambda: "not shared" in caplog.text)
        await until(lambda: one.agents == two.agents != {})
        await until(lambda: "shared with other daemons again" in caplog.text)


async def test_a_daemon_starts_with_its_own_files_while_the_bucket_cannot_be_read(
    bus: NatsProcess, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = machines(1)
    one.ring.add("agents", "code")
    monkeypatch.setattr(shared_keys, "START_S", 0.1)

    async with connected(bus.url) as client:
        shared = one.shared(client)
        with down(bus):
            await shared.begin()
            assert shared.problem
    assert set(one.agents) == {"code"}


async def test_a_daemon_that_is_not_in_its_own_list_does_not_start(
    bus: NatsProcess, machines: Machines
) -> None:
    one, two = machines(2)
    one.daemons = (two.public,)

    async with connected(bus.url) as client:
        with pytest.raises(Unusable, match=one.public):
            one.shared(client)


async def test_a_user_of_the_account_who_is_not_a_listed_daemon_reads_no_secret_and_adds_no_key(
    bus: NatsProcess, machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = machines(2)
    one.daemons = (one.public,)
    one.ring.add("agents", "gone")
    intruder = DaemonKey(seed_in(other.ring.daemon))
    mallory = new_pair()[1].decode()

    async with one.running(bus):
        before = await entries(bus)
    one.ring.revoke("agents", "gone")

    async with one.running(bus), connected(bus.url) as client:
        found = content(before["telemetry"])
        secret = one.ring.telemetry_key.read_text().strip()
        assert secret not in str(before)
        assert list(found["sealed"]) == [one.public]
        assert intruder.opened({other.public: b64decode(found["sealed"][one.public])}) is None

        forged = KeyEntry(version=99, by=other.public, keys=NameKeys(mallory))
        as_daemon = KeyEntry(version=99, by=one.public, keys=NameKeys(mallory))
        theirs = KeyEntry(version=99, by=other.public, sealed=sealed(b"f" * 64, [one.public]))
        replayed = before["agents.gone"]  # a key that was valid when it was signed
        for name, data in {
            "operators.mallory": intruder.signed("operators.mallory", forged),
            "operators.eve": intruder.signed("operators.eve", as_daemon),
            "agents.gone": replayed,
            "operators.gone": replayed,
            "telemetry": intruder.signed("telemetry", theirs),
            "links": b"\xff",
        }.items():
            await client.jetstream().publish(f"$KV.{BUCKET}.{name}", data)
        kept = one.secrets
        await until(lambda: caplog.text.count("ignored the key entry") == 5)
        one.ring.add("agents", "last")
        async with other.running(bus):
            await until(lambda: "last" in other.agents)

        assert set(one.agents) == {"last"}
        assert [name for name, _ in one.ring.public("operators")] == ["local"]
        assert one.secrets == kept
