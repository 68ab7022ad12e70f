"""Channels opened from the operator's tables, and the files that hold their secrets."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from safetyd.host import MAX_SECRET_BYTES
from safetyd.notify import channel as channels
from safetyd.notify.apprise.channel import Chat
from safetyd.notify.channel import BrokenChannel, Channel, Misconfigured, secret
from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.desktop.desktop_channel import Desktop, DesktopHelpers
from safetyd.notify.email.mail_channel import Mail
from safetyd.notify.ntfy.channel import Ntfy
from safetyd.notify.sms.sms_channel import Sms
from safetyd.notify.webhook.channel import Webhook
from tests.notify.channel_context import context
from tests.notify.email.mail_servers import Login, mail_server
from tests.notify.http_receivers import ntfy, receiving
from tests.notify.message_samples import notice
from tests.notify.sms.twilio_stand_in import ACCOUNT, AUTH_TOKEN, twilio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MARK = "do-not-tell"


def settings(**tables: Any) -> NotificationsConfig:
    return msgspec.convert(tables, NotificationsConfig)


async def opened(
    name: str, config: NotificationsConfig, *directories: Path, **around: Any
) -> Channel:
    table = dict(config.channels())[name]
    return await channels.opened(name, table, context(*directories, **around))


@pytest.mark.req("S3.31")
@pytest.mark.parametrize(
    ("name", "tables", "kind"),
    [
        ("email", {"email": {"from": "s@example.com", "smtp_host": "localhost"}}, Mail),
        ("sms", {"sms": {"from": "+15550199", "account_sid": ACCOUNT}}, Sms),
        ("desktop", {}, Desktop),
        ("desktop", {"desktop": {"helper": True}}, DesktopHelpers),
        ("webhook", {"webhook": {"url": "https://example.com"}}, Webhook),
        ("ntfy", {"ntfy": {"url": "https://ntfy.example.com/topic"}}, Ntfy),
        ("ntfy", {"ntfy": {"url": "https://ntfy.example.com/t", "token_file": "file"}}, Ntfy),
        ("team", {"apprise": [{"name": "team", "url_file": "file"}]}, Chat),
    ],
)
async def test_each_name_opens_its_channel(
    tmp_path: Path, name: str, tables: dict[str, Any], kind: type[Channel]
) -> None:
    (tmp_path / "file").write_text(SECRET)
    for table, key in (("sms", "auth_token_file"), ("webhook", "secret_file")):
        if table in tables:
            tables = {table: tables[table] | {key: "file"}}

    channel = await opened(name, settings(**tables), tmp_path)
    await channel.close()

    assert isinstance(channel, kind)
    assert channel.name == name


@pytest.mark.req("S3.24")
async def test_mail_logs_in_with_the_password_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pw-1\n")
    with mail_server(login=Login("safetyd", "pw-1")) as server:
        email = {
            "from": "safetyd@example.com",
            "smtp_host": "localhost",
            "smtp_port": server.port,
            "username": "safetyd",
            "password_file": "password",
            "ca_file": str(server.ca_file),
        }
        channel = await opened("email", settings(email=email), tmp_path)

        receipt = await channel.send(notice())

    assert receipt.state == "accepted"
    assert server.received[0].recipients == ("alice@example.com",)


@pytest.mark.req("S3.25")
async def test_sms_logs_in_with_the_token_in_its_file_and_says_where_to_report(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text(AUTH_TOKEN)
    async with twilio() as server:
        sms = {
            "from": "+15550199",
            "account_sid": ACCOUNT,
            "auth_token_file": "token",
            "api_url": server.url,
        }
        public = "https://safety.example.com"
        channel = await opened("sms", settings(sms=sms), tmp_path, public_url=public)

        await channel.send(notice(channel="sms", address="+15550100"))

    (got,) = server.got
    assert (got.form["To"], got.form["StatusCallback"]) == (
        "+15550100",
        f"{public}/hooks/sms/status",
    )


async def test_ntfy_shows_the_token_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tk_1")
    async with receiving(ntfy("tk_1")) as server:
        table = {"url": f"{server.url}/topic", "token_file": "token"}
        channel = await opened("ntfy", settings(ntfy=table), tmp_path)

        receipt = await channel.send(notice(channel="ntfy"))

    assert receipt.state == "accepted"


async def test_a_channel_whose_secret_cannot_be_read_is_there_and_names_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = {"url": "https://example.com", "secret_file": "webhook.secret"}

    with caplog.at_level(logging.WARNING, "safetyd.notify"):
        channel = await opened("webhook", settings(webhook=table), tmp_path)

    why = f"cannot read {tmp_path}/webhook.secret: No such file or directory"
    with pytest.raises(Misconfigured, match=why):
        await channel.send(notice(channel="webhook"))
    await channel.close()
    assert isinstance(channel, BrokenChannel)
    assert channel.name == "webhook"
    assert caplog.messages == [f"cannot open channel webhook: {why}"]


async def test_a_channel_whose_secret_is_none_does_not_repeat_it(tmp_path: Path) -> None:
    (tmp_path / "urls").write_text(f"# {MARK}\n")
    table = {"name": "team", "url_file": "urls"}

    channel = await opened("team", settings(apprise=[table]), tmp_path)

    with pytest.raises(Misconfigured) as caught:
        await channel.send(notice(channel="team"))
    assert MARK not in str(caught.value)


def test_a_file_is_looked_for_among_the_credentials_and_then_in_the_data_dir(
    tmp_path: Path,
) -> None:
    credentials, data = tmp_path / "credentials", tmp_path / "data"
    for directory in (credentials, data):
        directory.mkdir()
        (directory / "both").write_text(directory.name)
    (data / "one").write_text(" data \n")
    (tmp_path / "elsewhere").write_text("full path")

    assert secret("both", (credentials, data)) == "credentials"
    assert secret("one", (credentials, data)) == "data"
    assert secret(str(tmp_path / "elsewhere"), (credentials, data)) == "full path"


def missing(path: Path) -> None:
    """Leave nothing there."""


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (missing, "No such file or directory"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.write_text(" \n"), "contains no secret"),
        (lambda path: path.write_text(MARK * MAX_SECRET_BYTES), "contains no secret"),
        (lambda path: path.write_bytes(MARK.encode() + b"\xff"), "is not UTF-8"),
    ],
)
def test_what_is_no_secret_is_said_of_the_file_and_not_of_its_content(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    make(tmp_path / "file")

    with pytest.raises(Misconfigured) as caught:
        secret("file", (tmp_path / "none", tmp_path))

    said = str(caught.value)
    assert f"{tmp_path}/file" in said
    assert why in said
    assert MARK not in said


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_an_error_of_the_channel(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misconfigured, match="cannot read"):
        secret(name, (tmp_path,))
