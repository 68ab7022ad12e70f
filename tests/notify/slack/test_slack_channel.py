"""The channel within one process, where time can pass and the journal can wait."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import anyio
import pytest
from anyio.to_thread import run_sync

from safetyd.core.events.request_events import Answered
from safetyd.journal.mailbox import Envelope
from safetyd.notify.button_channel import NOT_RECORDED
from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.notify.slack import slack_channel, slack_socket
from safetyd.notify.slack.channel import SlackConfig
from safetyd.notify.slack.slack_api import SlackApi
from safetyd.notify.slack.slack_channel import Slack as Channel
from safetyd.notify.slack.slack_message import written
from tests.notify.channel_context import context
from tests.notify.http_receivers import ntfy, receiving
from tests.notify.message_samples import notice
from tests.notify.notifier_rig import NotifierRig
from tests.notify.slack.slack_stand_in import (
    APP_TOKEN,
    BOT_TOKEN,
    RATE_LIMITED,
    Hang,
    Shown,
    Slack,
    SlackError,
    slack,
    table,
)
from tests.servers import until

ALICE: Final = "U00ALICE"
T = TypeVar("T")


@pytest.fixture
def app() -> Iterator[Slack]:
    with slack() as api:
        yield api


class Site(NamedTuple):
    """A notifier at work, and the message that it sent about one request."""

    rig: NotifierRig
    message: Shown

    @property
    def answers(self) -> int:
        return len(self.rig.wired.journalled(Answered))


@asynccontextmanager
async def asked(app: Slack, data_dir: Path, *tables: str) -> AsyncIterator[Site]:
    rig = notifier(app, data_dir, *tables)
    async with rig.at_work():
        await run_sync(app.connected)
        rig.wired.asks("p1", timeout_s=86_400)
        rig.wired.passes()
        (message,) = await run_sync(app.wait)
        await rig.wired.rest()
        yield Site(rig, message)


def notifier(app: Slack, data_dir: Path, *tables: str) -> NotifierRig:
    (data_dir / "bot").write_text(BOT_TOKEN)
    (data_dir / "app").write_text(APP_TOKEN)
    return NotifierRig(data_dir, table(app, "bot", "app", f'"{ALICE}"'), *tables)


async def seen(wait: Callable[[Any], T], what: Any) -> T:
    return await run_sync(wait, what)


async def test_a_tap_that_slack_delivers_again_answers_once(app: Slack, tmp_path: Path) -> None:
    async with asked(app, tmp_path) as site:
        press = app.tap(ALICE, site.message, "Approve")
        assert await seen(app.told, press) == "Approved."
        app.repeat(press)
        await seen(app.until, lambda: app.acked.count(press.envelope) == 2)
        await seen(app.edited, site.message)

    assert site.answers == 1
    assert app.whispers(ALICE) == ["Approved."]


async def test_what_is_not_an_answer_is_only_acknowledged(app: Slack, tmp_path: Path) -> None:
    async with asked(app, tmp_path) as site:
        review = app.forge(ALICE, "", site.message.channel).envelope  # a button that opens a URL
        unknown = app.deliver("events_api", {"event": {"type": "team_join", "user": {"id": "U1"}}})
        await seen(app.until, lambda: {review, unknown} <= set(app.acked))

    assert (site.answers, app.whispers(ALICE)) == (0, [])


async def test_a_tap_is_acknowledged_only_once_its_answer_is_durable(
    app: Slack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.ack_s = 0.05
    async with asked(app, tmp_path) as site:
        mailbox, held = site.rig.wired.mailbox, list[Envelope]()
        put = mailbox.put
        monkeypatch.setattr(mailbox, "put", held.append)  # the journal waits
        press = app.tap(ALICE, site.message, "Approve")
        await seen(app.until, lambda: app.delivered(press.envelope) > 2)

        assert len(held) == 1
        assert app.acked == []
        monkeypatch.undo()
        put(*held)
        assert await seen(app.told, press) == "Approved."

    assert site.answers == 1


async def test_a_tap_that_slack_has_given_up_is_not_recorded_later(
    app: Slack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(app, tmp_path) as site:
        monkeypatch.setattr(slack_channel, "TAP_S", -1.0)  # the journal took longer
        late = app.tap(ALICE, site.message, "Approve")
        assert await seen(app.told, late) == NOT_RECORDED
        monkeypatch.undo()
        again = app.tap(ALICE, site.message, "Deny")
        assert await seen(app.told, again) == "Denied."

    assert site.answers == 1


async def test_a_connection_that_slack_renews_loses_no_tap(app: Slack, tmp_path: Path) -> None:
    async with asked(app, tmp_path) as site:
        await run_sync(app.disconnect)
        during = app.tap("U0STRANGER", site.message, "Deny")
        await seen(app.connected, 2)  # the next is opened before the other is closed
        press = app.tap(ALICE, site.message, "Approve")

        assert await seen(app.told, press) == "Approved."
        await seen(app.until, lambda: during.envelope in app.acked)

    assert app.failed == set()


async def test_a_connection_that_breaks_is_opened_again(
    app: Slack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "PING_S", 0.1)
    monkeypatch.setattr(slack_socket, "PAUSES_S", (0.05,))
    monkeypatch.setattr(slack_socket, "OVERLAP_S", 0.0)
    app.then = {"apps.connections.open": [SlackError("internal_error")]}
    async with asked(app, tmp_path) as site:
        app.then = {"apps.connections.open": [RATE_LIMITED, SlackError("fatal_error")]}
        app.drop()
        await seen(app.until, lambda: len(app.hellos) == 2)
        press = app.tap(ALICE, site.message, "Deny")

        assert await seen(app.told, press) == "Denied."


async def test_a_socket_that_is_refused_takes_no_messages_until_it_works(
    app: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "PAUSES_S", (0.05,))
    app.scopes["app"].clear()
    secrets = context(secrets={"bot": BOT_TOKEN, "app": APP_TOKEN})
    channel = await settings(app).open("slack", secrets)
    assert isinstance(channel, Channel)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.run)
        await seen(app.until, lambda: len(app.calls) >= 2)
        with pytest.raises(Misconfigured, match=r"cannot receive taps: .*connections:write"):
            await channel.send(notice(address=ALICE))
        app.scopes["app"].add("connections:write")
        await run_sync(app.connected)
        await until(lambda: not channel._socket.problem)
        receipt = await channel.send(notice(address=ALICE))
        tasks.cancel_scope.cancel()

    assert receipt.provider_id == f"D{ALICE}/{next(iter(app.messages))}"


async def test_messages_about_what_expired_say_so_and_keep_the_buttons_of_the_others(
    app: Slack, tmp_path: Path
) -> None:
    rig = notifier(app, tmp_path)
    async with rig.at_work():
        rig.wired.asks("p1", timeout_s=300)
        rig.wired.asks("p2", text="git push elsewhere", timeout_s=86_400)
        rig.wired.passes()
        await rig.wired.rest()
        ((_, message),) = app.messages.items()
        rig.wired.passes(400)
        after = await seen(app.edited, message)

    assert set(message.buttons) == {"Approve 1", "Deny 1", "Approve 2", "Deny 2"}
    assert after.text.startswith("Expired: push by ")
    assert "git push elsewhere" in after.text
    assert set(after.buttons) == {"Approve", "Deny"}


async def test_a_slack_that_hangs_delays_no_other_channel_and_leaves_no_connection(
    app: Slack, tmp_path: Path
) -> None:
    app.then = {method: [Hang()] * 9 for method in ("apps.connections.open", "conversations.open")}
    async with receiving(ntfy()) as server:
        topic = f'[notifications.ntfy]\nenabled = true\nurl = "{server.url}/topic"\n'
        rig = notifier(app, tmp_path, topic)
        async with rig.at_work():
            rig.wired.asks("p1")
            rig.wired.passes()
            await seen(app.until, lambda: len(app.calls) == 2)
            with anyio.fail_after(20):
                await server.arrived.wait()

    assert app.messages == {}
    assert app.hellos == []


async def test_another_program_with_the_same_app_is_noticed(
    app: Slack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "safetyd.notify"):
        async with asked(app, tmp_path), anyio.create_task_group() as tasks:
            secrets = context(secrets={"bot": BOT_TOKEN, "app": APP_TOKEN})
            other = await settings(app).open("slack", secrets)
            tasks.start_soon(other.run)
            await until(lambda: "another program uses the same Slack app" in caplog.text)
            tasks.cancel_scope.cancel()


def settings(app: Slack) -> SlackConfig:
    return SlackConfig(bot_token_file="bot", app_token_file="app", api_url=f"{app.url}/api")


@pytest.mark.parametrize(
    ("kind", "scope", "why"),
    [
        ("bot", "im:write", "the bot token has no scope im:write"),
        ("bot", "chat:write", "the bot token has no scope chat:write"),
        ("app", "connections:write", "missing_scope, needed: connections:write"),
    ],
)
async def test_the_doctor_names_the_scope_that_a_token_lacks(
    app: Slack, kind: str, scope: str, why: str
) -> None:
    tokens = {"bot": BOT_TOKEN, "app": APP_TOKEN}
    assert await settings(app).check(tokens.__getitem__) == "the tokens belong to @safetyd in Acme"

    app.scopes[kind].discard(scope)

    with pytest.raises(Misconfigured, match=why):
        await settings(app).check(tokens.__getitem__)


@pytest.mark.parametrize(
    ("error", "kind", "ambiguous"),
    [
        (SlackError("not_allowed_token_type"), Misconfigured, False),
        (SlackError("messages_tab_disabled"), Misconfigured, False),
        (SlackError("channel_not_found"), Undeliverable, False),
        (SlackError("msg_blocks_too_long"), Undeliverable, False),
        (SlackError("ratelimited", status=429, retry_after=30), Unavailable, False),
        (SlackError("service_unavailable", status=503), Unavailable, False),
        (SlackError("fatal_error"), Unavailable, True),
        (SlackError(f"echo {BOT_TOKEN} {APP_TOKEN}"), Undeliverable, False),
    ],
)
async def test_errors_say_what_to_do_with_the_message_and_contain_no_token(
    app: Slack, error: SlackError, kind: type[Exception], *, ambiguous: bool
) -> None:
    app.then = {"chat.postMessage": [error]}
    api = SlackApi(f"{app.url}/api", BOT_TOKEN, APP_TOKEN)

    with pytest.raises(kind) as raised:
        await api.send("C0001", written(notice(), lambda *_: "x"))

    assert getattr(raised.value, "ambiguous", False) is ambiguous
    assert getattr(raised.value, "retry_after_s", None) == (30.0 if error.headers else None)
    assert not any(secret in str(raised.value) for secret in (BOT_TOKEN, APP_TOKEN))


@pytest.mark.parametrize(
    ("address", "right"),
    [
        (ALICE, True),
        ("W012A3CDE", True),
        ("C012AB3CD", True),
        ("@alice", False),
        ("#general", False),
        ("u00alice", False),
        ("D012AB3CD", False),
    ],
)
def test_an_address_is_the_id_of_a_user_or_of_a_channel(address: str, *, right: bool) -> None:
    assert (SlackConfig.wrong_address(address) == "") is right
