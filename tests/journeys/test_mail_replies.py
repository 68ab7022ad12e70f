"""A daemon that sends mails and reads the replies to them."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.dovecot_server import Dovecot
from tests.journeys.asking_agent import Asker
from tests.journeys.delivery_targets import outbox, until
from tests.notify.email.mail_servers import MailServer, mail_server
from tests.notify.email.reply_rig import SERVER, code_in, replies_table, reply_to
from tests.notify.notifier_rig import mail_table

AT_ONCE: Final = """
[notifications]
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
"""
USER: Final = "journey@example.net"

Begin = Callable[..., RunningDaemon]


@pytest.fixture
def smtp() -> Iterator[MailServer]:
    with mail_server("none") as server:
        yield server


@pytest.fixture
def begin(start_daemon: StartDaemon, smtp: MailServer, dovecot: Dovecot, tmp_path: Path) -> Begin:
    def begin(user: str = USER, setting: str = f'authserv_id = "{SERVER}"') -> RunningDaemon:
        own = mail_table(smtp, replies_table(dovecot, user, tmp_path, setting))
        return start_daemon(AT_ONCE + own)

    return begin


def test_a_reply_lets_the_agent_act_and_is_read_once(
    begin: Begin, smtp: MailServer, dovecot: Dovecot
) -> None:
    daemon = begin()
    with Asker(daemon) as asker:
        answer = asker.wait_for("p1")
        (mail,) = smtp.wait()
        uid = dovecot.put(USER, reply_to(mail, f"approve {code_in(mail)}").as_bytes())
        said = asker.peer.heard(answer).fields
        request = said["request_id"]
    confirmed = smtp.wait(2)[1]
    dovecot.wait_seen(USER, uid)
    daemon.stop()
    daemon.start()
    with Asker(daemon) as asker:
        asker.propose("p2", text="git push origin other")
    other = smtp.wait(3)[2]
    dovecot.wait_seen(USER, dovecot.put(USER, reply_to(other, f"deny {code_in(other)}").as_bytes()))
    smtp.wait(4)

    assert said["decision"] == "allow"
    assert confirmed.text == "Approved.\n"
    shown = daemon.safetyd("show", request).stdout
    assert re.search(r"approved .*operator", shown, re.IGNORECASE)
    assert "link:email" in shown
    assert [mail.text for mail in smtp.received[3:]] == ["Denied.\n"]


def test_a_reply_that_arrives_while_the_daemon_is_down_is_read_after_it(
    begin: Begin, smtp: MailServer, dovecot: Dovecot
) -> None:
    daemon = begin("later@example.net")
    with Asker(daemon) as asker:
        asker.propose("p1")
    (mail,) = smtp.wait()
    until(lambda: outbox(daemon)[0]["state"] == "accepted", "the mail to be recorded")

    daemon.kill()
    dovecot.put("later@example.net", reply_to(mail, f"approve {code_in(mail)}").as_bytes())
    daemon.start()

    assert smtp.wait(2)[1].text == "Approved.\n"


def test_the_doctor_and_the_list_of_channels_show_the_mailbox(
    begin: Begin, dovecot: Dovecot
) -> None:
    daemon = begin("doctor@example.net")
    where = "INBOX of doctor@example.net at 127.0.0.1"

    until(
        lambda: where in daemon.safetyd("notify", "channels").stdout, "the mailbox to be connected"
    )

    assert f"replies to email: read from {where}" in daemon.safetyd("notify", "channels").stdout
    assert f"email: replies are read from {where}" in daemon.safetyd("doctor").stdout


def test_replies_without_a_check_of_signatures_are_a_mistake(
    begin: Begin, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    config = tmp_path / "unsigned.toml"
    config.write_text(
        """
[notifications.email]
enabled = true
to = "alice@example.com"
from = "safetyd@example.com"
smtp_host = "127.0.0.1"
security = "none"
replies = true
reply_to = "safetyd@example.com"
imap_host = "imap.example.com"
imap_password_file = "imap.password"
"""
    )
    checked = begin("check@example.net").safetyd("config", "check", str(config))

    assert checked.returncode != 0
    assert "notifications.email.authserv_id is empty" in checked.stdout + checked.stderr
