"""Every message shows the requests of an agent with a key, despite many anonymous requests."""

import re
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import requests_of_many, requests_with_key
from tests.journeys.delivery_targets import CHANNELS, Helper, Targets, until

NAMES: Final = 130
CONFIG: Final = f"""
{UNLIMITED}
[notifications]
batch_interval_seconds = 2
quiet_start = "00:00"
quiet_end = "00:00"
[notifications.desktop]
helper = true
"""


@pytest.fixture
def daemon(start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path) -> RunningDaemon:
    daemon = start_daemon(CONFIG + everywhere.configure(tmp_path))
    assert daemon.safetyd("agent", "add", "deployer").returncode == 0
    return daemon


def test_requests_under_invented_names_displace_no_request_of_an_agent_with_a_key(
    daemon: RunningDaemon, everywhere: Targets
) -> None:
    with Helper(daemon) as helper:
        made_up = requests_of_many(daemon, NAMES)
        (asked,) = requests_with_key(daemon, "deployer")

        until(lambda: all(told(everywhere, name) for name in CHANNELS), "deployer on every channel")
        until(lambda: "deployer" in shown(helper), "deployer on the desktop")

    (mail,) = told(everywhere, "email")
    assert mail.index(asked) < min(mail.index(other) for other in made_up if other in mail)
    with urlopen(list_link(mail)) as page:
        assert "deployer" in page.read().decode()
    # Requests left out of one message are in the next.
    until(lambda: not unseen(everywhere, made_up), f"{NAMES} requests to be shown")


def told(everywhere: Targets, channel: str) -> list[str]:
    """Return the messages on a channel that show the agent with a key."""
    arrived = (arrival.words for arrival in everywhere.arrivals(channel))
    return [words for words in arrived if "deployer" in words]


def unseen(everywhere: Targets, requests: list[str]) -> list[str]:
    """Return the requests that no mail has shown yet."""
    words = "".join(arrival.words for arrival in everywhere.arrivals("email"))
    return [request for request in requests if request not in words]


def shown(helper: Helper) -> str:
    notice = helper.hears()
    helper.shows(notice)
    return f"{notice['summary']}\n{notice['body']}"


def list_link(mail: str) -> str:
    """Return the last link: those before it are of one request each."""
    return str(re.findall(r"http://\S+/d/\S+", mail)[-1])
