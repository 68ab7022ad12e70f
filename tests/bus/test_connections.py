import logging
from pathlib import Path

import anyio
import pytest
from nats.aio.subscription import Subscription

from safetyd.bus.connections import CLOSE_S, BusConfig, BusFailed, Connection, Connections
from safetyd.bus.nats_client import Handler, pub
from safetyd.bus.subjects import Subjects
from safetyd.clock import uptime
from safetyd.host import Unusable, files_needed
from tests.bus.server_rig import Embedded, singing
from tests.servers import until


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time until a canary counts as missing."""
    monkeypatch.setattr("safetyd.bus.connections.CANARY_S", 0.05)
    monkeypatch.setattr("safetyd.bus.connections.DEAF_S", 0.5)


async def test_connection_works_once_its_canary_returns(server: Embedded) -> None:
    async with singing(server, []) as link:
        await until(lambda: link.heard)


async def test_connection_without_a_canary_does_not_count_as_working(server: Embedded) -> None:
    link = Connection("test", list[str]().append)
    await link.connect(server.url, server.seed, Subjects().canary("test"))

    with pytest.raises(TimeoutError):
        await link.first_canary(0.05)

    assert not link.heard
    await link.close()


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (ConnectionResetError("connection lost"), "the bus failed during the start"),
        (PermissionError("permission denied"), "cannot use the data directory"),
    ],
)
def test_errors_of_the_bus_and_of_files_are_told_apart_where_both_are_used(
    tmp_path: Path, failed: OSError, said: str
) -> None:
    links = Connections(Subjects(), "b00t", tmp_path, seed=str, keyless=False, die=print)

    with pytest.raises(Unusable, match=said) as caught:  # noqa: SIM117 - the order matters
        with links.needed(), files_needed(tmp_path):
            raise failed

    assert isinstance(caught.value, BusFailed) == isinstance(failed, ConnectionError)


@pytest.mark.usefixtures("hasty")
async def test_freeze_and_recovery_of_the_server_are_detected(server: Embedded) -> None:
    async with singing(server, []) as link:
        server.freeze()
        await until(lambda: not link.heard)
        deaf_s = link.deaf_s

        server.thaw()
        await until(lambda: link.heard)

    assert deaf_s >= 0.5


@pytest.mark.usefixtures("hasty")
async def test_connection_detects_a_dead_server_and_finds_the_next_one(
    server: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []
    with caplog.at_level(logging.INFO, "safetyd.bus"):
        async with singing(server, ended) as link:
            server.kill()
            await until(lambda: "bus test: disconnected" in caplog.messages)
            assert not link.heard
            await server.ended()

            server.start()
            await until(lambda: "bus test: reconnected" in caplog.messages)
            await until(lambda: link.heard)

    assert ended == []


async def test_connection_retries_until_the_server_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "safetyd.bus")
    server = Embedded(tmp_path)
    link = Connection("early", list[str]().append)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.connect, server.url, server.seed, Subjects().canary("early"))
        await until(lambda: any("bus early:" in said for said in caplog.messages))
        server.start()

    assert link.client.is_connected
    await link.close()
    server.stop()


async def test_connection_that_is_lost_while_it_subscribes_connects_again(
    server: Embedded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "safetyd.bus")
    link = Connection("test", list[str]().append)
    subscribe = link.client.handle

    async def freeze_and_subscribe(subject: str, handler: Handler) -> Subscription:
        server.freeze()
        return await subscribe(subject, handler)

    monkeypatch.setattr(link.client, "handle", freeze_and_subscribe)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.connect, server.url, server.seed, Subjects().canary("test"))
        await until(lambda: "bus test: disconnected" in caplog.messages)
        server.thaw()
    await link.first_canary(5)

    assert link.client.stats["reconnects"] == 1
    await link.close()


async def test_old_canary_does_not_count(server: Embedded) -> None:
    link = Connection("test", list[str]().append)
    await link.connect(server.url, server.seed, Subjects().canary("test"))

    long_ago = b"%.6f" % (uptime() - 60)
    link.client.send(pub(Subjects().canary("test").encode(), long_ago))
    await link.first_canary(5)

    assert not link.heard
    await link.close()


async def test_failing_handler_ends_the_daemon(server: Embedded) -> None:
    ended: list[str] = []

    def fail(_subject: bytes, _reply: bytes, _payload: bytes) -> None:
        raise ZeroDivisionError("no ratio")

    async with singing(server, ended) as link:
        await link.client.handle("test.fail", fail)
        await link.client.flush()
        link.client.send(pub(b"test.fail", b""))
        await until(lambda: bool(ended))

    assert ended == ["a handler failed: ZeroDivisionError('no ratio')"]


async def test_permanently_closed_connection_ends_the_daemon(server: Embedded) -> None:
    ended: list[str] = []
    link = Connection("test", ended.append)
    await link.connect(server.url, server.seed, Subjects().canary("test"))

    await link.client.close()
    await until(lambda: bool(ended))

    assert ended == ["the connection test is closed permanently"]


async def test_closing_a_connection_does_not_end_the_daemon(server: Embedded) -> None:
    ended: list[str] = []
    async with singing(server, ended):
        pass

    assert ended == []


async def test_closing_a_connection_to_a_frozen_server_is_quick(server: Embedded) -> None:
    async with singing(server, []) as link:
        server.freeze()
        with anyio.fail_after(CLOSE_S + 2):
            await link.close()
        server.thaw()


def test_only_the_embedded_server_accepts_anonymous_agents() -> None:
    assert BusConfig().keyless
    assert not BusConfig(open_agents=False).keyless
    assert not BusConfig(url="nats://bus:4222", key_file="/k").keyless
