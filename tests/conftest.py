"""A real daemon in a process of its own, for every test that needs one."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Final

import msgspec
import pytest
from hypothesis import HealthCheck, settings

from safetyd.console.terminal_text import CTRL_C
from safetyd.host import ENDPOINT, Endpoint
from tests.cluster_node import node, start_node  # noqa: F401 - fixtures for all
from tests.dovecot_server import dovecot  # noqa: F401 - fixture for all
from tests.forked_process import ForkedProcess
from tests.postgres_server import postgres, schema  # noqa: F401 - fixtures for all
from tests.servers import client, jetstream, torn_link  # noqa: F401 - fixtures for all

# The speed of examples depends on the machine, not on the code under test. The numbers of
# examples are for the inner loop, for judging a change, and for fuzzing.
for profile, most in {"quick": 5, "any machine": 30, "fuzz": 2_000}.items():
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=most,
        # Every change is judged by the same examples.
        derandomize="CI" in os.environ and profile != "fuzz",
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("any machine")

# A background job ignores Ctrl-C, and commands would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Times are shown in the local zone; tests must read them on any machine.
os.environ["TZ"] = "UTC"
time.tzset()

READY_S: Final = 60.0
STOP_S: Final = 60.0
COMMAND_S: Final = 120.0
WEB: Final = "\n[web]\nport = 0\n"
# No rate limit, for tests that send as much as they can.
UNLIMITED: Final = """
[rate]
attempts_per_second = 0
[rate.production.global]
tokens_per_minute = 1_000_000_000
burst = 1_000_000_000
[rate.production.agent]
tokens_per_minute = 1_000_000_000
burst = 1_000_000_000
"""
ONLY_IF_NAMED: Final = ("hosts", "deb")  # marks of tests that `make test` leaves out
MEASURED: Final = "COVERAGE_PROCESS_CONFIG"
LAST_WORD: Final = CTRL_C.encode()

_OURS: Final = (
    *("SAFETYD_", "AI_COMPANY_", "STATE_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_"),
    *("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "CREDENTIALS_DIRECTORY"),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests that the expression of `-m` does not name, and start journeys first.

    Journeys take longest, and should not run alone at the end.
    """
    unnamed = [mark for mark in ONLY_IF_NAMED if mark not in config.option.markexpr]
    left_out = [item for item in items if any(map(item.get_closest_marker, unnamed))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: "journeys" not in item.path.parts)


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without variables that safetyd reads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, **more}


@pytest.fixture
def live_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that sets the local time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


class RunningDaemon:
    """`safetyd run` on its own directory, with the web server on a free port."""

    def __init__(
        self,
        directory: Path,
        config_toml: str = "",
        variables: Mapping[str, str] | None = None,
        *,
        wait: bool = True,
        forked: bool = True,
        user: int | None = None,
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.config_path = directory / "safetyd.toml"
        self.config_path.write_text(config_toml + ("" if "[web]" in config_toml else WEB))
        self._log = directory / "log"
        self._variables = dict(variables or {})
        # Variables that Python reads at start-up cannot be given to a fork.
        told_python = MEASURED in os.environ or "PYTHONPATH" in self._variables
        self._forked = forked and not told_python and user is None
        self._user = user  # that it runs as, if not the current user
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.launch()
        if wait:
            self.wait_until_ready()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def endpoint(self) -> Endpoint:
        return msgspec.json.decode((self.data_dir / ENDPOINT).read_bytes(), type=Endpoint)

    def start(self) -> None:
        """Start the daemon and wait until it is ready."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the daemon without waiting."""
        options = ["--config", str(self.config_path), "--data-dir", str(self.data_dir)]
        with self._log.open("ab") as log:
            run, variables = ("run", *options), environment(**self._variables)
            if self._forked:
                self._process = ForkedProcess(run, log, variables)
            else:
                self._process = _imported(run, log, variables, self._user)

    def stop(self) -> int:
        """End the daemon as a service manager would; return its exit code."""
        return self._end(signal.SIGTERM)

    def interrupt(self) -> int:
        """End the daemon as Ctrl-C would."""
        return self._end(signal.SIGINT)

    def kill(self) -> int:
        """Kill the daemon, as a power cut would."""
        return self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def safetyd(
        self, *arguments: str, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with this daemon's data directory and return its result."""
        return safetyd(*arguments, stdin=stdin, SAFETYD_DATA_DIR=str(self.data_dir), **variables)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        process = self._process
        if process.poll() is None:
            process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the daemon to end; return its exit code."""
        assert self._process is not None
        process = self._process
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the daemon did not end:\n{self.log()}") from None
        finally:
            _out(process).close()

    def wait_until_ready(self) -> None:
        assert self._process is not None
        out, said = _out(self._process), b""
        while LAST_WORD not in said:
            ready, _, _ = select.select([out], [], [], READY_S)
            chunk = os.read(out.fileno(), 4096) if ready else b""
            said += chunk
            if not chunk:
                self._process.kill()
                self._end(signal.SIGKILL)
                raise AssertionError(f"the daemon did not start:\n{self.log()}")


def safetyd(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command and return its result."""
    return subprocess.run(
        [sys.executable, "-m", "safetyd", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S,
        env=environment(**variables),
    )


def _imported(
    arguments: Sequence[str], log: IO[bytes], variables: Mapping[str, str], user: int | None
) -> subprocess.Popen[bytes]:
    # Another user may lack read access to this Python, so it gets the capability to read all files.
    reads = [f"--{which}-caps=+dac_read_search" for which in ("inh", "ambient")]
    other = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *reads]
    return subprocess.Popen(
        [*(() if user is None else other), sys.executable, "-m", "safetyd", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        env=variables,
    )


def _out(process: subprocess.Popen[bytes] | ForkedProcess) -> IO[bytes] | Connection:
    assert process.stdout is not None
    return process.stdout


StartDaemon = Callable[..., RunningDaemon]


def _factory(directories: pytest.TempPathFactory) -> Iterator[StartDaemon]:
    started: list[RunningDaemon] = []

    def start(
        config_toml: str = "", variables: Mapping[str, str] | None = None, **how: bool
    ) -> RunningDaemon:
        directory = directories.mktemp("daemon")
        started.append(RunningDaemon(directory, config_toml, variables, **how))
        return started[-1]

    yield start
    for daemon in started:
        daemon.stop()


@pytest.fixture
def start_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartDaemon]:
    """`start_daemon(config_toml="", variables={}, wait=True, forked=True)`: a `RunningDaemon`."""
    yield from _factory(tmp_path_factory)


@pytest.fixture(scope="module")
def start_module_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartDaemon]:
    """The same for all tests of a module."""
    yield from _factory(tmp_path_factory)


@pytest.fixture(autouse=True, scope="session")
def process_config() -> Iterator[str]:
    """Do not measure coverage in processes that tests start; that would take half as long again."""
    with pytest.MonkeyPatch.context() as patch:
        config = os.environ.get(MEASURED, "")
        patch.delenv(MEASURED, raising=False)
        yield config


@pytest.fixture(scope="module")
def measured(process_config: str) -> Iterator[None]:
    """Measure coverage in processes of this module, because nothing else reaches the code."""
    with pytest.MonkeyPatch.context() as patch:
        if process_config:
            patch.setenv(MEASURED, process_config)
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
