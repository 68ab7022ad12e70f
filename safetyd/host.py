"""What the machine gives a daemon: one lock, a notice when ready, a watchdog, files written whole.

`Unusable` says why the daemon cannot start or go on, in words for whoever started it.
"""

import errno
import fcntl
import os
import pwd
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple, TextIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

CONFIG: Final = "safetyd.toml"  # in the data directory
ENDPOINT: Final = "endpoint.json"
LOCALTIME: Final = "/etc/localtime"
THIS_MACHINE: Final = ("127.0.0.1", "localhost", "::1")  # as it is usually called from within
# A start writes some 100 KiB in some 30 files; with less than this it would soon stand still.
START_BYTES: Final = 1024 * 1024

START_FILES: Final = 64
MAX_SECRET_BYTES: Final = 64 * 1024
POLL_S: Final = 0.01
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a running daemon is found."""

    bus: str
    web: str
    links: str = ""  # where decision links are served, if that is elsewhere
    pid: int
    version: str


class Room(NamedTuple):
    """What is free on a disk, where that is mounted, and what it holds if nothing else is on it."""

    disk: Path
    bytes: int
    files: int
    total_bytes: int
    total_files: int  # 0: it has no such limit


class Spare(NamedTuple):
    """How much may be written to a disk before only its reserve is left."""

    bytes: float
    files: float


class AlreadyRunning(Exception):
    """Another daemon uses the data directory."""


def lock(data_dir: Path) -> TextIO:
    """Own the data directory until the returned file is closed."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (data_dir / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        pid = file.read().strip() or "unknown"
        file.close()
        raise AlreadyRunning(f"{data_dir} is in use by safetyd with pid {pid}") from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def room(directory: Path) -> Room:
    """Return what this process may still write where a directory is."""
    found = os.statvfs(directory)
    ours = os.geteuid() == 0  # what is kept back for root
    blocks, files = (found.f_bfree, found.f_ffree) if ours else (found.f_bavail, found.f_favail)
    disk = directory.resolve()
    while not disk.is_mount():
        disk = disk.parent
    counted = found.f_files > 0  # some file systems have no such limit
    # What is kept back for others is neither free nor used: a disk is full when we cannot write.
    total = found.f_blocks - found.f_bfree + blocks
    return Room(
        disk,
        blocks * found.f_frsize,
        files if counted else sys.maxsize,
        total * found.f_frsize,
        found.f_files - found.f_ffree + files if counted else 0,
    )


def write_whole(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    look: Callable[[Path], None] = lambda _fresh: None,
    suffix: str = ".new",
) -> None:
    """Put a file in its place in one step: after a power cut it is the old one or the new, whole.

    It is never readable by more people than `mode` says. `look` may refuse the new one by raising
    before it is in its place. Who may write the same file at the same time needs a `suffix` of
    their own.
    """
    fresh = path.with_name(path.name + suffix)
    fresh.unlink(missing_ok=True)
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        look(fresh)
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)


class NoSecret(Exception):
    """A file that should hold a secret does not; the text names the file, never what is in it."""


def sync(path: Path) -> None:
    """Return once a file, or the names in a directory, would survive a power cut."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def lock_within(opened: int, seconds: float) -> bool:
    """Lock an open file; return False if somebody else holds the lock for that long."""
    patience = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > patience:
                return False
            time.sleep(POLL_S)
        else:
            return True


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def secret_directories(data_dir: Path) -> tuple[Path, ...]:
    """Return where secrets that are named without a path are looked for: systemd's, then ours."""
    given = os.environ.get("CREDENTIALS_DIRECTORY", "")
    return (*((Path(given),) if given else ()), data_dir)


def read_secret(file: str, directories: Iterable[Path]) -> str:
    """Return what stands in a file, looked for in these directories if it has no full path."""
    path = Path(file)
    try:
        for path in (directory / file for directory in directories):
            if path.exists():
                break
        content = path.read_bytes()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise NoSecret(f"{path} cannot be read: {why}") from None
    if not content.strip() or len(content) > MAX_SECRET_BYTES:
        raise NoSecret(f"{path} holds no secret: it is empty or far too long")
    try:
        return content.decode().strip()
    except UnicodeDecodeError:
        raise NoSecret(f"{path} is not a text in UTF-8") from None


def write_endpoint(data_dir: Path, endpoint: Endpoint) -> None:
    write_whole(data_dir / ENDPOINT, msgspec.json.encode(endpoint) + b"\n", mode=0o644)


def own_config(data_dir: Path) -> Path | None:
    """Return the data directory's own configuration file, if it has one."""
    own = data_dir / CONFIG
    return own if os.path.lexists(own) else None


def remove_endpoint(data_dir: Path) -> None:
    (data_dir / ENDPOINT).unlink(missing_ok=True)


def notify(state: str) -> None:
    """Tell systemd, if it started us."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, suppress(BlockingIOError):
        # One that does not listen must not hold up decisions.
        sock.sendto(state.encode(), socket.MSG_DONTWAIT, address)


def is_this_machine(host: str) -> bool:
    """Say whether a name or an address surely leads nowhere else; no name is looked up."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # A listener for both kinds of addresses sees one kind within the other.
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (inner or address).is_loopback


def netloc(host: str, port: int) -> str:
    """Return a host and a port as they stand in an address: 127.0.0.1:8787, [::1]:8787."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def session_bus() -> str:
    """Return the address of the desktop's message bus, if this process lives on a desktop."""
    address = os.environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if address or not (runtime := os.environ.get("XDG_RUNTIME_DIR", "")):
        return address
    socket_ = Path(runtime) / "bus"
    return f"unix:path={socket_}" if socket_.exists() else ""


def system_zone() -> str:
    """Return the IANA name of the machine's time zone, UTC if it has none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named:
        target = os.path.realpath(LOCALTIME)
        _, _, named = target.partition("/zoneinfo/")
    try:
        ZoneInfo(named)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return "UTC"
    return named


def watchdog_s() -> float:
    """Return how often systemd wants to hear from us, 0.0 if it does not."""
    return int(os.environ.get("WATCHDOG_USEC", "0")) / 1_000_000


class Unusable(Exception):
    """The daemon cannot start or go on here; the text says why and what to do."""


def check_room(directory: Path) -> None:
    """Refuse a start that would run out of room on its way."""
    found = room(directory)
    if found.bytes < START_BYTES or found.files < START_FILES:
        raise Unusable(_full(directory, found))


@contextmanager
def files_needed(directory: Path) -> Iterator[None]:
    """Say in plain words that the data directory cannot be used."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError as exc:
        if exc.errno in _FULL:
            raise Unusable(f"{exc}: {_full(directory, room(directory))}") from exc
        raise Unusable(f"the data directory cannot be used: {exc}") from exc


def _full(directory: Path, found: Room) -> str:
    free, needed = f"{found.bytes // 1024} KiB free", f"{START_BYTES // 1024} KiB"
    if found.bytes >= START_BYTES and found.files < START_FILES:
        free, needed = f"room for {found.files} more files", str(START_FILES)
    return (
        f"the disk at {found.disk} that holds {directory} has {free}, and a start needs {needed}: "
        "make room on it and start again"
    )
