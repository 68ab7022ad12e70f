import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import nats
import pytest

from safetyd.client import SyncSafety
from safetyd.operators.contract.agent_contract import AgentsAnswer
from safetyd.operators.contract.hold_contract import StopDone
from safetyd.operators.contract.status_contract import StatusAnswer
from safetyd.operators.replies import Done
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.console.console_rig import Said, here, told
from tests.filled import filled
from tests.nats_process import NatsProcess

SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU\n"
OURS = re.compile(r"Stopped by: local\nTime: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\nReason: fire drill\n")


@pytest.fixture(scope="module")
def shared_daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    return start_daemon()


@pytest.fixture
def shared(shared_daemon: RunningDaemon) -> Iterator[RunningDaemon]:
    """A daemon that others have used, with nothing stopped."""
    yield shared_daemon
    path = stop_file(shared_daemon)
    if path.is_dir():
        path.rmdir()
    told(shared_daemon, "resume", "--yes")
    for stop in stops(shared_daemon):
        if stop["agent"] is not None:
            told(shared_daemon, "resume", "--agent", stop["agent"])


@pytest.fixture
def listener(daemon: RunningDaemon) -> Iterator[SyncSafety]:
    """An agent that is heard, and acknowledges a stop by itself."""
    with SyncSafety("listener", data_dir=daemon.data_dir) as safety:
        assert safety.propose("read_file").allowed
        yield safety


def stop_file(daemon: RunningDaemon) -> Path:
    return daemon.data_dir / "EMERGENCY_STOP"


def stops(daemon: RunningDaemon) -> list[dict[str, Any]]:
    status = json.loads(told(daemon, "status", "--json").stdout)
    found: list[dict[str, Any]] = status["stop"]["stops"]
    return found


