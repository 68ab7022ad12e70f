"""A day passes: its report is stored and mailed to its recipients."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import StartDaemon
from tests.journeys.asking_agent import Asker
from tests.journeys.delivery_targets import until
from tests.journeys.wall_clock import WallClock
from tests.notify.email.mail_servers import MailServer, mail_server

pytestmark = pytest.mark.journey

DAY: Final = 86_400.0
MAIL: Final = """
[notifications]
timezone = "UTC"
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
daily_report = true
report_at = "00:00"
[notifications.email]
enabled = true
to = "alice@example.com"
from = "safetyd@example.com"
smtp_host = "localhost"
smtp_port = {port}
security = "none"
"""


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server("none") as server:
        yield server


@pytest.mark.req("S2.44")
def test_a_missed_report_is_made_and_sent_at_the_next_start(
    start_daemon: StartDaemon, mail: MailServer, tmp_path: Path
) -> None:
    wall = WallClock(tmp_path)
    wall.step(-2 * DAY)
    day = wall.now().date()
    daemon = start_daemon(MAIL.format(port=mail.port), wall.variables)
    with Asker(daemon, "code") as agent:
        agent.ask("propose", {"id": "p1", "type": "run_shell", "text": "rm -rf /"})
    daemon.stop()
    wall.step(2 * DAY)
    daemon.start()

    file = daemon.data_dir / f"reports/{day}.md"
    until(file.exists, "the report of the day")
    until(lambda: any("daily report of" in each.text for each in mail.received), "the mail")

    kept = file.read_text()
    sent = next(each.text for each in mail.received if "daily report of" in each.text)
    assert "Overall Health: GREEN" in kept
    assert "- Actions blocked: 1\n" in kept
    assert f"GREEN: daily report of {day}" in sent
    assert daemon.safetyd("report", "--date", str(day), "--md").stdout == kept
