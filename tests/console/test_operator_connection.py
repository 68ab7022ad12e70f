"""An operator's connection: daemons of another version, and daemons that take over."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from nats.aio.msg import Msg

from safetyd import __version__
from safetyd.bus.keyring import Keyring
from safetyd.console import operator_connection
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask, connected
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done
from tests.cluster_node import StartNode
from tests.conftest import StartDaemon
from tests.nats_process import NatsProcess
from tests.servers import connected as connected_to
from tests.servers import frozen

OperatorAt = Callable[[str], Location]

GAP_S = 0.7
PATIENCE_S = 30.0
NEVER_S = 600.0


class OtherAnswer(Done, frozen=True, kw_only=True):
    """An answer with a field that this daemon does not send."""

    missing: int


class OtherQuestion(Question[OtherAnswer], frozen=True, tag="limits"):
    """The same question, as another version asks it."""


def test_a_daemon_of_another_version_is_named_with_both_versions(
    start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location(data_dir=start_daemon().data_dir)

    with pytest.raises(Failure) as same:
        ask(location, OtherQuestion())
    monkeypatch.setattr(operator_connection, "__version__", "0.0.1")
    with pytest.raises(Failure) as other:
        ask(location, OtherQuestion())

    assert (same.value.code, other.value.code) == ("failed", "other_version")
    assert "0.0.1" in other.value.message
    assert __version__ in other.value.message


class PlainAnswer(Done, frozen=True, kw_only=True):
    number: int


class PlainQuestion(Question[PlainAnswer], frozen=True, tag="limits"):
    """A question that `answering` answers."""


@pytest.fixture
def operator_at(tmp_path: Path) -> OperatorAt:
    keys = Keyring(tmp_path / "keys")
    keys.make_own()
    return lambda url: Location(data_dir=tmp_path, url=url)


@asynccontextmanager
async def answering(bus: NatsProcess) -> AsyncIterator[list[bytes]]:
    """Answer every question on a server. Yield the questions."""
    asked: list[bytes] = []
    async with connected_to(bus.url) as daemon:

        async def answer(msg: Msg) -> None:
            asked.append(msg.data)
            await msg.respond(b'{"ok": true, "number": 7}')

        await daemon.subscribe("safety.v1.query.*", cb=answer)
        await daemon.flush()
        yield asked


async def test_a_question_waits_for_a_daemon_that_takes_over_and_says_so_once(
    node: NatsProcess, operator_at: OperatorAt
) -> None:
    async def take_over() -> None:
        await anyio.sleep(GAP_S)
        async with answering(node) as asked:
            await over.wait()
            assert len(asked) == 1

    said: list[str] = []
    over = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_over)
        async with connected(operator_at(node.url), said.append) as operator:
            with anyio.fail_after(PATIENCE_S):
                answer = await operator.ask(PlainQuestion())
        over.set()

    assert answer.number == 7
    assert len(said) == 1
    assert node.url in said[0]


async def test_a_question_fails_if_no_daemon_takes_over(
    node: NatsProcess, operator_at: OperatorAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_connection, "TAKEOVER_S", 0.2)
    said: list[str] = []

    async with connected(operator_at(node.url), said.append) as operator:
        with anyio.fail_after(PATIENCE_S), pytest.raises(NotReachable):
            await operator.ask(PlainQuestion())

    assert len(said) == 1


async def test_a_question_does_not_wait_on_a_single_machine(
    tmp_path: Path, operator_at: OperatorAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_connection, "TAKEOVER_S", NEVER_S)
    bus, said = NatsProcess(tmp_path), list[str]()
    try:
        async with connected(operator_at(bus.url), said.append) as operator:
            with anyio.fail_after(PATIENCE_S), pytest.raises(NotReachable):
                await operator.ask(PlainQuestion())
    finally:
        bus.stop()

    assert said == []


async def test_an_operator_reaches_a_daemon_although_one_server_is_frozen_and_one_is_dead(
    start_node: StartNode, operator_at: OperatorAt
) -> None:
    dead, stuck, alive = start_node(), start_node(), start_node()
    dead.stop()
    location = operator_at(",".join(each.url for each in (dead, stuck, alive)))
    async with answering(alive) as asked:
        with frozen(stuck):
            for _ in range(5):  # the order of the servers is random
                async with connected(location) as operator:
                    assert (await operator.ask(PlainQuestion())).number == 7
                    assert not operator.lost.is_set()

    assert len(asked) == 5
