"""A flood of one sender is named, costs bounded memory, and refuses nothing to known agents."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import Ran, bash, hook
from tests.journeys.flood_round import MB, flood, peak_bytes
from tests.journeys.test_scrape_flood import get

pytestmark = [pytest.mark.alone, pytest.mark.journey]

HONEST: Final = ("coder", "reviewer", "tester")
FLOOD_S: Final = 3.0
MAX_BYTES: Final = 300 * MB


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    """A daemon with default limits that knows the honest agents."""
    started = start_module_daemon("[hosts]\nwait_s = 1\n")
    for agent in HONEST:
        assert hook(started.endpoint.hook, bash("ls", agent), agent=agent).passes
    return started


def works(daemon: RunningDaemon, agent: str, for_s: float) -> list[Ran]:
    """Call at the rate of a coding agent, and return the answers."""
    answers, until = list[Ran](), monotonic() + for_s
    while monotonic() < until:
        call = bash("ls", f"{agent}-{monotonic()}")
        answers.append(hook(daemon.endpoint.hook, call, agent=agent))
    return answers


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        ("silent", "connections"),
        ("bodies", "bytes_per_s"),
        ("calls", "requests"),
        ("pages", "connections"),
    ],
)
def test_a_flood_takes_nothing_from_known_agents_of_the_same_user_and_is_named(
    daemon: RunningDaemon, kind: str, limit: str
) -> None:
    where = daemon.endpoint
    with (
        ThreadPoolExecutor() as threads,
        flood("sender_flood", kind, where.hook, where.web, for_s=FLOOD_S) as made,
    ):
        done = [threads.submit(works, daemon, agent, FLOOD_S / 2) for agent in HONEST]
        answers = [answer for agent in done for answer in agent.result()]
        _, health = get(daemon, "/healthz")
        shown = daemon.safetyd("status")
        said = json.loads(daemon.safetyd("status", "--json").stdout)

    assert int(made[0]) > 0
    assert len(answers) >= len(HONEST)
    assert [answer for answer in answers if not answer.passes] == []
    assert peak_bytes(daemon.pid) < MAX_BYTES
    assert shown.returncode == 0, shown.stderr
    sender = "address:127.0.0.1" if kind == "pages" else f"uid:{os.getuid()}"
    assert (sender, limit) in [(over["sender"], over["limit"]) for over in said["over_limits"]]
    assert f"OVER LIMIT: {sender}" in shown.stdout
    assert sender in health.decode()
    assert "Traceback" not in daemon.log()
    assert daemon.log().count(f"{sender} is over the limit of ") <= len(said["over_limits"])
