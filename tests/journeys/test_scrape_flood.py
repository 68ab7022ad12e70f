"""A flood of HTTP requests from any web page hardly affects agents."""

from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

import pytest

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Peer
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.flood_round import FLOOD_S, Round, assert_hardly_slower, flood, measure
from tests.journeys.proposer import Proposer, introduce

pytestmark = [pytest.mark.alone, pytest.mark.journey]

NOTHING: Final[Mapping[str, str]] = {}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    started = start_module_daemon(UNLIMITED)
    Keyring(started.data_dir / "keys").add("agents", "code")
    started.restart()
    introduce(started)
    return started


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nowhere"])
def test_a_flood_of_page_requests_does_not_slow_agents(daemon: RunningDaemon, path: str) -> None:
    key = daemon.data_dir / "keys" / "agents" / "code.nk"

    def measured(_number: int) -> Round:
        with Proposer(daemon.endpoint.bus, key) as proposer:

            def during() -> Sequence[float]:
                with flood("scrape_flood", daemon.endpoint.web + path) as answers:
                    waits = proposer.propose(FLOOD_S)
                assert int(answers[0])
                return waits

            return measure(proposer.propose, during)

    assert_hardly_slower(measured)


def test_browsers_can_read_health_from_any_origin_but_not_metrics(daemon: RunningDaemon) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}

    assert get(daemon, "/metrics")[0] == 200
    assert get(daemon, "/metrics", foreign)[0] == 403
    assert get(daemon, "/healthz", foreign)[0] == 200
    assert get(daemon, "/metrics", {"Host": "evil.example"})[0] == 403


def test_metrics_are_built_once_a_second_without_control_characters(
    daemon: RunningDaemon,
) -> None:
    with Peer(daemon.endpoint.bus, inbox="_INBOX.escape") as peer:
        proposal = rb'{"id":"e1","type":"read_file","dependency":"db\u001b[31m"}'
        peer.ask("safety.v1.propose.escape", proposal)
        peer.ask("safety.v1.telemetry.escape", b'{"type":"outcome","id":"e1","ok":true}')

    until(lambda: b"x1b[31m" in get(daemon, "/metrics")[1])
    begun = monotonic()
    texts = [get(daemon, "/metrics")[1] for _ in range(10)]
    seconds = int(monotonic() - begun) + 1

    assert len(set(texts)) <= 1 + seconds
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
