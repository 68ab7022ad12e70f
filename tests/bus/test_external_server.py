from collections.abc import Iterator

import pytest

from safetyd.bus.external_server import external_problems
from safetyd.bus.nats_client import HardenedClient
from tests.nats_process import NatsProcess
from tests.servers import connected, frozen

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


async def test_server_that_does_not_answer_is_not_called_misconfigured(
    bus: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.bus.external_server.ASK_S", 0.1)

    async with connected(as_user("daemon", bus)) as client:
        with frozen(bus), pytest.raises(TimeoutError):
            await external_problems(client)
