"""Mail to real servers on the loopback, on good days and bad ones."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import msgspec
import pytest

from safetyd.notify.channel import Misconfigured, Receipt, Unavailable, Undeliverable
from safetyd.notify.email import smtp as module
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.mail_channel import Mail
from tests.notify.channel_context import context
from tests.notify.email.mail_servers import (
    HANG,
    Dripping,
    Login,
    MailServer,
    Security,
    Silent,
    Talking,
    mail_server,
    odd_server,
)
from tests.notify.message_samples import DELIVERY, LINK, notice, request_topic

PASSWORD = "correct horse battery"
LOGIN = Login("alice", PASSWORD)


def channel(port: int, password: str = "", **settings: Any) -> Mail:
    fields = {"from": "safetyd@example.com", "smtp_host": "localhost", "smtp_port": port}
    config = msgspec.convert(fields | settings, EmailConfig)
    return Mail(config, password, context()._replace(host="box.example.com"))


def to(server: MailServer, **settings: Any) -> Mail:
    return channel(server.port, **({"ca_file": str(server.ca_file)} | settings))


@contextmanager
def scripted(**script: str) -> Iterator[tuple[Mail, MailServer]]:
    with mail_server(script=script) as server:
        yield to(server), server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECT_S", "ENVELOPE_S", "CONTENT_S", "GOODBYE_S"):
        monkeypatch.setattr(module, name, 0.3)


@pytest.mark.req("S3.24")
async def test_a_mail_arrives_encrypted_after_a_login() -> None:
    with mail_server(login=LOGIN) as server:
        receipt = await to(server, username="alice", password=PASSWORD).send(notice())

        (received,) = server.wait()

    assert receipt == Receipt("accepted", "2.0.0 Ok: queued as 4bX1")
    assert (received.sender, received.recipients) == ("safetyd@example.com", ("alice@example.com",))
    assert received.encrypted
    assert received.message["Message-ID"] == f"<{DELIVERY}@box.example.com>"
    assert LINK in received.text
    assert LINK in received.page


@pytest.mark.parametrize(("security", "encrypted"), [("tls", True), ("none", False)])
async def test_other_ways_to_connect(security: Security, *, encrypted: bool) -> None:
    with mail_server(security, login=LOGIN if encrypted else None) as server:
        login = {"username": "alice", "password": PASSWORD} if encrypted else {}

        await to(server, security=security, **login).send(notice())

        assert [received.encrypted for received in server.wait()] == [encrypted]


async def test_every_copy_of_a_message_has_the_same_id() -> None:
    with mail_server() as server:
        mail = to(server)

        await mail.send(notice())
        await mail.send(notice(again=True))

        assert {received.message["Message-ID"] for received in server.wait(2)} == {
            f"<{DELIVERY}@box.example.com>"
        }
        assert server.connections == 2
        await mail.close()


async def test_lines_that_mean_something_to_a_server_are_only_lines() -> None:
    with mail_server() as server:
        await to(server).send(notice(request_topic(text=".\n..\nQUIT")))

        assert "  | .\n  | ..\n  | QUIT\n" in server.wait()[0].text


async def test_nothing_goes_unencrypted_to_another_machine() -> None:
    mail = channel(25, security="none", smtp_host="192.0.2.1")

    with pytest.raises(Misconfigured, match="another machine"):
        await mail.send(notice())
    with pytest.raises(Misconfigured, match="another machine"):
        await channel(25, security="none", smtp_host="mail.example.com").send(notice())


async def test_this_machine_has_more_than_one_name() -> None:
    with mail_server("none") as server:
        await channel(server.port, security="none", smtp_host="127.0.0.1").send(notice())

        assert len(server.wait()) == 1


async def test_a_server_that_offers_no_encryption_gets_neither_mail_nor_password() -> None:
    with mail_server("none", login=LOGIN) as server:
        mail = to(server, username="alice", password=PASSWORD)

        with pytest.raises(Misconfigured, match="STARTTLS") as caught:
            await mail.send(notice())

        assert server.received == []
        assert server.logins == []
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_server_of_unknown_origin_gets_nothing(security: Security) -> None:
    with mail_server(security, login=LOGIN) as server:
        mail = channel(server.port, PASSWORD, security=security, username="alice")

        with pytest.raises(Misconfigured, match=r"certificate|issuer"):
            await mail.send(notice())

        assert server.received == []
        assert server.logins == []


async def test_a_file_of_certificates_that_is_missing_is_named() -> None:
    with pytest.raises(Misconfigured, match=r"ca_file: /nowhere/ca.pem: No such file"):
        await channel(25, ca_file="/nowhere/ca.pem").send(notice())


@pytest.mark.parametrize("answer", ["535 5.7.8 PASSWORD is wrong", "535 5.7.8 wrong", ""])
async def test_a_refused_login_stops_the_channel_and_tells_no_password(answer: str) -> None:
    script = {"AUTH": answer} if answer else {}
    with mail_server(login=Login("alice", "another"), script=script) as server:
        mail = to(server, username="alice", password=PASSWORD)

        with pytest.raises(Misconfigured, match=r"535 5\.7\.8") as caught:
            await mail.send(notice())

        assert server.logins != []
    assert PASSWORD not in str(caught.value)
    assert ("[password] is wrong" in str(caught.value)) == ("PASSWORD" in answer)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ({"RCPT": "451 4.3.0 later"}, Unavailable),
        ({"RCPT": "550 5.1.1 nobody here"}, Undeliverable),
        ({"RCPT": "530 5.7.0 log in first"}, Misconfigured),
        ({"DATA": "451 4.3.0 later"}, Unavailable),
        ({"DATA": "554 5.6.0 refused"}, Undeliverable),
        ({"MAIL": "450 4.2.0 later"}, Unavailable),
        ({"MAIL": "421 4.3.2 closing"}, Unavailable),
        ({"MAIL": "553 5.7.1 not your address"}, Misconfigured),
    ],
)
async def test_a_refusal_says_whether_to_try_again(
    script: dict[str, str], error: type[Exception]
) -> None:
    (words,) = script.values()
    with scripted(**script) as (mail, server), pytest.raises(error) as caught:
        await mail.send(notice())

    assert str(caught.value) == f"localhost:{server.port}: {words}"
    assert not getattr(caught.value, "ambiguous", False)


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (b"421 too busy\r\n", Unavailable),
        (b"554 go away\r\n", Misconfigured),
        (b"", Unavailable),
    ],
)
async def test_a_server_may_refuse_to_talk(greeting: bytes, error: type[Exception]) -> None:
    with odd_server(lambda: Talking(greeting)) as port, pytest.raises(error):
        await channel(port).send(notice())


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("protocol", "security"), [(Silent, "starttls"), (Dripping, "starttls"), (Silent, "tls")]
)
async def test_a_server_that_never_greets_is_given_up(
    protocol: Callable[[], object], security: Security
) -> None:
    with odd_server(protocol) as port, anyio.fail_after(5), pytest.raises(Unavailable) as caught:
        await channel(port, security=security).send(notice())

    assert not caught.value.ambiguous


async def test_a_server_that_speaks_without_encryption_where_there_should_be_some() -> None:
    with odd_server(Dripping) as port, pytest.raises(Misconfigured, match="SSL"):
        await channel(port, security="tls").send(notice())


async def test_a_server_that_hangs_up_in_the_middle_of_encryption_may_come_back() -> None:
    with odd_server(lambda: Talking(b"")) as port, pytest.raises(Unavailable):
        await channel(port, security="tls").send(notice())


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))

        with pytest.raises(Unavailable, match="localhost") as caught:
            await channel(taken.getsockname()[1]).send(notice())

    assert not caught.value.ambiguous


@pytest.mark.usefixtures("impatient")
async def test_a_message_may_have_arrived_if_no_answer_came() -> None:
    with scripted(DATA=HANG) as (mail, server):
        with anyio.fail_after(5), pytest.raises(Unavailable, match="did not confirm") as caught:
            await mail.send(notice())

        assert len(server.received) == 1
    assert caught.value.ambiguous


@pytest.mark.usefixtures("impatient")
async def test_a_message_that_was_never_begun_did_not_arrive() -> None:
    with scripted(RCPT=HANG) as (mail, server):
        with anyio.fail_after(5), pytest.raises(Unavailable, match="answer in time") as caught:
            await mail.send(notice())

        assert server.received == []
    assert not caught.value.ambiguous


@pytest.mark.usefixtures("impatient")
async def test_a_message_that_was_taken_is_accepted_whatever_comes_after() -> None:
    with scripted(QUIT=HANG) as (mail, _), anyio.fail_after(5):
        receipt = await mail.send(notice())

    assert receipt.state == "accepted"


async def test_a_try_that_was_cancelled_does_not_spoil_the_next() -> None:
    with scripted(DATA=HANG) as (mail, server):
        with anyio.move_on_after(0.3):
            await mail.send(notice())
        server.script.clear()

        receipt = await mail.send(notice())

    assert receipt.state == "accepted"


@pytest.mark.parametrize(
    "address", ["", "alice", "jürgen@example.com", "a b@example.com", "a>b@example.com"]
)
async def test_an_address_that_is_none_is_undeliverable(address: str) -> None:
    with pytest.raises(Undeliverable, match="address of alice"):
        await channel(25).send(notice(address=address))


async def test_a_sender_is_needed() -> None:
    with pytest.raises(Misconfigured, match=r"notifications\.email\.from"):
        await channel(25, **{"from": ""}).send(notice())
