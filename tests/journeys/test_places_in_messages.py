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
strategy = "all"
patience_minutes = []
next_person_minutes = 0
batch_interval_seconds = 2
quiet_start = "00:00"
quiet_end = "00:00"
[notifications.desktop]
helper = true
[[recipients]]
name = "alice"
email = "alice@example.com"
sms = "+15550100"
channels = ["desktop", "email", {{ name = "sms", min_urgency = "low" }}, "ntfy"]
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
    assert asked in mail
    others = [mail.index(each) for each in ("made-up-", *made_up) if each in mail]
    joined = re.search(r"requests: push by", mail)
    assert mail.index("deployer") < min([*others, *([joined.start()] if joined else [])])
    # Requests left out of one message are in the next. Each mail links the list of its requests.
    until(lambda: listed(everywhere) > NAMES, f"{NAMES} requests to be listed")
    pages = [page_of(list_link(arrival.words)) for arrival in everywhere.arrivals("email")]
    assert any("deployer" in page for page in pages)
    assert not [n for n in range(NAMES) if not any(f"made-up-{n}<" in page for page in pages)]


def told(everywhere: Targets, channel: str) -> list[str]:
    """Return the messages on a channel that show the agent with a key."""
    arrived = (arrival.words for arrival in everywhere.arrivals(channel))
    return [words for words in arrived if "deployer" in words]


def listed(everywhere: Targets) -> int:
    """Return the number of requests in all mails."""
    words = (arrival.words for arrival in everywhere.arrivals("email"))
    found = (re.match(r"(?:(\d+) requests: )?push", each) for each in words)
    return sum(int(each[1] or 1) for each in found if each)


def page_of(link: str) -> str:
    with urlopen(link) as page:
        text: str = page.read().decode()
    return text


def shown(helper: Helper) -> str:
    notice = helper.hears()
    helper.shows(notice)
    return f"{notice['summary']}\n{notice['body']}"


def list_link(mail: str) -> str:
    """Return the last link: those before it are of one request each."""
    return str(re.findall(r"http://\S+/d/\S+", mail)[-1])
