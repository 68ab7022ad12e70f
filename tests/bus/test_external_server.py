import logging
from collections.abc import Iterator

import anyio
import pytest

from safetyd.bus.external_server import external_problems, wait_for_silence
from safetyd.bus.nats_client import HardenedClient, pub
from tests.nats_process import NatsProcess
from tests.servers import connected, down, frozen, until

WRITER = "safety.v1.internal.writer"
CONFIG = """
jetstream {{ store_dir: "{}" }}
accounts {{
  SAFETY {{ jetstream: enabled, users: [ {{ user: daemon, password: x }} ] }}
  OTHER {{ users: [ {{ user: other, password: x }} ] }}
  SYS {{}}
}}
system_account: SYS
"""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsProcess]:
    directory = tmp_path_factory.mktemp("external")
    bus = NatsProcess(directory, CONFIG.format(directory))
    yield bus
    bus.stop()


def as_user(name: str, bus: NatsProcess) -> str:
    return bus.url.replace("//", f"//{name}:x@")


async def test_separate_account_with_jetstream_is_sufficient(bus: NatsProcess) -> None:
    async with connected(as_user("daemon", bus)) as client:
        assert await external_problems(client) == []


async def test_problem_names_an_account_without_jetstream(bus: NatsProcess) -> None:
    async with connected(as_user("other", bus)) as client:
        (problem,) = await external_problems(client)

    assert problem.startswith("JetStream does not answer in account 'OTHER'")


async def test_problem_names_a_server_that_is_too_old(
    bus: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.bus.bus_nodes.MINIMUM", (99, 0, 1))

    async with connected(as_user("daemon", bus)) as client:
        (problem,) = await external_problems(client)

    assert "99.0.1 or newer" in problem


async def test_daemon_in_the_same_account_as_agents_is_rejected(client: HardenedClient) -> None:
    (problem,) = await external_problems(client)

    assert "nats-config" in problem


async def test_server_that_does_not_answer_has_both_problems(
    bus: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.bus.external_server.ASK_S", 0.1)

    async with connected(as_user("daemon", bus)) as client:
        with frozen(bus):
            problems = await external_problems(client)

    assert len(problems) == 2


class OtherDaemon:
    """Another daemon, which writes the journal while it is connected."""

    def __init__(self, client: HardenedClient, name: str = "safetyd b00t") -> None:
        self._client = client
        self._name = name
        self.asked = 0

    async def start(self) -> None:
        await self._client.handle(WRITER, self._answer)

    def _answer(self, _subject: bytes, reply: bytes, _payload: bytes) -> None:
        self.asked += 1
        if self._name:
            self._client.send(pub(reply, self._name.encode()))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.bus.external_server.SILENCE_S", 0.5)
    monkeypatch.setattr("safetyd.bus.external_server.ASK_AGAIN_S", 0.05)


async def test_standby_does_not_wait_if_no_daemon_writes(
    client: HardenedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.bus.external_server.SILENCE_S", 600.0)

    with anyio.fail_after(30):
        await wait_for_silence(client, WRITER)


@pytest.mark.usefixtures("hasty")
async def test_standby_waits_while_the_other_daemon_is_alive(
    client: HardenedClient, jetstream: NatsProcess, caplog: pytest.LogCaptureFixture
) -> None:
    waited: list[str] = []

    async def stand_by() -> None:
        await wait_for_silence(client, WRITER)
        waited.append("enough")

    caplog.set_level(logging.WARNING, "safetyd.bus")
    async with anyio.create_task_group() as tasks, connected(jetstream.url) as theirs:
        other = OtherDaemon(theirs)
        await other.start()
        await theirs.flush()
        tasks.start_soon(stand_by)
        await until(lambda: other.asked == 20)  # more than a second of queries
        assert waited == []

    assert waited == ["enough"]
    assert "standby: safetyd b00t writes the journal" in caplog.messages


@pytest.mark.usefixtures("hasty")
async def test_standby_takes_over_from_a_frozen_daemon_after_a_delay(
    client: HardenedClient, jetstream: NatsProcess
) -> None:
    async with connected(jetstream.url) as theirs:
        await OtherDaemon(theirs, name="").start()
        await theirs.flush()

        with anyio.fail_after(5):
            await wait_for_silence(client, WRITER)


@pytest.mark.usefixtures("hasty")
async def test_standby_does_not_take_over_while_it_is_disconnected(
    client: HardenedClient, jetstream: NatsProcess
) -> None:
    waited = anyio.Event()

    async def stand_by() -> None:
        await wait_for_silence(client, WRITER)
        waited.set()

    async with anyio.create_task_group() as tasks:
        with down(jetstream):
            await until(lambda: not client.is_connected)
            tasks.start_soon(stand_by)
            with anyio.move_on_after(1):
                await waited.wait()
            assert not waited.is_set()
