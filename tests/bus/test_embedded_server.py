import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from safetyd.bus.embedded_server import EmbeddedServer, ServerMissing, ServerRefused, shipped_binary
from safetyd.bus.keyring import Keyring
from safetyd.bus.subjects import Subjects
from tests.bus.peer import Peer, Refused
from tests.bus.server_rig import Embedded
from tests.servers import until

# A parent process that starts a server, prints its process id and never ends.
PARENT = """
import signal, sys
from pathlib import Path
from tests.bus.server_rig import Embedded
server = Embedded(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    server = Embedded(tmp_path)
    yield server
    server.stop()


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def answers(url: str, seed: Path | None = None) -> bool:
    try:
        Peer(url, seed).close()
    except (OSError, Refused):
        return False
    return True


def parent_and_server(directory: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", PARENT, str(directory)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as said:
        return parent, int(said.readline())


async def test_port_stays_the_same_after_a_restart(server: Embedded, tmp_path: Path) -> None:
    server.start()
    await until(lambda: answers(server.url))
    server.stop()

    assert EmbeddedServer(tmp_path / "nats", Subjects()).url == server.url


def test_port_used_by_another_program_is_replaced(
    server: Embedded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as other, caplog.at_level(logging.WARNING):
        other.bind(("127.0.0.1", int(server.url.rpartition(":")[2])))
        other.listen()

        moved = EmbeddedServer(tmp_path / "nats", Subjects())

    assert moved.url != server.url
    assert "is in use by another program" in caplog.text
    assert EmbeddedServer(tmp_path / "nats", Subjects()).url == moved.url


def test_invalid_port_file_is_replaced(server: Embedded, tmp_path: Path) -> None:
    (tmp_path / "nats" / "port").write_text("none\n")

    fresh = EmbeddedServer(tmp_path / "nats", Subjects())

    assert fresh.url.rpartition(":")[2] == (tmp_path / "nats" / "port").read_text().strip()


def test_only_the_owner_can_read_the_configuration(server: Embedded, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "nats" / "nats.conf").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "nats").stat().st_mode) == 0o700


async def test_running_server_loads_new_keys_immediately(server: Embedded, tmp_path: Path) -> None:
    server.start()
    await until(lambda: answers(server.url))
    seed = Keyring(tmp_path / "keys").add("agents", "code")
    known = answers(server.url, seed)

    server.configure(server._settings.users())

    assert not known
    await until(lambda: answers(server.url, seed))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_server_dies_with_its_parent(tmp_path: Path, end: signal.Signals) -> None:
    parent, pid = parent_and_server(tmp_path)
    alive = not ended(pid)

    parent.send_signal(end)
    parent.wait()

    assert alive
    await until(lambda: ended(pid))


async def test_ended_returns_the_exit_code_of_the_server(server: Embedded) -> None:
    server.start()

    server.kill()

    assert await server.ended() == -signal.SIGKILL


async def test_end_includes_the_exit_code_and_the_last_log_line(server: Embedded) -> None:
    before = server.end
    server.start()
    await until(lambda: answers(server.url))
    alive = server.end

    server.kill()
    await server.ended()

    assert before == alive == ""
    assert server.end.startswith("nats-server ended with -9: [")
    server.log_file.unlink()
    assert server.end == "nats-server ended with -9: "


def test_configuration_that_the_server_rejects_is_not_written(
    server: Embedded, tmp_path: Path
) -> None:
    path = tmp_path / "nats" / "nats.conf"
    before = path.read_text()
    nonsense = msgspec.structs.replace(server._settings.users(), daemons=("}",))

    with pytest.raises(ServerRefused, match="nats-server rejected its configuration: "):
        server.configure(nonsense)

    assert path.read_text() == before


async def test_stopping_a_server_that_never_started_does_nothing(server: Embedded) -> None:
    server.kill()
    server.stop()

    assert await server.ended() == 0


def test_stop_ends_a_frozen_server(server: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.bus.embedded_server.STOP_S", 0.1)
    server.start()
    server.freeze()

    server.stop()

    assert ended(server.pid)


async def test_ctrl_c_for_the_daemon_does_not_reach_the_server(server: Embedded) -> None:
    server.start()

    assert os.getpgid(server.pid) != os.getpgid(0)


def test_error_for_a_missing_server_says_how_to_fix_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))

    with pytest.raises(ServerMissing, match=r"safetyd\[daemon\].* bus\.url"):
        shipped_binary()
