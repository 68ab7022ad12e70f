"""Changes of configuration and keys while the daemon runs."""

import os
import shutil
import signal
import urllib.request
from pathlib import Path
from typing import Final

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.core.events.daemon_events import ConfigRejected
from tests.conftest import WEB, RunningDaemon, StartDaemon
from tests.journeys.agents import PATIENCE_S, UNBOUNDED, Agent, History, crowd, until
from tests.journeys.audit_record import assert_recorded, assert_verifies, events

BAD: Final = 'profile = "lax"\n[gate]\nblocklist_patterns = ["("]\n[rate]\nnonsense = 1\n' + WEB
MISTAKES: Final = ("profile is", "gate.blocklist_patterns", "rate.nonsense")
# The file that the crowd reads, which no other rule blocks.
STRICTER: Final = '[gate]\nblocklist_patterns = ["notes.txt"]\n' + UNBOUNDED + WEB


def reload(daemon: RunningDaemon, config: str = "") -> None:
    if config:
        daemon.config_path.write_text(config)
    os.kill(daemon.pid, signal.SIGHUP)


def metric(daemon: RunningDaemon, name: str) -> float:
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        lines = page.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.journey
def test_a_reload_names_every_error_and_a_valid_file_takes_effect(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNBOUNDED)

    with crowd(daemon.endpoint.bus, "a") as history:
        history.until_allowed()
        reload(daemon, BAD)
        until(lambda: metric(daemon, "safetyd_config_last_reload_successful") == 0)
        history.until_allowed()
        said = daemon.log()
        assert not [mistake for mistake in MISTAKES if mistake not in said]

        reload(daemon, STRICTER)
        history.until(lambda heard: "notes.txt" in heard.decision.reason)
        until(lambda: metric(daemon, "safetyd_config_last_reload_successful") == 1)

    rejected = [event for event in events(daemon.data_dir) if isinstance(event, ConfigRejected)]
    assert [len(event.errors) for event in rejected] == [len(MISTAKES)]
    assert_recorded(history, daemon.data_dir)
    assert_verifies(daemon)


@pytest.mark.journey
def test_a_key_is_accepted_after_a_reload_and_disconnected_when_removed(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    daemon = start_daemon(UNBOUNDED)
    keyring, history = Keyring(daemon.data_dir / "keys"), History()
    seed = Path(shutil.copy(keyring.add("agents", "keyed"), tmp_path))
    keyed = Agent("keyed", daemon.endpoint.bus, history, seed)
    other = Agent("other", daemon.endpoint.bus, History())

    with keyed.at_work(), other.at_work():
        assert keyed.refused.wait(PATIENCE_S)
        reload(daemon)
        assert history.until_allowed().decision.agent == "keyed"

        keyring.revoke("agents", "keyed")
        keyed.refused.clear()
        reload(daemon)
        until(lambda: not keyed.connected.is_set())
        assert keyed.refused.wait(PATIENCE_S)

    assert other.connections == 1
    assert_recorded(history, daemon.data_dir)