@pytest.mark.req("S2.25")
@pytest.mark.req("S2.26")
def test_a_stop_that_everybody_acknowledges_says_so_and_resume_ends_it(daemon, listener):
    said = daemon.safetyd("stop", "fire\ndrill")

    assert said.returncode == 0
    assert OURS.fullmatch(stop_file(daemon).read_text())
    assert re.search(r"acknowledged by +listener", said.stdout)
    assert "1 allowed action has no outcome yet" in said.stdout
    assert "(listener 1)" in said.stdout
    assert re.search(r"`safetyd explain \w+`", said.stdout)
    assert said.stdout.endswith("\nAll autonomous operations halted, except the actions above\n")
    assert listener.propose("read_file").cause == "stopped"
    assert {stop["source"].partition(":")[0] for stop in stops(daemon)} == {"operator", "file"}

    resumed = daemon.safetyd("resume")

    assert (resumed.returncode, resumed.stdout) == (0, "Resumed all agents.\n")
    assert not stop_file(daemon).exists()
    assert listener.propose("read_file").allowed


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for agents that will not answer."""
    monkeypatch.setattr("safetyd.console.subcommands.stop_resume.WAIT_S", 0.5)


@pytest.mark.usefixtures("hasty")
def test_a_silent_agent_is_named_and_nothing_is_claimed(shared):
    told(shared, "check", "gone", "read_file")

    said = told(shared, "stop")

    assert said.returncode == 1
    assert re.search(r"silent +.*\bgone\b", said.stdout)
    assert "All autonomous operations halted" not in said.stdout


@pytest.mark.req("S2.26")
def test_the_operators_commands_run_and_a_failing_one_is_told(start_daemon: StartDaemon):
    daemon = start_daemon('[stop]\ncommands = ["echo cancelled", "exit 3"]\n')

    said = daemon.safetyd("stop")

    assert said.returncode == 1
    assert "cancelled\necho cancelled: exit code 0\nexit 3: exit code 3\n" in said.stdout
    assert "All autonomous operations halted" not in said.stdout


def test_the_first_configured_file_is_written(start_daemon: StartDaemon):
    daemon = start_daemon('[stop]\nfiles = ["HALT", "EMERGENCY_STOP"]\n')

    told(daemon, "stop", "fire drill")

    assert OURS.fullmatch((daemon.data_dir / "HALT").read_text())
    assert not stop_file(daemon).exists()


def test_a_stop_of_one_agent_writes_no_file_and_leaves_others_alone(daemon, listener):
    said = told(daemon, "stop", "--agent", "listener")

    assert said.returncode == 0
    assert said.stdout.splitlines()[-1].startswith("listener is halted")
    assert not stop_file(daemon).exists()
    assert not listener.propose("read_file").allowed
    assert told(daemon, "check", "other", "read_file").returncode == 0

    assert told(daemon, "resume", "--agent", "listener").returncode == 0
    assert listener.propose("read_file").allowed


def test_an_agent_is_not_said_to_go_on_while_everything_is_stopped(shared):
    told(shared, "stop", "--agent", "x2")
    stop_file(shared).touch()
    told(shared, "resume")  # returns when the daemon has seen the file

    said = told(shared, "resume", "--agent", "x2")

    assert said.returncode == 1
    assert "Cleared the stop of x2.\nStill stopped: everything by the file " in said.stdout


def test_a_stop_of_a_name_that_was_never_heard_says_so(shared):
    told(shared, "check", "listener", "read_file")

    said = told(shared, "stop", "--agent", "listner")

    assert said.returncode == 1
    assert "Unknown agent listner. Did you mean listener?" in said.stdout
    assert stops(shared)[0]["agent"] == "listner"

    resumed = told(shared, "resume", "--agent", "listner")

    assert (resumed.returncode, resumed.stdout) == (
        0,
        "Unknown agent listner. Did you mean listener?\nResumed listner.\n",
    )


def test_a_resume_of_nothing_says_so(shared):
    everything, one = told(shared, "resume"), told(shared, "resume", "--agent", "nobody")

    assert (everything.returncode, everything.stdout) == (0, "Nothing was stopped.\n")
    assert one.returncode == 0
    assert one.stdout.endswith("There was no separate stop for nobody.\n")


def test_a_resume_of_everything_names_agents_that_are_still_stopped(shared):
    told(shared, "stop", "--agent", "x1")

    said = told(shared, "resume")

    assert said.returncode == 0
    assert said.stdout.splitlines()[1].startswith("Still stopped: x1 by local's")
    assert "`safetyd resume --agent x1`" in said.stdout


def test_without_a_daemon_the_file_is_written_and_holds_from_the_start(daemon):
    daemon.stop()

    said = told(daemon, "stop", "fire drill")

    assert said.returncode == 4
    assert "takes effect when the daemon starts" in said.stdout
    assert OURS.fullmatch(stop_file(daemon).read_text())

    resumed = told(daemon, "resume")

    assert resumed.returncode == 4
    assert f"the stop file {stop_file(daemon)} exists" in resumed.stderr
    daemon.start()
    assert told(daemon, "check", "code", "read_file").stdout.startswith("BLOCKED: emergency stop")
    assert told(daemon, "resume").returncode == 0


def test_before_the_first_start_the_file_is_written_too(tmp_path):
    said = here("stop", SAFETYD_DATA_DIR=str(tmp_path / "data"))

    assert said.returncode == 4
    assert (tmp_path / "data/EMERGENCY_STOP").exists()
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_an_observer_stops_nothing_and_writes_no_file(shared):
    told(shared, "operator", "add", "olga", "--observer")

    said = told(shared, "stop", "--operator", "olga")

    assert said.returncode == 1
    assert "observer" in said.stderr
    assert not stop_file(shared).exists()
    assert not stops(shared)


def agents_key(daemon: RunningDaemon) -> Path:
    told(daemon, "agent", "add", "keyed")
    return daemon.data_dir / "keys/agents/keyed.nk"


def revoked_key(daemon: RunningDaemon) -> Path:
    told(daemon, "operator", "add", "rita")
    seed = (daemon.data_dir / "keys/operators/rita.nk").read_text()
    told(daemon, "operator", "revoke", "rita")
    copy = daemon.directory / "rita.nk"
    copy.write_text(seed)
    return copy


@pytest.mark.parametrize(
    ("key", "why"), [(agents_key, "keyed is not allowed"), (revoked_key, "rejects the key")]
)
def test_whoever_the_bus_refuses_still_stops_a_running_daemon_by_file(shared, key, why):
    path = key(shared)

    said = told(shared, "stop", "fire drill", "--key-file", str(path))

    assert said.returncode == 1
    assert why in said.stderr
    assert len(said.stderr.splitlines()) == 1
    assert f"(pid {shared.pid}) stops all agents" in said.stdout
    assert stop_file(shared).read_text().startswith(f"Stopped by: {path.stem}\n")
    told(shared, "resume", "--yes")
    assert not stop_file(shared).exists()


def as_directory(key: Path) -> None:
    key.unlink()
    key.mkdir()


@pytest.mark.parametrize(
    "spoil", [Path.unlink, lambda key: key.write_text("garbled\n"), as_directory]
)
def test_whatever_is_wrong_with_the_key_the_file_is_written(spoil, tmp_path):
    endpoint = {"bus": "nats://127.0.0.1:1", "web": "", "pid": os.getpid(), "version": ""}
    (tmp_path / "endpoint.json").write_text(json.dumps(endpoint))
    key = with_key(tmp_path)
    spoil(key)

    said = here("stop", "fire drill", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 1
    assert OURS.fullmatch((tmp_path / "EMERGENCY_STOP").read_text())
    assert f"the key {key} of operator local" in said.stderr
    assert len(said.stderr.splitlines()) == 1
    assert f"(pid {os.getpid()}) stops all agents" in said.stdout


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--url", "nonsense"), {}),
        ((), {"SAFETYD_URL": "http://127.0.0.1"}),
        (("--key-file", "my key.nk"), {}),
        (("--url", "nats://127.0.0.1:1"), {}),
    ],
)
def test_whatever_is_wrong_with_the_connection_the_file_is_written(options, variables, tmp_path):
    said = here("stop", *options, SAFETYD_DATA_DIR=str(tmp_path), **variables)

    assert said.returncode != 0
    assert (tmp_path / "EMERGENCY_STOP").read_text().startswith("Stopped by: ")
    assert "safetyd: " in said.stderr


def test_a_stop_that_can_be_written_nowhere_says_that_nothing_was_stopped(tmp_path):
    (tmp_path / "EMERGENCY_STOP.d").touch()

    said = here("stop", "--data-dir", str(tmp_path / "EMERGENCY_STOP.d"))

    assert said.returncode == 1
    assert "is not running on" in said.stderr
    assert "cannot create" in said.stderr


@pytest.mark.parametrize("options", [(), ("--agent", "code")])
def test_a_stop_without_a_daemon_first_says_that_nothing_was_stopped(options, tmp_path):
    said = here("stop", *options, SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 4
    first, other, *_ = said.stderr.splitlines()
    assert first == f"NOTHING WAS STOPPED: no daemon is running on {tmp_path}."
    assert "--data-dir DIR" in other
    assert (tmp_path / "EMERGENCY_STOP").exists() == (not options)


def test_a_frozen_daemon_is_stopped_by_file(daemon):
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        said = told(daemon, "stop")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)

    assert said.returncode == 4
    assert f"(pid {daemon.pid}) stops all agents" in said.stdout
    assert "did not answer within" in said.stderr
    assert stop_file(daemon).exists()


def test_a_reader_that_goes_does_not_keep_a_stop_from_being_finished(start_daemon: StartDaemon):
    daemon = start_daemon('[stop]\ncommands = ["touch ran"]\n')
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "stop"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=daemon.directory,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir)),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert stop_file(daemon).exists()
    assert (daemon.directory / "ran").exists()


def test_somebody_elses_file_is_shown_and_left_without_a_terminal(shared):
    stop_file(shared).write_text("hands off\x1b[2J\n")

    said = told(shared, "resume")

    assert said.returncode == 1
    assert "  hands off\\x1b[2J\n" in said.stdout
    assert "--yes" in said.stdout
    assert stop_file(shared).exists()


def test_yes_deletes_somebody_elses_file(shared):
    stop_file(shared).write_text("hands off\n")

    assert told(shared, "resume", "--yes").returncode == 0
    assert not stop_file(shared).exists()


def resumed_at_a_terminal(daemon: RunningDaemon, typed: str) -> subprocess.CompletedProcess[str]:
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    said = subprocess.run(
        [sys.executable, "-m", "safetyd", "resume"],
        stdin=theirs,
        capture_output=True,
        text=True,
        check=False,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir)),
    )
    os.close(ours)
    os.close(theirs)
    return said


@pytest.mark.parametrize("typed", ["\n", "n\n", "No \n"])
def test_at_a_terminal_a_resume_can_be_cancelled(shared, typed):
    stop_file(shared).write_text("hands off\n")

    said = resumed_at_a_terminal(shared, typed)

    assert said.returncode == 1
    assert "cancel" in said.stdout
    assert "nothing was resumed" in said.stderr
    assert stop_file(shared).exists()
    assert told(shared, "resume", "--yes").returncode == 0


@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 1)])
def test_at_a_terminal_a_reason_and_somebody_elses_file_are_asked_about(shared, answer, exit_code):
    stop_file(shared).write_text("hands off\n")

    said = resumed_at_a_terminal(shared, f"fixed\n{answer}")

    assert "Why is it safe to resume" in said.stdout
    assert "Delete it?" in said.stdout
    assert (said.returncode, stop_file(shared).exists()) == (exit_code, exit_code == 1)


def test_a_stop_file_that_cannot_be_deleted_keeps_the_stop_and_is_named(shared):
    stop_file(shared).mkdir()

    said = told(shared, "resume", "--yes")

    assert said.returncode == 1
    assert f"Cannot delete {stop_file(shared)}" in said.stdout
    assert "Still stopped: everything" in said.stdout


@pytest.mark.usefixtures("hasty")
def test_a_stop_leaves_what_somebody_else_wrote(shared):
    stop_file(shared).write_text("hands off\n")

    told(shared, "stop")

    assert stop_file(shared).read_text() == "hands off\n"


@pytest.fixture
async def stalled(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A bus on which a stop is taken but nothing can be written down or asked."""
    answer = getattr(request, "param", b'{"ok":true,"epoch":1,"journalled":false}')
    bus = NatsProcess(tmp_path)
    client = await nats.connect(bus.url)

    async def taken(message: Any) -> None:
        await message.respond(answer)

    async def unanswered(_message: Any) -> None: ...

    await client.subscribe("safety.v1.control.*", cb=taken)
    await client.subscribe("safety.v1.query.*", cb=unanswered)
    await client.flush()
    yield bus.url
    await client.close()
    bus.stop()


