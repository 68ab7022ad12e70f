"""A wall clock that is put back or forward: people are told, and no yes lasts longer."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking import Asker, review
from tests.journeys.targets import until
from tests.journeys.wall_clock import WallClock
from tests.notify.smtp import MailServer, mail_server

HOUR: Final = 3600.0
DAY: Final = 86_400.0
LATER: Final = 12

MAIL: Final = """
[notifications]
batch_interval_seconds = 1
quiet_start = "00:00"
quiet_end = "00:00"
[notifications.email]
enabled = true
to = "alice@example.com"
from = "safetyd@example.com"
smtp_host = "localhost"
smtp_port = {port}
security = "none"
"""


@pytest.fixture(scope="module")
def mail() -> Iterator[MailServer]:
    with mail_server("none") as server:
        yield server


@pytest.fixture(scope="module")
def wall(tmp_path_factory: pytest.TempPathFactory) -> WallClock:
    return WallClock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon, mail: MailServer, wall: WallClock) -> RunningDaemon:
    return start_module_daemon(MAIL.format(port=mail.port), wall.variables)


def ask(daemon: RunningDaemon, agent: str, **fields: object) -> str:
    with Asker(daemon, agent) as asker:
        decision = asker.propose("p1", **fields)
    assert decision["status"] == "pending", decision
    return str(decision["request_id"])


def told(mail: MailServer, *requests: str) -> bool:
    words = "".join(each.text for each in mail.received)
    return all(request in words for request in requests)


@pytest.mark.parametrize("step_s", [HOUR, -HOUR, DAY, -DAY, 1.0, -1.0])
def test_whoever_asks_after_the_clock_was_put_back_or_forward_is_told_of(
    daemon: RunningDaemon, mail: MailServer, wall: WallClock, step_s: float
) -> None:
    names = f"by{'back' if step_s < 0 else 'forward'}-{abs(step_s):.0f}"
    waiting = ask(daemon, f"{names}-before")
    wall.step(step_s)
    later = [ask(daemon, f"{names}-{n}") for n in range(LATER)]

    until(lambda: told(mail, waiting, *later), f"{LATER + 1} requests to be told")
    for request in (waiting, *later):
        assert review(daemon, "deny", request)["ok"]
