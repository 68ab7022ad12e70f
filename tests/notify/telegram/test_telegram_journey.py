"""A daemon, a stand-in of Telegram's Bot API, and people who tap buttons."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from safetyd.notify.button_channel import SAID, UNKNOWN
from safetyd.notify.button_channel import STRANGER as STRANGER_SAID
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, review
from tests.journeys.delivery_targets import outbox, until
from tests.notify.telegram.bot_stand_in import TOKEN, BotError, Shown, Telegram, table, telegram

ALICE, BOB, STRANGER = 4711, 4712, 666
AT_ONCE: Final = """
[notifications]
strategy = "all"
batch_interval_seconds = 0
patience_minutes = []
next_person_minutes = 0
quiet_start = "00:00"
quiet_end = "00:00"
"""
PEOPLE: Final = f"""
[[recipients]]
name = "alice"
telegram = "{ALICE}"
[[recipients]]
name = "bob"
telegram = "{BOB}"
[[recipients]]
name = "night-shift"
telegram = "{ALICE}"
"""

Begin = Callable[..., RunningDaemon]


@pytest.fixture
def bot() -> Iterator[Telegram]:
    with telegram() as api:
        yield api


@pytest.fixture
def begin(start_daemon: StartDaemon, bot: Telegram, tmp_path: Path) -> Begin:
    def begin(people: str = "", token: str = TOKEN) -> RunningDaemon:
        (tmp_path / "token").write_text(f"{token}\n")
        own = table(bot, str(tmp_path / "token"), "[]" if people else f'"{ALICE}"')
        return start_daemon(AT_ONCE + own + people)

    return begin


def ask(daemon: RunningDaemon, bot: Telegram, id_: str = "p1", **fields: object) -> Shown:
    """Let an agent ask; return the message that comes of it."""
    before = len(bot.messages)
    with Asker(daemon) as asker:
        assert asker.propose(id_, **fields)["status"] == "pending"
    return bot.wait(before + 1)[-1]


def metrics(daemon: RunningDaemon) -> str:
    with urlopen(f"{daemon.endpoint.web}/metrics", timeout=10) as response:
        text: str = response.read().decode()
    return text


@pytest.mark.parametrize(("label", "decision"), [("Approve", "allow"), ("Deny", "block")])
def test_a_tap_answers_the_agent_and_the_message_says_so(
    begin: Begin, bot: Telegram, label: str, decision: str
) -> None:
    daemon = begin()
    with Asker(daemon) as asker:
        answer = asker.wait_for("p1")
        (message,) = bot.wait()
        query = bot.tap(ALICE, message, label)
        said = asker.peer.heard(answer).fields
    after = bot.edited(message)

    verb = {"Approve": "Approved", "Deny": "Denied"}[label]
    assert said["decision"] == decision
    assert bot.told(query) == f"{verb}."
    assert "git push origin main" in message.text
    assert set(message.buttons) == {"Approve", "Deny"}
    assert after.text.startswith(f"{verb} by operator via link:telegram")
    assert after.buttons == {}
    assert TOKEN not in daemon.log()
    (row,) = outbox(daemon)
    assert (row["state"], row["provider_id"]) == ("accepted", str(message.id))


def test_only_the_recipient_can_answer(begin: Begin, bot: Telegram) -> None:
    daemon = begin(PEOPLE)
    ask(daemon, bot)
    one, same, other = sorted(bot.wait(3), key=lambda message: message.chat)

    refused = [
        bot.tap(STRANGER, one, "Approve"),
        bot.tap(BOB, one, "Approve"),
        bot.forge(STRANGER, "a" + "x" * 45),
    ]
    forged = bot.forge(ALICE, "a" + one.buttons["Deny"][1:])
    said = [bot.told(query) for query in refused]

    assert said == [STRANGER_SAID] * 3
    assert bot.told(forged) == UNKNOWN
    assert 'safetyd_notify_refused_answers{channel="telegram"} 3.0' in metrics(daemon)
    assert f"user {STRANGER}: not the recipient" in daemon.log()

    # The rightful one still can, once; the other person's message says who did.
    late = SAID["too_late"]
    taps = [bot.tap(ALICE, message, "Approve") for message in (one, one, same)]
    assert [bot.told(query) for query in taps] == ["Approved.", late, late]
    assert re.match(r"Approved by (alice|night-shift) via link:telegram", bot.edited(other).text)


def test_a_message_shows_that_somebody_answered_elsewhere(begin: Begin, bot: Telegram) -> None:
    daemon = begin()
    with Asker(daemon) as asker:
        request = asker.propose("p1")["request_id"]
    (message,) = bot.wait()

    assert review(daemon, "deny", request)["ok"]

    after = bot.edited(message)
    assert after.text.startswith("Denied by local via ")
    assert after.buttons == {}


def test_what_needs_a_terminal_says_so_and_has_no_approve_button(
    begin: Begin, bot: Telegram
) -> None:
    daemon = begin()

    message = ask(daemon, bot, type="purchase", text="buy a domain", cost_usd=12.0)
    denied = bot.tap(ALICE, message, "Deny")

    assert set(message.buttons) == {"Deny"}
    assert "safetyd approve req_" in message.text
    assert bot.told(denied) == "Denied."


def test_a_message_that_does_not_show_everything_has_no_approve_button(
    begin: Begin, bot: Telegram
) -> None:
    daemon = begin()

    long = ask(daemon, bot, "p1", text="git push origin " + "x" * 5000)
    beside = ask(daemon, bot, "p2", env={"GIT_SSH_COMMAND": "sh -c evil"})

    assert set(long.buttons) == {"Deny"}
    assert "characters of the exact text" in long.text
    assert set(beside.buttons) == {"Approve", "Deny"}
    assert "> env:\n>   GIT_SSH_COMMAND: sh -c evil" in beside.text


def test_a_tap_that_a_restart_interrupts_is_answered_after_it(begin: Begin, bot: Telegram) -> None:
    daemon = begin()
    message = ask(daemon, bot)
    until(lambda: outbox(daemon)[0]["state"] == "accepted", "the message to be recorded")

    daemon.kill()
    query = bot.tap(ALICE, message, "Approve")
    daemon.start()

    assert bot.told(query) == "Approved."
    assert bot.edited(message).text.startswith("Approved by operator")
    bot.until(lambda: not bot.taps)  # confirmed, so it is not read again


def test_limits_of_rate_and_outages_delay_messages_and_taps_and_lose_none(
    begin: Begin, bot: Telegram
) -> None:
    slow = BotError(429, "Too Many Requests: retry after 1", retry_after=1)
    bot.then = {"sendMessage": [slow], "getUpdates": [slow], "editMessageText": [slow]}
    daemon = begin()

    message = ask(daemon, bot)
    query = bot.tap(ALICE, message, "Approve")

    assert bot.told(query) == "Approved."
    assert bot.edited(message).buttons == {}
    assert len([method for method, _ in bot.calls if method == "sendMessage"]) == 2


def test_a_token_that_is_refused_parks_the_channel_and_is_not_repeated(
    begin: Begin, bot: Telegram
) -> None:
    wrong = "1234:AA-this-is-not-it"
    daemon = begin(token=wrong)
    with Asker(daemon) as asker:
        asker.propose("p1")

    until(lambda: any(row["state"] == "parked" for row in outbox(daemon)), "the channel to park")

    (error,) = {row["error"] for row in outbox(daemon)} - {""}
    assert error == "127.0.0.1 answered 401 Unauthorized; check the bot's token"
    assert wrong not in daemon.log()
    assert bot.messages == {}


def test_a_test_message_leads_back_and_the_doctor_knows_the_bot(
    begin: Begin, bot: Telegram
) -> None:
    daemon = begin()

    assert daemon.safetyd("notify", "test", "telegram").returncode == 0
    (message,) = bot.wait()
    query = bot.tap(ALICE, message, "It works")
    bot.write(STRANGER)

    assert bot.told(query).startswith("It works")
    assert outbox(daemon)[0]["opened_at"] is not None
    assert "telegram: the token belongs to @a_bot" in daemon.safetyd("doctor").stdout
    assert "[Approve] [Deny]" in daemon.safetyd("notify", "preview").stdout
    until(lambda: f'set telegram = "{STRANGER}"' in daemon.log(), "the log to name who wrote")