async def stopped_at(url: str, data_dir: Path, *options: str) -> Said:
    """Stop a daemon at an address, with a key of this machine."""
    with_key(data_dir)
    return await anyio.to_thread.run_sync(
        lambda: here("stop", *options, "--url", url, SAFETYD_DATA_DIR=str(data_dir))
    )


def with_key(data_dir: Path) -> Path:
    key = data_dir / "keys/operator.nk"
    key.parent.mkdir(parents=True, exist_ok=True)
    key.write_text(SEED)
    return key


@pytest.mark.usefixtures("hasty")
async def test_a_stop_that_is_not_yet_written_down_says_so(stalled, tmp_path):
    data_dir = tmp_path / "data"

    said = await stopped_at(stalled, data_dir)

    assert said.returncode == 1
    assert "not recorded yet" in said.stdout
    assert "did not say which agents" in said.stdout
    assert "No [stop] commands were run" in said.stdout
    assert (data_dir / "EMERGENCY_STOP").exists()
    assert "would lose" not in said.stdout

    one = await stopped_at(stalled, data_dir, "--agent", "a")
    assert one.returncode == 1
    assert "A restart would lose the stop" in one.stdout


@pytest.mark.parametrize("stalled", [b'{"ok":true}', b"nonsense"], indirect=True)
async def test_an_answer_that_makes_no_sense_leaves_the_file(stalled, tmp_path):
    said = await stopped_at(stalled, tmp_path)

    assert said.returncode == 1
    assert (tmp_path / "EMERGENCY_STOP").exists()
    assert len(said.stderr.splitlines()) == 1


