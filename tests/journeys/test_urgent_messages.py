"""Urgent requests use up only their own agent's urgent messages."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import requests_of_many, requests_with_key
from tests.journeys.delivery_targets import Targets, until

FREELY: Final = 5  # urgent messages of one party that are sent immediately
CONFIG: Final = f"""
{UNLIMITED}
[notifications]
quiet_start = "00:00"
quiet_end = "00:00"
"""


@pytest.fixture
def daemon(start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path) -> RunningDaemon:
    daemon = start_daemon(CONFIG + everywhere.configure(tmp_path))
    for name in ("deployer", "other"):
        assert daemon.safetyd("agent", "add", name).returncode == 0
    return daemon


def made_up(daemon: RunningDaemon) -> list[str]:
    return requests_of_many(daemon, FREELY + 3, urgency="high")


def another(daemon: RunningDaemon) -> list[str]:
    return requests_with_key(daemon, "other", FREELY + 3, urgency="high")


@pytest.mark.parametrize("others", [made_up, another])
def test_urgent_requests_of_others_do_not_delay_an_agent_with_a_key(
    daemon: RunningDaemon, everywhere: Targets, others: Callable[[RunningDaemon], list[str]]
) -> None:
    first, rest = (asked := others(daemon))[:FREELY], asked[FREELY:]
    until(lambda: all(told(everywhere, ref) for ref in first), "the first ones of the others")

    (mine,) = requests_with_key(daemon, "deployer", urgency="high")
    until(lambda: told(everywhere, mine), "that of the agent with a key")

    # The one request too many of the others comes later.
    assert not any(told(everywhere, ref) for ref in rest)


def told(everywhere: Targets, request: str) -> bool:
    return all(
        any(request in arrival.words for arrival in everywhere.arrivals(channel))
        for channel in ("email", "webhook")
    )
