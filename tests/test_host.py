import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from safetyd.host import (
    ENDPOINT,
    AlreadyRunning,
    Endpoint,
    is_this_machine,
    lock,
    netloc,
    notify,
    remove_endpoint,
    session_bus,
    system_zone,
    watchdog_s,
    write_endpoint,
    write_whole,
)

HERE = Endpoint(bus="nats://127.0.0.1:4222", web="http://127.0.0.1:8787", pid=4711, version="1.2")


def test_lock_makes_a_private_data_dir_and_names_its_owner(tmp_path: Path) -> None:
    with lock(tmp_path / "a" / "data"):
        assert (tmp_path / "a" / "data" / "lock").read_text() == f"{os.getpid()}\n"
        assert (tmp_path / "a" / "data").stat().st_mode & 0o777 == 0o700


def test_second_daemon_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"):
        lock(tmp_path)


def test_refusing_leaves_the_owners_pid(tmp_path: Path) -> None:
    with lock(tmp_path):
        with pytest.raises(AlreadyRunning):
            lock(tmp_path)

        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_owner_that_has_not_signed_yet_is_unknown(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        with pytest.raises(AlreadyRunning, match="pid unknown"):
            lock(tmp_path)


def test_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from safetyd import host\n"
    code += "file = host.lock(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)

    with lock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_endpoint_is_written_whole_and_removed(tmp_path: Path) -> None:
    write_endpoint(tmp_path, HERE)
    found = msgspec.json.decode((tmp_path / ENDPOINT).read_bytes(), type=Endpoint)
    remove_endpoint(tmp_path)
    remove_endpoint(tmp_path)

    assert found == HERE
    assert list(tmp_path.iterdir()) == []


def test_endpoint_has_exactly_the_contracts_fields(tmp_path: Path) -> None:
    write_endpoint(tmp_path, HERE)

    assert msgspec.json.decode((tmp_path / ENDPOINT).read_bytes()) == {
        "bus": "nats://127.0.0.1:4222",
        "web": "http://127.0.0.1:8787",
        "pid": 4711,
        "version": "1.2",
    }


def test_endpoint_says_where_links_are_if_that_is_elsewhere(tmp_path: Path) -> None:
    write_endpoint(tmp_path, msgspec.structs.replace(HERE, links="http://127.0.0.1:8788"))

    written = msgspec.json.decode((tmp_path / ENDPOINT).read_bytes())

    assert written["links"] == "http://127.0.0.1:8788"


@contextmanager
def systemd(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(5)
        yield sock


def test_systemd_is_told_over_a_socket_in_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

    with systemd(str(tmp_path / "notify")) as sock:
        notify("READY=1")

        assert sock.recv(64) == b"READY=1"


def test_systemd_is_told_over_an_abstract_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"safetyd-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")

    with systemd(f"\0{name}") as sock:
        notify("WATCHDOG=1")

        assert sock.recv(64) == b"WATCHDOG=1"


def test_without_systemd_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)

    notify("READY=1")


def test_watchdog_wants_to_hear_as_often_as_systemd_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000000")

    assert watchdog_s() == 20.0


def test_without_a_watchdog_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)

    assert watchdog_s() == 0.0


def test_the_session_bus_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/tmp/bus")

    assert session_bus() == "unix:path=/tmp/bus"


@pytest.mark.parametrize("there", [False, True])
def test_the_session_bus_is_found_in_the_runtime_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if there:
        (tmp_path / "bus").touch()

    assert session_bus() == (f"unix:path={tmp_path}/bus" if there else "")


def test_outside_of_a_session_there_is_no_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)

    assert session_bus() == ""


@pytest.mark.parametrize(
    ("named", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("Mars/Olympus", "UTC"),
        ("/etc/passwd", "UTC"),
        ("../Europe", "UTC"),
    ],
)
def test_the_zone_is_the_one_that_the_environment_names_if_it_exists(
    monkeypatch: pytest.MonkeyPatch, named: str, zone: str
) -> None:
    monkeypatch.setenv("TZ", named)

    assert system_zone() == zone


@pytest.mark.parametrize(
    ("target", "zone"),
    [
        ("usr/share/zoneinfo/America/New_York", "America/New_York"),
        ("usr/share/zoneinfo/Europe", "UTC"),
        ("somewhere/else", "UTC"),
    ],
)
def test_the_zone_is_the_one_that_the_machine_links_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, zone: str
) -> None:
    (tmp_path / "localtime").symlink_to(tmp_path / target)
    monkeypatch.setattr("safetyd.host.LOCALTIME", str(tmp_path / "localtime"))
    monkeypatch.delenv("TZ", raising=False)

    assert system_zone() == zone


def test_a_file_is_replaced_whole_and_by_nothing_less(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"old")

    write_whole(path, b"new")

    assert path.read_bytes() == b"new"
    assert [kept.name for kept in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_new_file_is_readable_by_those_who_may_and_nobody_else(tmp_path: Path, mode: int) -> None:
    write_whole(tmp_path / "key", b"", mode=mode)

    assert (tmp_path / "key").stat().st_mode & 0o777 == mode


def test_a_new_file_that_is_refused_leaves_the_old_one(tmp_path: Path) -> None:
    path, seen = tmp_path / "nats.conf", list[bytes]()
    path.write_bytes(b"old")

    def refuse(fresh: Path) -> None:
        seen.append(fresh.read_bytes())
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write_whole(path, b"new", look=refuse)

    assert (seen, path.read_bytes()) == ([b"new"], b"old")
    assert [kept.name for kept in tmp_path.iterdir()] == ["nats.conf"]


def test_what_a_torn_write_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "state.new").write_bytes(b"to")

    write_whole(tmp_path / "state", b"whole")

    assert [kept.name for kept in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost", "127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"]
)
def test_loopback_addresses_are_this_machine(host: str) -> None:
    assert is_this_machine(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "0.0.0.0",
        "::",
        "192.168.1.4",
        "localhost.evil.example",
        "127.0.0.1.evil",
        "::ffff:8.8.8.8",
    ],
)
def test_no_other_name_or_address_is_this_machine(host: str) -> None:
    assert not is_this_machine(host)


@pytest.mark.parametrize(
    ("host", "said"), [("127.0.0.1", "127.0.0.1:8787"), ("::1", "[::1]:8787"), ("a.b", "a.b:8787")]
)
def test_an_ipv6_address_stands_in_brackets_before_its_port(host: str, said: str) -> None:
    assert netloc(host, 8787) == said