@pytest.fixture
async def forsaken(tmp_path: Path) -> AsyncIterator[str]:
    """A bus with a daemon whose only agent left an action open and has not been heard since."""
    answers: dict[str, Done] = {
        "stop": StopDone(ok=True, epoch=1, journalled=True),
        "status": filled(StatusAnswer, ok=True),
        "agents": filled(
            AgentsAnswer, ok=True, agents=[{"agent": "long-gone", "open_actions": ["p1"]}]
        ),
    }
    bus = NatsProcess(tmp_path)
    client = await nats.connect(bus.url)

    async def answered(message: Any) -> None:
        command = json.loads(message.data)["command"]
        await message.respond(msgspec.json.encode(answers[command]))

    await client.subscribe("safety.v1.*.local", cb=answered)
    await client.flush()
    yield bus.url
    await client.close()
    bus.stop()


async def test_nothing_is_claimed_of_actions_whose_agent_acknowledged_nothing(forsaken, tmp_path):
    said = await stopped_at(forsaken, tmp_path)

    assert said.returncode == 1
    assert said.stdout.endswith(
        "Actions of long-gone may still be running: the stop was not acknowledged.\n"
    )
    assert "halted" not in said.stdout


def test_everyone_except_one_agent_is_resumed(daemon, listener):
    with SyncSafety("rogue", data_dir=daemon.data_dir) as rogue:
        assert rogue.propose("read_file").allowed
        told(daemon, "stop", "--agent", "other")
        told(daemon, "stop", "fire")

        mistyped = told(daemon, "resume", "--all-except", "roge", "--reason", "only rogue is odd")
        twice = told(daemon, "resume", "--all-except", "rogue", "--all-except", "other", "--yes")
        held = [stop["agent"] for stop in stops(daemon)]
        said = told(daemon, "resume", "--all-except", "rogue", "--reason", "only rogue is odd")

        assert (mistyped.returncode, twice.returncode) == (1, 2)
        assert "Did you mean rogue? Nothing was resumed." in mistyped.stderr
        assert None in held, "everything is still stopped"
        assert said.returncode == 0
        assert "Resumed all agents except rogue." in said.stdout
        assert [stop["agent"] for stop in stops(daemon)] == ["rogue"]
        assert listener.propose("read_file").allowed
        assert rogue.propose("read_file").cause == "stopped"
        daemon.restart()
        assert [stop["agent"] for stop in stops(daemon)] == ["rogue"]


def test_commands_that_change_something_answer_programs_in_json(shared):
    def said(*arguments: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(told(shared, *arguments, "--json").stdout)
        return answer

    with SyncSafety("typed", data_dir=shared.data_dir) as agent:
        assert agent.propose("read_file").allowed
        stopped = said("stop", "--agent", "typed")
        left = said("resume", "--all-except", "typed")["left"]
        resumed = said("resume", "--agent", "typed")
        granted = said(
            *("grant", "add", "--agent", "typed", "--type", "push"),
            *("--uses", "1", "--for", "1h", "--reason", "r"),
        )

        assert (stopped["ok"], stopped["acknowledged"], stopped["agent"]) == (
            True,
            ["typed"],
            "typed",
        )
        assert [stop["agent"] for stop in left] == ["typed"]
        assert resumed == {"ok": True, "left": []}
        assert said("grant", "revoke", granted["id"])["left"] == 1
        for command in (("pause", "typed"), ("unpause", "typed"), ("reset", "typed"), ("reload",)):
            assert said(*command)["ok"], command
        assert said("ack")["ok"]
