import os
from pathlib import Path

import anyio
import pytest

from safetyd.agents.emergency_stop import LOOK_S, SWITCHES, EmergencyStop, StopFlag, switched_off
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.policy import Policy
from safetyd.journal.mailbox import Mailbox
from tests.captured_connection import CapturedPublisher, Said, work_off
from tests.story import ask, play, propose, resume, stop


class House:
    """A halt over a real engine, its journal always at hand."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine or Engine(Policy())
        self.mailbox = Mailbox()
        self.stop_flag = StopFlag()
        self._ear = CapturedPublisher()
        self.halt = EmergencyStop(
            self.stop_flag, self.mailbox, self._ear.publisher, Subjects(), Clock()
        )

    def write(self) -> list[Event]:
        """Write down what waits; return the stops and resumes among it."""
        events = work_off(self.mailbox, self.engine)
        return [event for event in events if isinstance(event, Stopped | Resumed)]

    def said(self) -> list[Said]:
        return self._ear.said()


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)


async def test_stop_holds_before_anything_is_written() -> None:
    house = House()

    house.halt.stop("operator", "alice", "drill")

    assert house.stop_flag.holds("code") is not None
    assert house.engine.stop.stops == ()
    assert house.stop_flag.unwritten == 1


async def test_stop_is_told_at_once_with_its_epoch() -> None:
    house = House()

    epoch = house.halt.stop("operator", "alice", "drill", agent="code")

    global_state, stop_ = house.said()
    assert global_state.fields["active"] is False
    assert stop_.subject == "safety.v1.state.stop"
    assert stop_.fields.pop("since")
    assert stop_.fields == {
        "active": True,
        "epoch": epoch,
        "reason": "drill",
        "by": "alice",
        "agent": "code",
    }


async def test_stop_is_written_before_what_already_waits() -> None:
    house = House()
    house.halt.resume(["anomaly"], "alice", "")

    house.halt.stop("operator", "alice", "drill")

    assert [type(event) for event in house.write()] == [Stopped, Resumed]


async def test_whoever_stopped_hears_when_it_is_written() -> None:
    house, written = House(), list[str]()

    house.halt.stop("operator", "alice", "drill", written=lambda: written.append("yes"))
    before = list(written)
    house.write()

    assert (before, written) == ([], ["yes"])
    assert house.stop_flag.unwritten == 0
    assert ask(house.engine, propose(1)).cause == "stopped"


async def test_resume_lets_go_only_when_it_is_written() -> None:
    house, written = House(), list[str]()
    house.halt.stop("operator", "alice", "drill")
    house.write()
    house.said()

    house.halt.resume(["operator"], "alice", "over", written=lambda: written.append("yes"))
    held = house.stop_flag.holds("code")
    house.write()

    assert held is not None
    assert house.stop_flag.holds("code") is None
    assert written == ["yes"]
    assert [said.fields["active"] for said in house.said()] == [False]
    assert ask(house.engine, propose(1)).allowed


async def test_resume_of_one_agent_is_told_to_that_agent() -> None:
    house = House()
    house.halt.stop("operator", "alice", "drill", "code")
    house.write()
    house.said()

    house.halt.resume(["operator"], "alice", "over", "code")
    house.write()

    told = [(said.fields["active"], said.fields["agent"]) for said in house.said()]
    assert told == [(False, "code"), (False, None)]


async def test_stop_pressed_while_a_resume_waits_holds_for_good() -> None:
    house = House()
    house.halt.stop("operator", "alice", "first")
    house.write()
    house.halt.resume(["operator"], "alice", "over")

    house.halt.stop("operator", "bob", "no, wait")
    house.write()

    assert house.stop_flag.holds("code") is not None
    assert [stop.by for stop in house.engine.stop.stops] == ["bob"]


async def test_stop_pressed_while_a_resume_is_being_written_holds_for_good() -> None:
    house = House()
    house.halt.stop("operator", "alice", "first")
    house.write()
    house.halt.resume(["operator"], "alice", "over")
    envelope = house.mailbox.take()
    assert envelope is not None
    envelope.open(house.engine, Clock().now())

    house.halt.stop("operator", "bob", "no, wait")
    envelope.deliver(late=False)

    assert house.stop_flag.holds("code") is not None


async def test_older_stop_that_is_written_later_does_not_undo_the_newer() -> None:
    house = House()
    house.halt.stop("operator", "alice", "first")
    house.halt.resume(["operator"], "alice", "over")
    house.halt.stop("operator", "bob", "no, wait")

    house.write()

    assert ask(house.engine, propose(1)).cause == "stopped"
    assert house.stop_flag.holds("code") is not None


async def test_file_that_appears_stops_and_says_who_and_why(tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"
    path.write_text("Stopped by: alice\nREASON: it: deletes things\n\x00junk")

    house.halt.look([path])

    (stopped,) = house.write()
    assert isinstance(stopped, Stopped)
    assert (stopped.by, stopped.reason) == ("alice", "it: deletes things")
    assert stopped.source == f"file:{path}"


async def test_file_that_stays_stops_once(tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"
    path.touch()

    house.halt.look([path])
    house.halt.look([path])
    house.write()
    house.halt.look([path])

    assert len(house.mailbox) == 0
    assert house.engine.stop.epoch == 1


def make_empty(path: Path) -> None:
    path.touch()


def make_binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00 stopped by: \xff")


def make_unsigned(path: Path) -> None:
    path.write_text("stopped by:\nreason:\n")


def make_directory(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)


@pytest.mark.parametrize(
    "make",
    [
        make_empty,
        make_binary,
        make_unsigned,
        make_directory,
        make_pipe,
        make_dangling_link,
        make_link_to_itself,
        make_huge,
    ],
)
async def test_anything_at_the_path_stops(make, tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"
    make(path)

    house.halt.look([path])

    (stopped,) = house.write()
    assert isinstance(stopped, Stopped)
    assert (stopped.by, stopped.reason) == ("file", f"{path} is there")


async def test_path_that_cannot_be_looked_at_stops(tmp_path: Path) -> None:
    house = House()
    (tmp_path / "file").touch()

    house.halt.look([tmp_path / "file" / "EMERGENCY_STOP", tmp_path / ("x" * 300)])

    assert len(house.write()) == 2


async def test_path_in_a_missing_directory_stops_nothing(tmp_path: Path) -> None:
    house = House()

    house.halt.look([tmp_path / "missing" / "EMERGENCY_STOP"])

    assert house.stop_flag.stops == ()


async def test_removed_file_resumes_once_however_long_writing_takes(tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    house.halt.look([path])
    house.write()
    path.unlink()

    for _ in range(5):
        house.halt.look([path])

    (resumed,) = house.write()
    assert isinstance(resumed, Resumed)
    assert resumed.sources == (f"file:{path}",)
    house.halt.look([path])
    assert house.stop_flag.stops == ()
    assert len(house.mailbox) == 0


async def test_file_that_comes_back_while_the_resume_waits_stops_again(tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    house.halt.look([path])
    house.write()
    path.unlink()
    house.halt.look([path])
    path.touch()

    house.halt.look([path])
    house.write()

    assert house.stop_flag.holds("code") is not None
    assert ask(house.engine, propose(1)).cause == "stopped"


async def test_removed_file_does_not_resume_before_its_stop_is_written(tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    house.halt.look([path])
    path.unlink()

    house.halt.look([path])
    (stopped,) = house.write()
    house.halt.look([path])

    assert isinstance(stopped, Stopped)
    assert [type(event) for event in house.write()] == [Resumed]


async def test_removing_a_file_leaves_an_operators_stop(tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    house.halt.look([path])
    house.halt.stop("operator", "alice", "drill")
    house.write()
    path.unlink()

    house.halt.look([path])
    house.write()

    assert [stop.source for stop in house.engine.stop.stops] == ["operator"]


async def test_file_is_noticed_while_the_daemon_runs(tmp_path: Path) -> None:
    house, path = House(), tmp_path / "EMERGENCY_STOP"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.halt.watch, [path])
        await anyio.lowlevel.checkpoint()
        path.touch()
        with anyio.fail_after(LOOK_S * 300):
            await house.mailbox.wait()
        tasks.cancel_scope.cancel()

    assert house.stop_flag.holds("code") is not None


async def test_start_holds_what_the_journal_holds() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=4), stop(1, agent="code", epoch=5))
    house = House(engine)

    house.halt.take_over(engine, [])

    assert len(house.stop_flag.stops) == 2
    assert house.stop_flag.next_epoch() == 6
    assert house.write() == []


async def test_start_goes_on_counting_epochs_after_a_resume() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=4), resume(1, epoch=5))
    house = House(engine)

    house.halt.take_over(engine, [])

    assert house.halt.stop("operator", "alice", "") == 6


async def test_start_finds_a_file_that_was_put_there_meanwhile(tmp_path: Path) -> None:
    house = House()
    (tmp_path / "EMERGENCY_STOP").touch()

    house.halt.take_over(house.engine, [tmp_path / "EMERGENCY_STOP"])

    assert house.stop_flag.holds("code") is not None


async def test_start_lets_go_of_a_file_that_is_gone_and_no_longer_configured(
    tmp_path: Path,
) -> None:
    engine = Engine(Policy())
    play(engine, stop(0, f"file:{tmp_path}/OLD_NAME"))
    house = House(engine)

    house.halt.take_over(engine, [tmp_path / "EMERGENCY_STOP"])
    house.write()

    assert house.stop_flag.stops == ()


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", ["false", "0", "no", "OFF", " False "])
async def test_start_with_a_switch_off_stops_everything(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    house = House()

    house.halt.take_over(house.engine, [])
    house.write()

    decision = ask(house.engine, propose(1))
    assert (decision.cause, decision.reason) == ("disabled", f"disabled: {name}={value}")


@pytest.mark.parametrize("value", ["", "true", "1", "yes", "on", "falsely"])
def test_other_values_switch_nothing_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFETYD_ENABLED", value)

    assert switched_off() == ""


async def test_restart_with_the_switch_still_off_writes_nothing_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAFETYD_ENABLED", "false")
    engine = Engine(Policy())
    play(engine, stop(0, "environment"))
    house = House(engine)

    house.halt.take_over(engine, [])

    assert house.write() == []
    assert house.stop_flag.holds("code") is not None


async def test_restart_with_the_switch_on_again_resumes() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, "environment"))
    house = House(engine)

    house.halt.take_over(engine, [])
    house.write()

    assert house.stop_flag.stops == ()
    assert ask(engine, propose(1)).allowed
