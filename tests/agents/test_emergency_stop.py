import os
from pathlib import Path

import anyio
import pytest

from safetyd.agents.emergency_stop import LOOK_S, SWITCHES, EmergencyStop, StopFlag, switched_off
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.catalogue.guard_entries import stop_key
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.policy import Policy
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import Mailbox
from tests.captured_connection import CapturedPublisher, Said, work_off
from tests.story import ask, play, propose, resume, stop


class StopRig:
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
    rig = StopRig()

    rig.halt.stop("operator", "alice", "drill")

    assert rig.stop_flag.holds("code") is not None
    assert rig.engine.stop.stops == ()
    assert rig.stop_flag.unwritten == 1


async def test_stop_is_told_at_once_with_its_epoch() -> None:
    rig = StopRig()

    epoch = rig.halt.stop("operator", "alice", "drill", agent="code")

    global_state, stop_ = rig.said()
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
    rig = StopRig()
    rig.halt.resume(["anomaly"], "alice", "")

    rig.halt.stop("operator", "alice", "drill")

    assert [type(event) for event in rig.write()] == [Stopped, Resumed]


async def test_whoever_stopped_hears_when_it_is_written() -> None:
    rig, written = StopRig(), list[str]()

    rig.halt.stop("operator", "alice", "drill", written=lambda: written.append("yes"))
    before = list(written)
    rig.write()

    assert (before, written) == ([], ["yes"])
    assert rig.stop_flag.unwritten == 0
    assert ask(rig.engine, propose(1)).cause == "stopped"


async def test_resume_lets_go_only_when_it_is_written() -> None:
    rig, written = StopRig(), list[str]()
    rig.halt.stop("operator", "alice", "drill")
    rig.write()
    rig.said()

    rig.halt.resume(["operator"], "alice", "over", written=lambda: written.append("yes"))
    held = rig.stop_flag.holds("code")
    rig.write()

    assert held is not None
    assert rig.stop_flag.holds("code") is None
    assert written == ["yes"]
    assert [said.fields["active"] for said in rig.said()] == [False]
    assert ask(rig.engine, propose(1)).allowed


async def test_resume_of_one_agent_is_told_to_that_agent() -> None:
    rig = StopRig()
    rig.halt.stop("operator", "alice", "drill", "code")
    rig.write()
    rig.said()

    rig.halt.resume(["operator"], "alice", "over", "code")
    rig.write()

    told = [(said.fields["active"], said.fields["agent"]) for said in rig.said()]
    assert told == [(False, "code"), (False, None)]


async def test_stop_pressed_while_a_resume_waits_holds_for_good() -> None:
    rig = StopRig()
    rig.halt.stop("operator", "alice", "first")
    rig.write()
    rig.halt.resume(["operator"], "alice", "over")

    rig.halt.stop("operator", "bob", "no, wait")
    rig.write()

    assert rig.stop_flag.holds("code") is not None
    assert [stop.by for stop in rig.engine.stop.stops] == ["bob"]


async def test_stop_pressed_while_a_resume_is_being_written_holds_for_good() -> None:
    rig = StopRig()
    rig.halt.stop("operator", "alice", "first")
    rig.write()
    rig.halt.resume(["operator"], "alice", "over")
    envelope = rig.mailbox.take()
    assert envelope is not None
    put(rig.engine, envelope, Clock().now())

    rig.halt.stop("operator", "bob", "no, wait")
    envelope.deliver(late=False)

    assert rig.stop_flag.holds("code") is not None


