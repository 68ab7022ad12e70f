import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.agents.stop_reserve import FREE, HELD, JOURNAL_S, LOST, SIZE_BYTES, StopReserve
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.guards.stop import Stop
from safetyd.core.policy import Policy
from safetyd.journal.mailbox import Mailbox
from tests.captured_connection import CapturedPublisher, work_off
from tests.servers import until
from tests.story import NOON


def a_stop(epoch: int = 1, agent: str | None = None, reason: str = "drill") -> Stop:
    return Stop(source="operator", by="alice", reason=reason, since=NOON, agent=agent, epoch=epoch)


@pytest.fixture
def reserve(tmp_path: Path) -> StopReserve:
    made = StopReserve(tmp_path)
    made.prepare()
    return made


class StopRig:
    """A halt over a real engine and a real reserve, whose journal takes nothing by itself."""

    def __init__(self, directory: Path, engine: Engine | None = None) -> None:
        self.engine = engine or Engine(Policy())
        self.mailbox = Mailbox()
        self.stop_flag = StopFlag()
        self.reserve = StopReserve(directory)
        self.reserve.prepare()
        self.halt = EmergencyStop(
            self.stop_flag,
            self.mailbox,
            CapturedPublisher().publisher,
            Subjects(),
            Clock(),
            reserve=self.reserve,
        )
        self.halt.take_over(self.engine, [])

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.reserve.keep)
            yield
            tasks.cancel_scope.cancel()

    def write(self) -> None:
        work_off(self.mailbox, self.engine)


def test_what_is_held_is_found_and_takes_no_more_room(reserve, tmp_path):
    free = (tmp_path / FREE).stat()

    reserve.hold([a_stop(1), a_stop(2, "code")])

    assert StopReserve(tmp_path).found() == (a_stop(1), a_stop(2, "code"))
    held = (tmp_path / HELD).stat()
    assert (held.st_ino, held.st_size, held.st_blocks) == (
        free.st_ino,
        SIZE_BYTES,
        free.st_blocks,
    )
    assert held.st_mode & 0o077 == 0


def test_nothing_held_is_nothing_found(reserve, tmp_path):
    reserve.hold([a_stop()])
    reserve.hold([])

    assert reserve.found() == ()
    assert (tmp_path / FREE).read_bytes().strip() == b""


@pytest.mark.parametrize("content", [b"", b" " * 99, b"[]", b'[{"source":"oper', b"\xff\xfe", b"7"])
def test_what_cannot_be_read_stops_everything(reserve, tmp_path, content):
    (tmp_path / HELD).write_bytes(content)

    (stop,) = reserve.found()

    assert (stop.agent, stop.reason, stop.epoch) == (None, LOST, sys.maxsize)


def test_more_stops_than_fit_stop_everything(reserve):
    reserve.hold([a_stop(number, f"agent-{number}") for number in range(1000)])

    (stop,) = reserve.found()
    assert stop.agent is None


def test_a_long_reason_is_cut_and_its_stop_stays_one_agents(reserve):
    reserve.hold([a_stop(1, "code", "x" * 100_000)])

    (stop,) = reserve.found()
    assert stop.agent == "code"


def test_a_reserve_that_somebody_removed_is_made_anew_where_there_is_room(reserve, tmp_path):
    (tmp_path / FREE).unlink()

    reserve.hold([a_stop()])

    assert reserve.found() == (a_stop(),)


def test_a_start_keeps_what_an_earlier_one_could_not_write(reserve, tmp_path):
    reserve.hold([a_stop()])

    StopReserve(tmp_path).prepare()

    assert StopReserve(tmp_path).found() == (a_stop(),)
    assert not (tmp_path / FREE).exists()


async def test_stop_is_kept_when_the_journal_is_late_and_let_go_when_it_has_it(tmp_path):
    rig, kept = StopRig(tmp_path), anyio.Event()

    async with rig.keeping():
        rig.halt.stop("operator", "alice", "drill", "code", kept.set)
        with anyio.fail_after(JOURNAL_S * 200):
            await kept.wait()
        (stop,) = StopReserve(tmp_path).found()
        assert (stop.by, stop.reason, stop.agent) == ("alice", "drill", "code")

        rig.write()
        await until((tmp_path / FREE).exists)


async def test_stop_that_the_journal_takes_at_once_leaves_the_reserve_alone(tmp_path):
    rig = StopRig(tmp_path)
    before = (tmp_path / FREE).stat().st_ctime_ns

    async with rig.keeping():
        rig.halt.stop("operator", "alice", "drill")
        rig.write()
        await anyio.sleep(JOURNAL_S * 2)

    assert (tmp_path / FREE).stat().st_ctime_ns == before


async def test_stop_that_can_be_kept_nowhere_is_not_said_to_be(tmp_path, caplog):
    rig, kept = StopRig(tmp_path), list[str]()
    (tmp_path / HELD).mkdir()

    async with rig.keeping():
        rig.halt.stop("operator", "alice", "drill", written=lambda: kept.append("yes"))
        await until(lambda: "cannot use" in caplog.text)

    assert kept == []
    assert rig.stop_flag.holds("code")


async def test_stop_of_a_file_or_the_environment_needs_no_reserve(tmp_path):
    rig, path = StopRig(tmp_path), tmp_path / "EMERGENCY_STOP"
    path.touch()

    async with rig.keeping():
        rig.halt.look([path])
        rig.halt.stop("operator", "alice", "drill", "code")
        await until((tmp_path / HELD).exists)
        await until(lambda: StopReserve(tmp_path).found()[0].agent)

    assert [stop.source for stop in StopReserve(tmp_path).found()] == ["operator"]


async def test_start_holds_what_is_in_reserve_and_writes_it_down(tmp_path):
    StopReserve(tmp_path).hold([a_stop(1, "code")])

    rig = StopRig(tmp_path)

    assert rig.stop_flag.holds("code")
    assert not rig.stop_flag.holds("other")
    async with rig.keeping():
        rig.write()
        await until((tmp_path / FREE).exists)
    assert [stop.agent for stop in rig.engine.stop.stops] == ["code"]


async def test_start_does_not_stop_again_for_what_the_journal_took_and_resumed(tmp_path):
    before = StopRig(tmp_path)
    before.halt.stop("operator", "alice", "drill")
    before.write()
    StopReserve(tmp_path).hold(before.engine.stop.stops)
    before.halt.resume(["operator"], "alice", "over")
    before.write()

    rig = StopRig(tmp_path, before.engine)

    assert rig.stop_flag.stops == ()
    async with rig.keeping():
        await until((tmp_path / FREE).exists)
