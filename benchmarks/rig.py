"""The systems under test: safetyd as shipped, an echo behind the same server, the server alone."""

import contextlib
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep

import msgspec

from benchmarks.load import Generator, Result, Spec, Unanswered
from benchmarks.processes import (
    PATIENCE_S,
    Unmeasured,
    call,
    cpu_s,
    cut_off,
    end,
    family,
    free_port,
    gone,
    listening,
    resident_bytes,
    spawn,
    tail,
    until,
)
from benchmarks.wire import Refused

SCRIPTS = Path(sysconfig.get_path("scripts"))
SAFETYD = (str(SCRIPTS / "safetyd"),)
NATS_SERVER = str(SCRIPTS / "nats-server")
AGENT = "bench"

# The whole chain runs as shipped, except for limits that would block: blocking is not measured
# here. Limits are raised, not disabled, because a guard without a limit does less work.
LIMITS = """\
[web]
port = 0
[bus]
max_agents = 200000
[rate]
attempts_per_second = 0
[rate.production.global]
tokens_per_minute = 1_000_000_000
burst = 1_000_000_000
[rate.production.agent]
tokens_per_minute = 1_000_000_000
burst = 1_000_000_000
[rate.production.model]
tokens_per_minute = 1_000_000_000
burst = 1_000_000_000
[iterations]
default = 1_000_000_000
[budget]
chain_usd = 1_000_000_000
session_usd = 1_000_000_000
day_usd = 1_000_000_000
"""


def server_config(data_dir: Path) -> Path:
    """Return the configuration that the daemon generated for its embedded server."""
    return data_dir / "nats" / "nats.conf"


def load(spec: Spec) -> Result:
    """Run the generator in a process of its own."""
    command = (sys.executable, "-m", "benchmarks.load")
    printed = call(*command, given=msgspec.json.encode(spec), patience_s=spec.seconds + PATIENCE_S)
    return msgspec.json.decode(printed, type=Result)


class Place:
    """A data directory with an agent's key, and a configuration."""

    def __init__(self, parent: Path, name: str, gate: str = "") -> None:
        self.data_dir = parent / name
        self.config = parent / f"{name}.toml"
        self.log = parent / f"{name}.log"
        self.daemon_key = str(self.data_dir / "keys" / "daemon.nk")
        self.agent_key = str(self.data_dir / "keys" / "agents" / f"{AGENT}.nk")
        self.config.write_text(LIMITS + gate)
        call(*SAFETYD, "agent", "add", AGENT, "--data-dir", str(self.data_dir))


class Daemon:
    """A safetyd daemon that can be started, stopped, killed and restarted."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.url = ""
        self._endpoint = place.data_dir / "endpoint.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._family: list[int] = []

    def start(self) -> float:
        """Start the daemon; return the seconds until it is ready."""
        began = perf_counter()
        where = ("--config", str(self.place.config), "--data-dir", str(self.place.data_dir))
        self._endpoint.unlink(missing_ok=True)
        process = self._process = spawn(self.place.log, *SAFETYD, "run", *where)
        until(
            lambda: self._ready(process), PATIENCE_S, lambda: f"not ready: {tail(self.place.log)}"
        )
        took = perf_counter() - began
        self._family = family(process.pid)
        return took

    def _ready(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            raise Unmeasured(f"safetyd ended by itself: {tail(self.place.log)}")
        try:
            self.url = json.loads(self._endpoint.read_text())["bus"]
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return True

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)
            self._clear()

    def cut_off(self) -> None:
        """Kill the daemon and its server, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._clear()

    def _clear(self) -> None:
        """Kill a server that was left behind."""
        mark = str(self.place.data_dir)
        cut_off(self._family, mark)
        until(lambda: gone(self._family, mark), PATIENCE_S, lambda: "its server does not end")
        self._process, self._family = None, []

    def cpu_s(self) -> float:
        return cpu_s(self._family[0])

    def resident_bytes(self) -> int:
        """Return the daemon's resident memory once it has stopped changing."""
        before, now = 0, resident_bytes(self._family[0])
        for _ in range(20):
            if abs(now - before) < 64 * 1024:
                break
            sleep(0.5)
            before, now = now, resident_bytes(self._family[0])
        return now


@contextlib.contextmanager
def running(place: Place) -> Iterator[Daemon]:
    daemon = Daemon(place)
    try:
        daemon.start()
        first_answer(daemon.url)
        yield daemon
    finally:
        daemon.stop()


@contextlib.contextmanager
def echoing(place: Place) -> Iterator[str]:
    """Run the bare echo behind the server configuration that the daemon generated."""
    with running(place):
        pass
    with serving(place.log, "-c", str(server_config(place.data_dir))) as url:
        echo = spawn(place.log, sys.executable, "-m", "benchmarks.echo", url, place.daemon_key)
        try:
            first_answer(url)
            yield url
        finally:
            end(echo)


@contextlib.contextmanager
def serving(log: Path, *options: str) -> Iterator[str]:
    """Run nats-server alone, on a free loopback port."""
    port = free_port()
    server = spawn(log, NATS_SERVER, *options, "-a", "127.0.0.1", "-p", str(port))
    try:
        until(lambda: listening(port), PATIENCE_S, lambda: f"nats-server: {tail(log)}")
        yield f"nats://127.0.0.1:{port}"
    finally:
        end(server)


def first_answer(url: str) -> Result:
    """Propose until a responder listens; return the first answer."""
    answers: list[Result] = []
    until(lambda: _asked(url, answers), PATIENCE_S, lambda: f"{url} answers no proposal")
    return answers[0]


def _asked(url: str, answers: list[Result]) -> bool:
    try:
        answers.append(Generator(Spec(url=url, agent="first", count=1)).run())
    except (Unanswered, Refused, OSError):
        return False
    return True
