"""A start that something goes wrong with, or that is told something before it is ready."""

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import WEB, RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.failing_server import made

# What the daemon says when it looks for its journal, when it reads it, and when it listens.
OPENS: Final = "$JS.API.STREAM.INFO"
REPLAYS: Final = "$JS.API.CONSUMER.MSG.NEXT"
LISTENS: Final = "SUB safety.v1.open.claim"


@pytest.fixture
def killed(start_daemon: StartDaemon) -> RunningDaemon:
    """A daemon that has gone, and whose journal must be read again."""
    daemon = start_daemon()
    daemon.kill()
    return daemon


def failing(daemon: RunningDaemon, moment: str) -> str:
    return f'[bus]\nnats_server = "{made(daemon.directory, moment)}"\n{WEB}'


@pytest.mark.journey
@pytest.mark.parametrize("moment", [OPENS, REPLAYS])
def test_server_that_dies_during_the_start_ends_it_with_a_sentence(
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
def test_server_that_dies_when_the_daemon_listens_is_started_again(killed: RunningDaemon) -> None:
    killed.config_path.write_text(failing(killed, LISTENS))

    killed.start()

    assert "nats-server ended with 1 and is started again" in killed.log()
    until(lambda: killed.safetyd("check", "code", "read_file").returncode == 0)


def imports(daemon: RunningDaemon, library: str) -> bool:
    """Say whether a process has come as far as to load a library."""
    return library in Path(f"/proc/{daemon.pid}/maps").read_text()


@pytest.mark.journey
def test_sighup_before_the_daemon_is_ready_is_a_reload_once_it_is(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(wait=False, forked=False)
    until(lambda: imports(daemon, "re2"))

    os.kill(daemon.pid, signal.SIGHUP)
    daemon.wait_until_ready()

    until(lambda: "reloaded for SIGHUP" in daemon.log())
