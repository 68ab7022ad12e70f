"""Restarts, also after faults that left damaged files."""

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from safetyd.core.events.daemon_events import AuditRecovered
from safetyd.host import ENDPOINT
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import UNBOUNDED, crowd, until
from tests.journeys.audit_record import assert_recorded, assert_verifies, events
from tests.journeys.people import control, query
from tests.journeys.processes import gone, server_pid


def work(daemon: RunningDaemon, agent: str = "a") -> None:
    """Let agents get answers for a moment."""
    with crowd(daemon.endpoint.bus, agent) as history:
        history.until_allowed()
    assert_recorded(history, daemon.data_dir)


def keys(daemon: RunningDaemon) -> dict[str, bytes]:
    directory = daemon.data_dir / "keys"
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def checkpoints(daemon: RunningDaemon) -> list[Path]:
    return sorted((daemon.data_dir / "checkpoints").glob("*.msgpack"))


@pytest.mark.journey
@pytest.mark.parametrize("end", [RunningDaemon.interrupt, RunningDaemon.stop])
def test_a_stopped_daemon_leaves_no_process_and_the_next_start_finds_all_state(
    start_daemon: StartDaemon, end
) -> None:
    daemon = start_daemon(UNBOUNDED)
    work(daemon)
    bus, server, held = daemon.endpoint.bus, server_pid(daemon), keys(daemon)
    # Ctrl-C signals the whole process group, so the server must not be in the daemon's.
    assert os.getpgid(server) != os.getpgid(daemon.pid)

    assert end(daemon) == 0
    assert gone(server)
    assert not (daemon.data_dir / ENDPOINT).exists()
    seen = len(events(daemon.data_dir))

    daemon.start()
    assert (daemon.endpoint.bus, keys(daemon)) == (bus, held)
    work(daemon, "b")
    assert query(daemon, "status")["agents"] == 2
    assert len(events(daemon.data_dir)) > seen
    assert_verifies(daemon)


@pytest.mark.journey
def test_a_daemon_ended_during_its_start_leaves_no_process(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(wait=False)
    port = daemon.data_dir / "nats" / "port"
    until(port.exists)

    assert daemon.stop() == 0
    assert not (daemon.data_dir / ENDPOINT).exists()
    pid = daemon.data_dir / "nats" / "nats-server.pid"
    assert not pid.exists() or gone(int(pid.read_text()))


@pytest.mark.journey
def test_a_damaged_checkpoint_is_named_and_the_previous_one_is_used(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNBOUNDED)
    assert control(daemon, "stop", reason="drill")["journalled"]
    daemon.restart()
    with crowd(daemon.endpoint.bus, "a") as history:
        history.until(lambda heard: heard.decision.cause == "stopped")
    daemon.stop()
    older, newest = checkpoints(daemon)
    newest.write_bytes(newest.read_bytes()[:-20] + bytes(20))

    daemon.start()

    assert f"using the previous one: {newest}" in daemon.log()
    status = query(daemon, "status")
    assert status["stop"]["active"]
    assert status["agents"] == 1
    daemon.stop()
    assert older in checkpoints(daemon)
    assert_recorded(history, daemon.data_dir)
    assert_verifies(daemon)


@pytest.mark.journey
def test_a_torn_last_audit_line_is_removed_and_that_is_recorded(start_daemon: StartDaemon) -> None:
    daemon = start_daemon(UNBOUNDED)
    with crowd(daemon.endpoint.bus, "a") as history:
        history.until_allowed()
    daemon.kill()
    (file,) = (daemon.data_dir / "audit").iterdir()
    os.truncate(file, file.stat().st_size - 30)

    daemon.start()
    work(daemon, "b")

    recovered = [e for e in events(daemon.data_dir) if isinstance(e, AuditRecovered)]
    assert [event.file for event in recovered] == [file.name]
    assert f"from {file.name}" in daemon.log()
    assert_recorded(history, daemon.data_dir)
    assert_verifies(daemon)


@pytest.mark.journey
def test_a_port_taken_by_another_program_is_not_used(start_daemon: StartDaemon) -> None:
    daemon = start_daemon(UNBOUNDED)
    port = urlsplit(daemon.endpoint.bus).port
    daemon.stop()

    with socket.create_server(("127.0.0.1", port or 0)):
        daemon.start()
        work(daemon)

        assert urlsplit(daemon.endpoint.bus).port != port
        assert f"port {port} is in use" in daemon.log()
