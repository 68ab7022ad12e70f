"""What any web page can ask for without end, and what agents notice of it."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from statistics import median
from typing import Final
from urllib.parse import urlsplit

import pytest

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Peer
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon, environment
from tests.journeys.agents import until
from tests.journeys.proposer import Proposer, introduce

pytestmark = pytest.mark.journey

CALM_S: Final = 2.0  # before it, and again after it
LOOPS_S: Final = 3.0
TIMES: Final = 4  # what a median wait may grow by
ROUNDS: Final = 3
NOTHING: Final[Mapping[str, str]] = {}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    started = start_module_daemon(UNLIMITED)
    Keyring(started.data_dir / "keys").add("agents", "code")
    started.restart()
    introduce(started)
    return started


@contextmanager
def looping(url: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.journeys.scrape_flood", url, str(LOOPS_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as loops:
        yield
        answers = int(loops.communicate()[0])
        print(f"{answers / LOOPS_S:.0f} answers a second")
        assert answers


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nowhere"])
def test_no_page_that_is_asked_for_without_end_slows_agents(
    daemon: RunningDaemon, path: str
) -> None:
    with Proposer(daemon.endpoint.bus, daemon.data_dir / "keys" / "agents" / "code.nk") as agent:
        for _ in range(ROUNDS):
            calm = agent.propose(CALM_S)
            with looping(daemon.endpoint.web + path):
                during = agent.propose(LOOPS_S)
            calm += agent.propose(CALM_S)
            times = median(during) / median(calm)
            print(f"{median(calm) * 1000:.2f} ms, asked {median(during) * 1000:.2f} ms")
            if times <= TIMES:  # another program's burst may spoil a round
                break

    assert times <= TIMES


def test_any_page_may_ask_how_it_is_and_only_programs_what_agents_do(daemon: RunningDaemon) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}

    assert get(daemon, "/metrics")[0] == 200
    assert get(daemon, "/metrics", foreign)[0] == 403
    assert get(daemon, "/healthz", foreign)[0] == 200
    assert get(daemon, "/metrics", {"Host": "evil.example"})[0] == 403


def test_metrics_are_made_once_a_second_and_hold_nothing_that_moves_a_cursor(
    daemon: RunningDaemon,
) -> None:
    with Peer(daemon.endpoint.bus, inbox="_INBOX.escape") as peer:
        proposal = rb'{"id":"e1","type":"read_file","dependency":"db\u001b[31m"}'
        peer.ask("safety.v1.propose.escape", proposal)
        peer.ask("safety.v1.telemetry.escape", b'{"type":"outcome","id":"e1","ok":true}')

    until(lambda: b"x1b[31m" in get(daemon, "/metrics")[1])
    texts = [get(daemon, "/metrics")[1] for _ in range(10)]

    assert len(set(texts)) <= 2  # a second may end meanwhile
    assert b"\x1b" not in b"".join(texts)


def get(
    daemon: RunningDaemon, path: str, headers: Mapping[str, str] = NOTHING
) -> tuple[int, bytes]:
    where = urlsplit(daemon.endpoint.web)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=10)
    try:
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
