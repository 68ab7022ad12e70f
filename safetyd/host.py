"""The interface to the machine: the lock, systemd, disk space, secrets, atomic file writes."""

import errno
import fcntl
import os
import pwd
import resource
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

CONFIG: Final = "safetyd.toml"  # a file in the data directory
ENDPOINT: Final = "endpoint.json"
SOCKET: Final = "hook.sock"  # for hooks of coding agents
LOCALTIME: Final = "/etc/localtime"
THIS_MACHINE: Final = ("127.0.0.1", "localhost", "::1")  # usual names of the local machine
# At the start, the daemon writes about 100 KiB in about 30 files. With less free space than this,
# it would soon fail.
START_BYTES: Final = 1024 * 1024

START_FILES: Final = 64
MAX_SECRET_BYTES: Final = 64 * 1024
POLL_S: Final = 0.01
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses of a running daemon."""

    bus: str
    web: str
    links: str = ""  # where decision links are served, if on another address
    hook: str = ""  # the socket for hooks of coding agents
    pid: int
    version: str
    standby: bool = False  # it does not decide now
    name: str = ""  # among several daemons on one bus


class Room(NamedTuple):
    """A disk: its mount point, free space and total space."""

    disk: Path
    bytes: int
    files: int
    total_bytes: int
    total_files: int  # 0 if the number of files is not limited


class Spare(NamedTuple):
    """How much may be written to a disk before only the reserved space is left."""

    bytes: float
    files: float


class AlreadyRunning(Exception):
    """Another daemon uses the data directory."""


def lock(data_dir: Path) -> TextIO:
    """Lock the data directory until the returned file is closed."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (data_dir / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        pid = file.read().strip() or "unknown"
        file.close()
        raise AlreadyRunning(
            f"{data_dir} is in use by safetyd (pid {pid}); stop that daemon first"
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def room(directory: Path) -> Room:
    """Return the space that this process can still use on the disk of a directory."""
    found = os.statvfs(directory)
    ours = os.geteuid() == 0  # root may also use the reserved blocks
    blocks, files = (found.f_bfree, found.f_ffree) if ours else (found.f_bavail, found.f_favail)
    disk = directory.resolve()
    while not disk.is_mount():
        disk = disk.parent
    counted = found.f_files > 0  # some file systems have no limit on the number of files
    # Blocks reserved for root count neither as free nor as used.
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
    """Write a file atomically: after a power cut, it has either the old or the new content.

    The file never has wider permissions than `mode`. `look` is called with the new file and can
    reject it by raising. Concurrent writers of the same file need different suffixes.
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
    """A file does not contain a secret. The text names the file and never quotes its content."""


def sync(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def lock_within(opened: int, seconds: float) -> bool:
    """Lock an open file. Return False if another process does not release it in time."""
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


def open_files() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_open_files() -> None:
    """Raise the number of files that this process may have open as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS refuses some numbers
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def secret_directories(data_dir: Path) -> tuple[Path, ...]:
    """Return the directories to search for secrets: systemd's, then the data directory."""
    given = os.environ.get("CREDENTIALS_DIRECTORY", "")
    return (*((Path(given),) if given else ()), data_dir)


def read_secret(file: str, directories: Iterable[Path]) -> str:
    """Return the secret in a file. A relative path is looked up in these directories."""
    path = Path(file)
    try:
        for path in (directory / file for directory in directories):
            if path.exists():
                break
        content = path.read_bytes()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise NoSecret(f"cannot read {path}: {why}") from None
    if not content.strip() or len(content) > MAX_SECRET_BYTES:
        raise NoSecret(f"{path} contains no secret: it is empty or too long")
    try:
        return content.decode().strip()
    except UnicodeDecodeError:
        raise NoSecret(f"{path} is not UTF-8 text") from None


def write_endpoint(data_dir: Path, endpoint: Endpoint) -> None:
    write_whole(data_dir / ENDPOINT, msgspec.json.encode(endpoint) + b"\n", mode=0o644)


def own_config(data_dir: Path) -> Path | None:
    """Return the configuration file in the data directory, if it exists."""
    own = data_dir / CONFIG
    return own if os.path.lexists(own) else None


def remove_endpoint(data_dir: Path) -> None:
    (data_dir / ENDPOINT).unlink(missing_ok=True)


def notify(state: str) -> None:
    """Send a state to systemd, if it started this process."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, suppress(BlockingIOError):
        # If nobody reads the socket, decisions must not wait for it.
        sock.sendto(state.encode(), socket.MSG_DONTWAIT, address)


def is_this_machine(host: str) -> bool:
    """Return True if a name or address is certainly this machine. Names are not resolved."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # A dual-stack listener sees IPv4 addresses mapped to IPv6.
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (inner or address).is_loopback


def netloc(host: str, port: int) -> str:
    """Return host and port as in a URL, such as 127.0.0.1:8787 or [::1]:8787."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def session_bus() -> str:
    """Return the address of the desktop's message bus, or an empty string if there is none."""
    address = os.environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if address or not (runtime := os.environ.get("XDG_RUNTIME_DIR", "")):
        return address
    socket_ = Path(runtime) / "bus"
    return f"unix:path={socket_}" if socket_.exists() else ""


def system_zone() -> str:
    """Return the IANA name of the machine's time zone, or UTC if it has none."""
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
    """Return how often systemd expects a notification, or 0.0 if it expects none."""
    return int(os.environ.get("WATCHDOG_USEC", "0")) / 1_000_000


class Unusable(Exception):
    """The daemon cannot start or continue. The text says why and what to do."""


def check_room(directory: Path) -> None:
    """Raise `Unusable` if there is too little disk space to start."""
    found = room(directory)
    if found.bytes < START_BYTES or found.files < START_FILES:
        raise Unusable(_full(directory, found))


@contextmanager
def files_needed(directory: Path) -> Iterator[None]:
    """Turn file errors in the data directory into `Unusable`. Errors of a connection stay."""
    try:
        yield
    except (TimeoutError, ConnectionError):
        raise
    except OSError as exc:
        if exc.errno in _FULL:
            raise Unusable(f"{exc}: {_full(directory, room(directory))}") from exc
        raise Unusable(f"cannot use the data directory: {exc}") from exc


def _full(directory: Path, found: Room) -> str:
    free, needed = f"{found.bytes // 1024} KiB free", f"{START_BYTES // 1024} KiB"
    if found.bytes >= START_BYTES and found.files < START_FILES:
        free, needed = f"room for {found.files} more files", str(START_FILES)
    return (
        f"the disk at {found.disk} with {directory} has {free}, but a start needs {needed}: "
        "free up space and start again"
    )
