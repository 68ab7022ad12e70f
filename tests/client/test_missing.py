"""If any part is missing, the client returns a block with cause `unavailable` in time."""

from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.abc import SocketAttribute, SocketStream
from nats.errors import NoRespondersError

from safetyd.bus.nats_client import HardenedClient
from safetyd.client import Decision, Safety, exchange
from safetyd.client import agent_connection as link
from tests.client.assertions import NOWHERE, assert_unavailable
from tests.client.daemon_stand_in import DaemonStandIn, silent
from tests.nats_process import NatsProcess
from tests.servers import connected

PATIENCE_S = 30.0


async def test_a_bus_without_a_daemon_is_detected_long_before_the_deadline(
    bus: NatsProcess,
) -> None:
    async with Safety("code", url=bus.url, deadline_s=600) as safety:
        await safety.propose("read_file")
        with anyio.fail_after(PATIENCE_S):
            decision = await safety.propose("read_file")

    assert_unavailable(decision, bus.url, "ask the operator to start safetyd")


async def test_a_proposal_is_retried_if_the_daemon_is_briefly_missing(
    bus: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MAX_GAPS", 20)
    answers: list[Decision] = []

    async def propose(safety: Safety) -> None:
        answers.append(await safety.propose("read_file", deadline_s=10))

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        async with DaemonStandIn(bus.url):
            assert (await safety.propose("read_file")).allowed
        tasks.start_soon(propose, safety)
        async with connected(bus.url) as agent:
            await _not_found(agent)
        async with DaemonStandIn(bus.url) as daemon:
            await daemon.asked()

    assert [answer.allowed for answer in answers] == [True]


async def _not_found(agent: HardenedClient) -> None:
    """Return after the server replied "no responders" to another agent."""
    with pytest.raises(NoRespondersError):
        await agent.request("safety.v1.propose.other", b"{}")


async def test_a_daemon_that_stopped_is_detected_before_the_deadline(bus: NatsProcess) -> None:
    async with Safety("code", url=bus.url) as safety:
        async with DaemonStandIn(bus.url):
            assert (await safety.propose("read_file")).allowed
        with anyio.fail_after(5):
            decision = await safety.propose("read_file", deadline_s=30)

    assert_unavailable(decision, bus.url, "ask the operator to start safetyd")


async def test_a_missing_bus_is_detected_before_the_deadline() -> None:
    async with Safety("code", url=NOWHERE, deadline_s=600) as safety:
        with anyio.fail_after(PATIENCE_S):
            decision = await safety.propose("read_file")

    assert_unavailable(decision, NOWHERE, "ask the operator to start safetyd")


async def test_a_silent_daemon_is_unavailable_after_the_deadline(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent

    async with Safety("code", url=bus.url) as safety:
        with anyio.fail_after(PATIENCE_S):
            decision = await safety.propose("read_file", deadline_s=0.6)

    assert_unavailable(decision, "0.6 s")


async def test_a_frozen_bus_is_unavailable_after_the_deadline_and_recovers(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        assert (await safety.propose("read_file")).allowed

        bus.freeze()
        try:
            decision = await safety.propose("read_file", deadline_s=0.2)
        finally:
            bus.thaw()

        assert_unavailable(decision)
        assert (await safety.propose("read_file")).allowed
    assert daemon.unread()


async def test_a_bus_frozen_from_the_start_is_unavailable_after_the_deadline(
    bus: NatsProcess,
) -> None:
    bus.freeze()
    try:
        async with Safety("code", url=bus.url, deadline_s=0.6) as safety:
            decision = await safety.propose("read_file")
    finally:
        bus.thaw()

    assert_unavailable(decision)


async def test_the_client_reconnects_to_a_restarted_bus(bus: NatsProcess) -> None:
    async with Safety("code", url=bus.url) as safety:
        async with DaemonStandIn(bus.url):
            assert (await safety.propose("read_file")).allowed
        bus.stop()
        down = await safety.propose("read_file")
        bus.start()
        async with DaemonStandIn(bus.url):
            up = await safety.propose("read_file")

    assert_unavailable(down, bus.url)
    assert up.allowed


async def test_a_call_ends_the_pause_between_attempts_to_connect(
    bus: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "FIRST_PAUSE_S", 60)
    bus.stop()
    async with Safety("code", url=bus.url) as safety:
        assert_unavailable(await safety.propose("read_file"), bus.url)
        bus.start()
        async with DaemonStandIn(bus.url):
            assert (await safety.propose("read_file")).allowed


async def test_the_client_finds_a_daemon_at_its_new_address(
    bus: NatsProcess, data_dir: Path
) -> None:
    endpoint = data_dir / "endpoint.json"
    async with Safety("code") as safety:
        endpoint.write_text(f'{{"bus": "{bus.url}", "pid": 1}}')
        async with DaemonStandIn(bus.url):
            assert (await safety.propose("read_file")).allowed

        bus.move()
        endpoint.write_text(f'{{"bus": "{bus.url}", "pid": 2}}')
        async with DaemonStandIn(bus.url):
            assert (await safety.propose("read_file")).allowed


async def test_a_proposal_in_flight_when_the_bus_dies_is_never_sent_later(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent
    async with Safety("code", url=bus.url) as safety:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_kill_when_asked, bus, daemon)
            decision = await safety.propose("read_file")

        assert_unavailable(decision, bus.url)
        bus.start()
        async with DaemonStandIn(bus.url) as again:
            assert (await safety.propose("list_files")).allowed
            assert (await again.asked()).fields["type"] == "list_files"
            assert again.unread() == 0


async def _kill_when_asked(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    await daemon.asked()
    bus.stop()


async def test_a_message_too_large_for_the_bus_is_unavailable(tmp_path: Path) -> None:
    bus = NatsProcess(tmp_path, "max_payload: 1024")
    try:
        async with DaemonStandIn(bus.url), Safety("code", url=bus.url) as safety:
            big = await safety.propose("run_shell", text="x" * 2000)
            small = await safety.propose("run_shell")
    finally:
        bus.stop()

    assert_unavailable(big, bus.url)
    assert small.allowed


async def test_a_bus_that_does_not_read_messages_is_unavailable_immediately(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "MAX_HELD_BYTES", -1)

    async with Safety("code", url=bus.url) as safety:
        assert_unavailable(await safety.propose("read_file"), "accepts no messages")

    assert daemon.unread() == 0


INFO = b'INFO {"server_id":"x","version":"2.15.1","max_payload":1024}\r\n'


@pytest.mark.parametrize(
    "greeting", [INFO, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INFO {\r\n"]
)
async def test_a_server_that_does_not_speak_nats_is_unavailable(greeting: bytes) -> None:
    async def greet(stream: SocketStream) -> None:
        async with stream:
            if greeting:
                await stream.send(greeting)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, greet)
            async with Safety("code", url=f"nats://127.0.0.1:{port}") as safety:
                decision = await safety.propose("read_file")
            tasks.cancel_scope.cancel()

    assert_unavailable(decision, f"nats://127.0.0.1:{port}")


async def test_the_error_for_a_missing_endpoint_has_no_command_that_a_model_would_run(
    data_dir: Path,
) -> None:
    async with Safety("code") as safety:
        decision = await safety.propose("read_file")

    start = "ask the operator to start safetyd"
    assert_unavailable(decision, str(data_dir / "endpoint.json"), start, "SAFETYD_DATA_DIR")
    assert "safetyd run" not in decision.reason


@pytest.mark.parametrize("content", ["", "{", "[]", '{"bus": 3}', '{"web": "x"}', "\udcff"])
async def test_the_error_names_a_broken_endpoint_file(data_dir: Path, content: str) -> None:
    endpoint = data_dir / "endpoint.json"
    endpoint.write_bytes(content.encode(errors="surrogateescape"))

    async with Safety("code") as safety:
        decision = await safety.propose("read_file")

    assert_unavailable(decision, str(endpoint))


@pytest.mark.parametrize(
    "url", ["", "nats://", "http://[", "nats://127.0.0.1:99999", "nats://no.such.invalid:4222"]
)
async def test_an_invalid_address_is_unavailable(url: str) -> None:
    async with Safety("code", url=url, deadline_s=1) as safety:
        assert_unavailable(await safety.propose("read_file"))


async def test_errors_hide_the_password_in_an_address() -> None:
    async with Safety("code", url="nats://me:secret@127.0.0.1:1") as safety:
        decision = await safety.propose("read_file")

    assert_unavailable(decision, NOWHERE)
    assert "secret" not in decision.reason


async def test_the_error_for_a_missing_key_file_says_how_to_make_a_key(
    bus: NatsProcess, tmp_path: Path
) -> None:
    async with Safety("code", url=bus.url, key_file=tmp_path / "none.nk") as safety:
        decision = await safety.propose("read_file")

    assert_unavailable(decision, "none.nk", "safetyd agent add code")


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", b"SUAB"])
async def test_a_key_file_without_a_key_is_unavailable(
    bus: NatsProcess, tmp_path: Path, content: bytes
) -> None:
    key = tmp_path / "bad.nk"
    key.write_bytes(content)

    async with Safety("code", url=bus.url, key_file=key) as safety:
        assert_unavailable(await safety.propose("read_file"))


async def test_a_client_that_is_not_open_blocks_proposals(bus: NatsProcess) -> None:
    safety = Safety("code", url=bus.url)
    before = await safety.propose("read_file")
    await safety.__aexit__()
    async with safety:
        pass
    after = await safety.propose("read_file")

    assert_unavailable(before, "async with")
    assert_unavailable(after, "async with")
    assert not await safety.report("x", ok=True)
    assert not await safety.heartbeat()


async def test_a_client_can_be_opened_again(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    safety = Safety("code", url=bus.url)
    for _ in range(2):
        async with safety:
            assert (await safety.propose("read_file")).allowed
    assert daemon.unread() == 2


async def test_opening_an_open_client_raises(bus: NatsProcess) -> None:
    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(RuntimeError, match="already open"):
            await safety.__aenter__()


async def test_an_exception_in_the_body_is_raised_unchanged() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Safety("code", url=NOWHERE):
            raise KeyError("mine")


async def test_a_block_made_by_the_client_is_a_complete_decision() -> None:
    async with Safety("code", url=NOWHERE) as safety:
        decision = await safety.propose("read_file", id="mine")

    assert msgspec.json.decode(msgspec.json.encode(decision), type=Decision) == decision
    assert (decision.id, decision.agent, decision.status) == ("mine", "code", "final")
    assert "Do not act" in decision.agent_message
