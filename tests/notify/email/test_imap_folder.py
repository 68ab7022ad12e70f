"""Reading a folder of a real server, and of servers that are hardly ones."""

from datetime import date
from itertools import count
from typing import Any

import msgspec
import pytest

from safetyd.notify.channel import Misconfigured, Unavailable
from safetyd.notify.email import imap_folder
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.imap_folder import ImapFolder
from safetyd.notify.email.reply_mail import MAX_BYTES
from tests.dovecot_server import PASSWORD, Dovecot, Security
from tests.notify.email.mail_servers import Silent, Talking, odd_server

EPOCH = date(2020, 1, 1)
MAIL = b"Subject: hello\r\n\r\nhow are you\r\n"

_numbers = count(1)


@pytest.fixture
def user() -> str:
    return f"folder-{next(_numbers)}@example.net"


def folder(
    port: int, user: str, password: str = PASSWORD, security: Security = "none", **more: Any
) -> ImapFolder:
    fields = {
        "imap_host": "localhost",
        "imap_port": port,
        "imap_security": security,
        "reply_to": user,
    }
    return ImapFolder(msgspec.convert(fields | more, EmailConfig), password)


@pytest.mark.parametrize("security", ["tls", "starttls", "none"])
def test_unread_mails_are_found_once_they_are_marked_no_more(
    dovecot: Dovecot, user: str, security: Security
) -> None:
    seen, first, second = (
        dovecot.put(user, MAIL, flags) for flags in (r"(\Seen)", "", r"(\Flagged)")
    )
    inbox = folder(dovecot.ports[security], user, security=security, ca_file=str(dovecot.ca_file))

    assert inbox.open() == 3
    found, searched = inbox.unread(0, EPOCH)
    mail = inbox.fetch(first)
    inbox.mark(first)
    later = inbox.unread(0, EPOCH)
    after = inbox.unread(second, EPOCH)
    inbox.close()

    assert (found, searched) == ([first, second], second)
    assert mail is not None
    assert (mail.raw, mail.size) == (MAIL, len(MAIL))
    assert later == ([second], second)
    assert after == ([], second)
    assert dovecot.seen(user) == [seen, first]


def test_old_mails_are_not_found(dovecot: Dovecot, user: str) -> None:
    dovecot.put(user, MAIL)
    inbox = folder(dovecot.ports["none"], user)
    inbox.open()

    assert inbox.unread(0, date(2999, 1, 1)) == ([], 1)
    inbox.close()


def test_mails_are_searched_and_returned_in_portions(
    dovecot: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imap_folder, "WINDOW", 4)
    monkeypatch.setattr(imap_folder, "MAX_FOUND", 2)
    for _ in range(6):
        dovecot.put(user, MAIL)
    inbox = folder(dovecot.ports["none"], user)
    inbox.open()

    portions, searched = [], 0
    while (portion := inbox.unread(searched, EPOCH)) != ([], searched):
        portions.append(portion[0])
        searched = portion[1]
    inbox.close()

    assert portions == [[1, 2], [3, 4], [5, 6]]


def test_only_the_beginning_of_a_large_mail_is_fetched(dovecot: Dovecot, user: str) -> None:
    large = MAIL + b"0123456789\r\n" * 2_500_000
    uid = dovecot.put(user, large)
    inbox = folder(dovecot.ports["none"], user)
    inbox.open()
    mail = inbox.fetch(uid)
    inbox.close()

    assert mail is not None
    assert (len(mail.raw), mail.size) == (MAX_BYTES, len(large))


def test_a_deleted_mail_is_none(dovecot: Dovecot, user: str) -> None:
    inbox = folder(dovecot.ports["none"], user)
    inbox.open()

    assert inbox.fetch(17) is None
    inbox.close()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"password": "not the password"}, "refused the login"),
        ({"imap_folder": "Nowhere"}, "cannot open imap_folder"),
        ({"imap_folder": 'x" (y'}, "cannot open imap_folder"),
        ({"security": "starttls"}, "certificate"),
    ],
)
def test_what_an_operator_must_fix_is_said_without_the_password(
    dovecot: Dovecot, user: str, settings: dict[str, Any], why: str
) -> None:
    inbox = folder(dovecot.ports["none"], user, **settings)

    with pytest.raises(Misconfigured, match=why) as failure:
        inbox.open()
    inbox.close()
    assert "password" not in str(failure.value).replace("[password]", "")


def test_a_password_is_not_sent_to_another_machine_unencrypted() -> None:
    inbox = folder(143, "user", imap_host="imap.example.com")

    with pytest.raises(Misconfigured, match='imap_security is "none"'):
        inbox.open()


def test_servers_that_do_not_answer_or_talk_nonsense_are_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(imap_folder, "TIMEOUT_S", 0.3)
    hello = b"* OK hello\r\n* CAPABILITY IMAP4rev1\r\n"
    protocols = (
        Silent,
        lambda: Talking(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        lambda: Talking(b"* BYE go away\r\n"),
        lambda: Talking(hello),
        lambda: Talking(b"\xff\x00{99999999999}\r\n"),
        lambda: Talking(b"* OK " + b"x" * 2_000_000),
    )
    for protocol in protocols:
        with odd_server(protocol) as port:
            inbox = folder(port, "user")
            with pytest.raises((Unavailable, Misconfigured)):
                inbox.open()
            inbox.close()


def test_a_closed_folder_is_unavailable(dovecot: Dovecot, user: str) -> None:
    inbox = folder(dovecot.ports["none"], user)
    inbox.open()
    inbox.close()

    with pytest.raises(Unavailable):
        inbox.unread(0, EPOCH)
