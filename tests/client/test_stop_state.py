import anyio
import pytest

from safetyd.client import Safety
from safetyd.client import agent_connection as link
from safetyd.client.stop_state import StopState
from tests.client.daemon_stand_in import DaemonStandIn
from tests.nats_process import NatsProcess


async def test_a_stop_is_acknowledged_with_its_epoch(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        await safety.heartbeat()
        await daemon.told("heartbeat")
        assert not safety.stopped

        await daemon.say("state.stop", {"active": True, "epoch": 7, "agent": None})
        heartbeat = await daemon.told("heartbeat")

        assert heartbeat["stop_epoch"] == 7
        assert safety.stopped


async def test_a_reply_sent_to_the_stop_subject_is_no_stop(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    stop = {"active": True, "epoch": 7, "agent": None}
    async with Safety("code", url=bus.url) as safety:
        await safety.heartbeat()
        await daemon.told("heartbeat")

        await daemon.say("state.stop", stop, marked=False)
        await daemon.say("state.stop", {**stop, "epoch": 8})
        heartbeat = await daemon.told("heartbeat")

        assert heartbeat["stop_epoch"] == 8


async def test_a_stopped_client_still_asks_the_daemon(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        await safety.heartbeat()
        await daemon.told("heartbeat")
        await daemon.say("state.stop", {"active": True, "epoch": 7, "agent": "code"})
        await daemon.told("heartbeat")

        assert (await safety.propose("read_file")).allowed
        assert safety.stopped


async def test_a_connected_client_sends_heartbeats(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "HEARTBEAT_S", 0.01)

    async with Safety("code", url=bus.url):
        with anyio.fail_after(5):
            beats = [await daemon.told("heartbeat") for _ in range(3)]

    assert all(beat.get("stop_epoch") is None for beat in beats)


def stop(*, active: bool = True, epoch: int = 1, agent: str = "null") -> bytes:
    return f'{{"active":{str(active).lower()},"epoch":{epoch},"agent":{agent}}}'.encode()


def test_a_stop_of_another_agent_is_ignored() -> None:
    stops = StopState("code")

    assert stops.hear(stop(agent='"other"')) is None
    assert not stops.active


@pytest.mark.parametrize("said", [b"", b"{}", b"[]", b"\xff", b'{"active":"yes"}'])
def test_an_invalid_stop_message_is_ignored(said: bytes) -> None:
    stops = StopState("code")
    stops.hear(stop())

    assert stops.hear(said) is None
    assert stops.active


def test_a_stop_for_all_and_a_stop_for_this_agent_end_separately() -> None:
    stops = StopState("code")
    stops.hear(stop(epoch=1))
    stops.hear(stop(epoch=2, agent='"code"'))

    stops.hear(stop(active=False))
    assert stops.active
    assert stops.heartbeat().stop_epoch == 2

    stops.hear(stop(active=False, agent='"code"'))
    assert not stops.active


def test_an_allow_ends_only_a_stop_from_before_the_reconnection() -> None:
    stops = StopState("code")
    stops.hear(stop())

    stops.allowed()
    assert stops.active

    stops.reconnected()
    assert stops.active
    stops.allowed()
    assert not stops.active


def test_a_stop_repeated_after_a_reconnection_stays_active() -> None:
    stops = StopState("code")
    stops.hear(stop())
    stops.reconnected()
    stops.hear(stop())

    stops.allowed()

    assert stops.active