async def test_file_that_appears_stops_and_says_who_and_why(tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    path.write_text("Stopped by: alice\nREASON: it: deletes things\n\x00junk")

    rig.halt.look([path])

    (stopped,) = rig.write()
    assert isinstance(stopped, Stopped)
    assert (stopped.by, stopped.reason) == ("alice", "it: deletes things")
    assert stopped.source == f"file:{path}"


async def test_file_without_a_reason_has_the_alert_of_the_command_that_wrote_it(
    tmp_path: Path,
) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    path.write_text("Stopped by: alice\nReason: \n")

    rig.halt.stop("operator", "alice", "")
    rig.halt.look([path])

    keys = {stop_key(event) for event in rig.write() if isinstance(event, Stopped)}
    assert len(keys) == 1


async def test_file_that_stays_stops_once(tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    path.touch()

    rig.halt.look([path])
    rig.halt.look([path])
    rig.write()
    rig.halt.look([path])

    assert len(rig.mailbox) == 0
    assert rig.engine.stop.epoch == 1


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)


@pytest.mark.parametrize(
    "make",
    [
        Path.touch,
        Path.mkdir,
        os.mkfifo,
        make_huge,
        lambda path: path.write_bytes(b"\xff\xfe\x00 stopped by: \xff"),
        lambda path: path.write_text("stopped by:\nreason:\n"),
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path),
    ],
)
async def test_anything_at_the_path_stops(make, tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    make(path)

    rig.halt.look([path])

    (stopped,) = rig.write()
    assert isinstance(stopped, Stopped)
    assert (stopped.by, stopped.reason) == ("file", f"{path} exists")


async def test_path_that_cannot_be_looked_at_stops(tmp_path: Path) -> None:
    rig = StopRig()
    (tmp_path / "file").touch()

    rig.halt.look([tmp_path / "file" / "EMERGENCY_STOP", tmp_path / ("x" * 300)])

    assert len(rig.write()) == 2


async def test_path_in_a_missing_directory_stops_nothing(tmp_path: Path) -> None:
    rig = StopRig()

    rig.halt.look([tmp_path / "missing" / "EMERGENCY_STOP"])

    assert rig.stop_flag.stops == ()


async def test_removed_file_resumes_once_however_long_writing_takes(tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    rig.halt.look([path])
    rig.write()
    path.unlink()

    for _ in range(5):
        rig.halt.look([path])

    (resumed,) = rig.write()
    assert isinstance(resumed, Resumed)
    assert resumed.sources == (f"file:{path}",)
    rig.halt.look([path])
    assert rig.stop_flag.stops == ()
    assert len(rig.mailbox) == 0


async def test_file_that_comes_back_while_the_resume_waits_stops_again(tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    rig.halt.look([path])
    rig.write()
    path.unlink()
    rig.halt.look([path])
    path.touch()

    rig.halt.look([path])
    rig.write()

    assert rig.stop_flag.holds("code") is not None
    assert ask(rig.engine, propose(1)).cause == "stopped"


async def test_removed_file_does_not_resume_before_its_stop_is_written(tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    rig.halt.look([path])
    path.unlink()

    rig.halt.look([path])
    (stopped,) = rig.write()
    rig.halt.look([path])

    assert isinstance(stopped, Stopped)
    assert [type(event) for event in rig.write()] == [Resumed]


async def test_removing_a_file_leaves_an_operators_stop(tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"
    path.touch()
    rig.halt.look([path])
    rig.halt.stop("operator", "alice", "drill")
    rig.write()
    path.unlink()

    rig.halt.look([path])
    rig.write()

    assert [stop.source for stop in rig.engine.stop.stops] == ["operator"]


async def test_file_is_noticed_while_the_daemon_runs(tmp_path: Path) -> None:
    rig, path = StopRig(), tmp_path / "EMERGENCY_STOP"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.halt.watch, [path])
        await anyio.lowlevel.checkpoint()
        path.touch()
        with anyio.fail_after(LOOK_S * 300):
            await rig.mailbox.wait()
        tasks.cancel_scope.cancel()

    assert rig.stop_flag.holds("code") is not None


async def test_start_holds_what_the_journal_holds() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=4), stop(1, agent="code", epoch=5))
    rig = StopRig(engine)

    rig.halt.take_over(engine, [])

    assert len(rig.stop_flag.stops) == 2
    assert rig.stop_flag.next_epoch() == 6
    assert rig.write() == []


async def test_start_goes_on_counting_epochs_after_a_resume() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=4), resume(1, epoch=5))
    rig = StopRig(engine)

    rig.halt.take_over(engine, [])

    assert rig.halt.stop("operator", "alice", "") == 6


async def test_start_finds_a_file_that_was_put_there_meanwhile(tmp_path: Path) -> None:
    rig = StopRig()
    (tmp_path / "EMERGENCY_STOP").touch()

    rig.halt.take_over(rig.engine, [tmp_path / "EMERGENCY_STOP"])

    assert rig.stop_flag.holds("code") is not None


async def test_start_lets_go_of_a_file_that_is_gone_and_no_longer_configured(
    tmp_path: Path,
) -> None:
    engine = Engine(Policy())
    play(engine, stop(0, f"file:{tmp_path}/OLD_NAME"))
    rig = StopRig(engine)

    rig.halt.take_over(engine, [tmp_path / "EMERGENCY_STOP"])
    rig.write()

    assert rig.stop_flag.stops == ()


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", ["false", "0", "no", "OFF", " False "])
async def test_start_with_a_switch_off_stops_everything(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    rig = StopRig()

    rig.halt.take_over(rig.engine, [])
    rig.write()

    decision = ask(rig.engine, propose(1))
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
    rig = StopRig(engine)

    rig.halt.take_over(engine, [])

    assert rig.write() == []
    assert rig.stop_flag.holds("code") is not None


async def test_restart_with_the_switch_on_again_resumes() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, "environment"))
    rig = StopRig(engine)

    rig.halt.take_over(engine, [])
    rig.write()

    assert rig.stop_flag.stops == ()
    assert ask(engine, propose(1)).allowed
