"""Of several servers, the first that answers is used, and nothing is left open on the others."""

import anyio
import pytest

from safetyd.client import server_race
from safetyd.client.server_race import first_of, shuffled


class Servers:
    """Servers that answer, refuse or say nothing, by name."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.cancelled: list[str] = []
        self.closed: list[str] = []
        self.answer = anyio.Event()

    async def connect(self, server: str) -> str:
        self.opened.append(server)
        if server.startswith("refuses"):
            raise ConnectionError(server)
        try:
            if server.startswith("frozen"):
                await anyio.sleep_forever()
            if server.startswith("slow"):
                await self.answer.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(server)
            raise
        self.answer.set()
        return server

    async def close(self, server: str) -> None:
        self.closed.append(server)


async def test_a_silent_server_is_overtaken_and_its_attempt_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_race, "HEAD_START_S", 0.01)
    servers = Servers()

    found = await first_of(
        ["frozen", "refuses", "answers", "unused"], servers.connect, servers.close
    )

    assert found == "answers"
    assert servers.opened == ["frozen", "refuses", "answers"]
    assert servers.cancelled == ["frozen"]


async def test_no_server_waits_for_the_head_start_of_one_that_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_race, "HEAD_START_S", 600.0)
    servers = Servers()

    with anyio.fail_after(30):
        assert await first_of(["refuses", "answers"], servers.connect, servers.close) == "answers"


async def test_if_all_refuse_the_last_error_is_raised() -> None:
    servers = Servers()

    with pytest.raises(ConnectionError, match="refuses2"):
        await first_of(["refuses1", "refuses2"], servers.connect, servers.close)


async def test_of_two_servers_that_answer_together_one_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_race, "HEAD_START_S", 0.01)
    servers = Servers()

    found = await first_of(["slow1", "slow2", "answers"], servers.connect, servers.close)

    others = [name for name in servers.opened if name != found]
    assert sorted(servers.closed + servers.cancelled) == sorted(others)


def test_all_servers_are_used_first_at_times() -> None:
    servers = ["a", "b", "c"]

    orders = [shuffled(servers) for _ in range(200)]

    assert {order[0] for order in orders} == set(servers)
    assert all(sorted(order) == servers for order in orders)
