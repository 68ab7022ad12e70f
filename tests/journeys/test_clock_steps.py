"""Steps of the wall clock: requests are still delivered, and no approval lasts longer."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from safetyd.core.events.request_events import Expired, GrantEnded, Lapsed
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, review
from tests.journeys.audit_record import events
from tests.journeys.delivery_targets import until
from tests.journeys.people import control
from tests.journeys.wall_clock import WallClock
from tests.notify.email.mail_servers import MailServer, mail_server

HOUR: Final = 3600.0
DAY: Final = 86_400.0
LATER: Final = 12

MAIL: Final = """
[approvals]
approved_valid_minutes = 0.05
[notifications]
batch_interval_seconds = 1
patience_minutes = [0.05]
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


def told(mail: MailServer, *agents: str) -> bool:
    words = "".join(each.text for each in mail.received)
    return {*agents} <= {*re.findall(r"push by ([\w-]+)", words)}


@pytest.mark.parametrize("step_s", [HOUR, -DAY, -1.0])
def test_requests_made_after_a_clock_step_are_notified(
    daemon: RunningDaemon, mail: MailServer, wall: WallClock, step_s: float
) -> None:
    names = f"by{'back' if step_s < 0 else 'forward'}-{abs(step_s):.0f}"
    agents = [f"{names}-before", *(f"{names}-{n}" for n in range(LATER))]
    waiting = ask(daemon, agents[0])
    wall.step(step_s)
    later = [ask(daemon, agent) for agent in agents[1:]]

    until(lambda: told(mail, *agents), f"{LATER + 1} requests to be told")
    for request in (waiting, *later):
        assert review(daemon, "deny", request)["ok"]


def test_no_approval_or_request_lasts_longer_when_the_clock_goes_back(
    daemon: RunningDaemon, wall: WallClock
) -> None:
    approved, asked = ask(daemon, "approved"), ask(daemon, "asked", timeout_s=3.0)
    assert review(daemon, "approve", approved)["ok"]
    granted = grant(daemon, "granted", wall.now() + timedelta(seconds=3))
    wall.step(-HOUR)

    until(lambda: approved in ended(daemon, Lapsed), "the approval to lapse")
    until(lambda: asked in ended(daemon, Expired), "the question to expire")
    until(lambda: granted in ended(daemon, GrantEnded), "the grant to end")

    assert review(daemon, "approve", asked)["code"] == "expired"
    for agent in ("approved", "granted"):
        with Asker(daemon, agent) as asker:
            assert asker.propose("p2")["status"] == "pending"


def grant(daemon: RunningDaemon, agent: str, ends: datetime) -> str:
    until_ = ends.isoformat()
    reply = control(
        daemon, "grant_add", agent=agent, type="push", uses=5, until=until_, reason="for a while"
    )
    assert reply["ok"], reply
    return str(reply["id"])


def ended(daemon: RunningDaemon, kind: type[Lapsed | Expired | GrantEnded]) -> set[str]:
    """Return the requests or grants that the audit records as expired."""
    found = (event for event in events(daemon.data_dir) if isinstance(event, kind))
    return {id_ for event in found for id_ in _ids(event)}


def _ids(event: Lapsed | Expired | GrantEnded) -> tuple[str, ...]:
    return event.grants if isinstance(event, GrantEnded) else event.request_ids


def blocked(daemon: RunningDaemon, id_: str) -> None:
    with Asker(daemon, "code") as agent:
        asked = {"id": id_, "type": "run_shell", "text": "rm -rf /"}
        assert agent.ask("propose", asked)["decision"] == "block"


@pytest.mark.journey
def test_the_report_of_a_day_with_a_clock_step_is_complete(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    clock = WallClock(tmp_path)
    clock.step(-5 * DAY)
    daemon = start_daemon('[notifications]\ntimezone = "UTC"\n', clock.variables)
    day = str(clock.now().date())
    blocked(daemon, "p1")
    clock.step(3 * DAY)
    blocked(daemon, "p2")
    ahead = daemon.safetyd("report", "--date", day).stdout
    assert re.search(r"Actions blocked +1\n", ahead), ahead
    clock.step(-3 * DAY)
    blocked(daemon, "p3")

    whole = daemon.safetyd("report", "--date", day).stdout
    clock.step(5 * DAY)
    blocked(daemon, "p4")
    afterwards = daemon.safetyd("report", "--date", day).stdout
    unknown = daemon.safetyd("report", "--date", str((clock.now() - timedelta(days=1)).date()))
    daemon.stop()
    from_files = daemon.safetyd("report", "--date", day).stdout

    for said in (whole, afterwards, from_files):
        assert re.search(r"Actions blocked +2\n", said), said
        assert "audit chain" not in said
    assert unknown.stdout.startswith("UNKNOWN  ")
    assert "nothing was recorded" in unknown.stdout
