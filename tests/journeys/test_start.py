"""Faults and signals during the start."""

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import WEB, RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.failing_server import made

# What the daemon sends when it looks up its journal, reads it, and starts to listen.
OPENS: Final = "$JS.API.STREAM.INFO"
REPLAYS: Final = "$JS.API.CONSUMER.CREATE"
LISTENS: Final = "SUB safety.v1.open.claim"


@pytest.fixture
def killed(start_daemon: StartDaemon) -> RunningDaemon:
    """A stopped daemon whose journal must be replayed."""
    daemon = start_daemon()
    daemon.kill()
    return daemon


def failing(daemon: RunningDaemon, moment: str) -> str:
    return f'[bus]\nnats_server = "{made(daemon.directory, moment)}"\n{WEB}'


@pytest.mark.journey
@pytest.mark.parametrize("moment", [OPENS, REPLAYS])
def test_a_server_that_dies_during_the_start_ends_it_with_a_clear_error(
    killed: RunningDaemon, moment: str
) -> None:
    killed.config_path.write_text(failing(killed, moment))

    killed.launch()
    code = killed.wait()

    assert code == 1
    last = killed.log().splitlines()[-1]
    assert last.startswith("safetyd: the bus failed during the start"), last
    assert "nats-server ended with 1" in last
    assert "Traceback" not in killed.log()


@pytest.mark.journey
def test_a_server_that_dies_once_the_daemon_listens_is_restarted(killed: RunningDaemon) -> None:
    killed.config_path.write_text(failing(killed, LISTENS))

    killed.start()

    assert "nats-server ended with exit code 1" in killed.log()
    until(lambda: killed.safetyd("check", "code", "read_file").returncode == 0)


def imports(daemon: RunningDaemon, library: str) -> bool:
    """Return whether a process has loaded a library."""
    return library in Path(f"/proc/{daemon.pid}/maps").read_text()


@pytest.mark.journey
def test_a_sighup_during_the_start_reloads_once_the_daemon_is_ready(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(wait=False, forked=False)
    until(lambda: imports(daemon, "re2"))

    os.kill(daemon.pid, signal.SIGHUP)
    daemon.wait_until_ready()

    until(lambda: "reloaded for SIGHUP" in daemon.log())
