"""A daemon, a stand-in of Slack, and people who tap buttons."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from safetyd.notify.button_channel import SAID, STRANGER, UNKNOWN
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker
from tests.journeys.delivery_targets import outbox, until
from tests.notify.slack.slack_stand_in import (
    APP_TOKEN,
    BOT_TOKEN,
    RATE_LIMITED,
    Shown,
    Slack,
    slack,
    table,
)

ALICE, BOB, UNKNOWN_USER = "U00ALICE", "U00BOB", "U0STRANGER"
TEAM: Final = "C00TEAM"
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
slack = "{ALICE}"
[[recipients]]
name = "bob"
slack = "{BOB}"
"""

Begin = Callable[..., RunningDaemon]


@pytest.fixture
def app() -> Iterator[Slack]:
    with slack() as api:
        yield api


@pytest.fixture
def begin(start_daemon: StartDaemon, app: Slack, tmp_path: Path) -> Begin:
    def begin(people: str = "", *, more: str = "") -> RunningDaemon:
        (tmp_path / "bot").write_text(f"{BOT_TOKEN}\n")
        (tmp_path / "app").write_text(f"{APP_TOKEN}\n")
        given = "[]" if people else f'"{ALICE}"'
        files = (str(tmp_path / "bot"), str(tmp_path / "app"))
        daemon = start_daemon(AT_ONCE + table(app, *files, given, more) + people)
        app.connected()
        return daemon

    return begin


def ask(daemon: RunningDaemon, app: Slack, id_: str = "p1", **fields: object) -> Shown:
    """Let an agent ask; return the message that comes of it."""
    before = len(app.messages)
    with Asker(daemon) as asker:
        assert asker.propose(id_, **fields)["status"] == "pending"
    return app.wait(before + 1)[-1]


@pytest.mark.parametrize(("label", "decision"), [("Approve", "allow"), ("Deny", "block")])
def test_a_tap_answers_the_agent_and_the_message_says_so(
    begin: Begin, app: Slack, label: str, decision: str
) -> None:
    daemon = begin()
    with Asker(daemon) as asker:
        answer = asker.wait_for("p1")
        (message,) = app.wait()
        press = app.tap(ALICE, message, label)
        said = asker.peer.heard(answer).fields
    after = app.edited(message)

    verb = {"Approve": "Approved", "Deny": "Denied"}[label]
    assert said["decision"] == decision
    assert app.told(press) == f"{verb}."
    assert "git push origin main" in message.text
    assert set(message.buttons) == {"Approve", "Deny"}
    assert after.text.startswith(f"{verb} by operator via link:slack")
    assert after.buttons == {}
    assert not any(secret in daemon.log() for secret in (BOT_TOKEN, APP_TOKEN, "ticket-"))
    (row,) = outbox(daemon)
    assert (row["state"], row["provider_id"]) == ("accepted", f"D{ALICE}/{message.ts}")


def test_only_the_recipient_can_answer(begin: Begin, app: Slack) -> None:
    daemon = begin(PEOPLE)
    ask(daemon, app)
    to_alice, to_bob = sorted(app.wait(2), key=lambda message: message.channel)
    app.members[to_alice.channel] |= {BOB, UNKNOWN_USER}

    refused = [
        app.told(app.tap(UNKNOWN_USER, to_alice, "Approve")),
        app.told(app.tap(UNKNOWN_USER, to_alice, "Approve")),
        app.told(app.tap(BOB, to_alice, "Approve")),
        app.told(app.forge(UNKNOWN_USER, "a" + "x" * 45, to_alice.channel)),
    ]
    forged = app.forge(ALICE, "a" + to_alice.buttons["Deny"][1:], to_alice.channel)

    assert refused == [STRANGER] * 4
    assert app.told(forged) == UNKNOWN
    assert daemon.log().count(f"user {UNKNOWN_USER}: not the recipient") == 1
    assert f"user {BOB}: not the recipient" in daemon.log()

    # The rightful one still can, once; the other person's message says who did.
    taps = [app.told(app.tap(ALICE, to_alice, "Approve")) for _ in range(2)]
    assert taps == ["Approved.", SAID["too_late"]]
    assert re.match(r"Approved by alice via link:slack", app.edited(to_bob).text)


def test_in_a_channel_only_listed_users_can_answer_and_links_are_not_shown(
    begin: Begin, app: Slack
) -> None:
    app.members[TEAM] = {ALICE, BOB, UNKNOWN_USER}
    people = f'[[recipients]]\nname = "team"\nslack = "{TEAM}"\n{PEOPLE}'
    daemon = begin(
        people.replace(f'slack = "{ALICE}"', f'slack = "{ALICE}"\nagents = ["x"]'),
        more=f'channel_users = ["{ALICE}"]',
    )
    ask(daemon, app)
    (message,) = [each for each in app.wait(2) if each.channel == TEAM]
    app.members[f"D{ALICE}"] = {ALICE}

    assert set(message.buttons) == {"Approve", "Deny"}
    assert "/d/" not in message.text
    assert "Code to approve" not in message.text
    assert app.told(app.tap(UNKNOWN_USER, message, "Approve")) == STRANGER
    assert app.told(app.tap(BOB, message, "Approve")) == STRANGER
    assert app.told(app.forge(ALICE, message.buttons["Approve"], f"D{ALICE}")) == STRANGER
    assert app.told(app.tap(ALICE, message, "Approve")) == "Approved."
    assert app.edited(message).text.startswith("Approved by alice via link:slack")


def test_a_tap_during_a_restart_is_refused_by_slack_or_answered_after_it(
    begin: Begin, app: Slack
) -> None:
    app.ack_s = 0.3
    daemon = begin()
    message = ask(daemon, app)
    until(lambda: outbox(daemon)[0]["state"] == "accepted", "the message to be recorded")

    daemon.kill()
    app.connected(0)
    lost = app.tap(ALICE, message, "Approve")
    app.until(lambda: lost.envelope in app.failed)
    daemon.start()
    app.connected()
    app.repeat(lost)

    assert app.told(lost) == "Approved."
    assert app.edited(message).text.startswith("Approved by operator")
    late = app.tap(ALICE, message, "Deny")
    assert app.told(late) == SAID["too_late"]


def test_limits_of_rate_delay_messages_and_taps_and_lose_none(begin: Begin, app: Slack) -> None:
    methods = ("chat.postMessage", "chat.update", "apps.connections.open")
    app.then = {method: [RATE_LIMITED] for method in methods}
    daemon = begin()

    message = ask(daemon, app)
    press = app.tap(ALICE, message, "Approve")

    assert app.told(press) == "Approved."
    assert app.edited(message).buttons == {}
    assert [method for method, _ in app.calls].count("chat.postMessage") == 2


def test_a_test_message_leads_back_and_the_doctor_knows_the_app(begin: Begin, app: Slack) -> None:
    daemon = begin()

    assert daemon.safetyd("notify", "test", "slack").returncode == 0
    (message,) = app.wait()
    press = app.tap(ALICE, message, "It works")
    visit = app.visit(UNKNOWN_USER)

    assert app.told(press).startswith("It works")
    assert outbox(daemon)[0]["opened_at"] is not None
    assert "slack: the tokens belong to @safetyd in Acme" in daemon.safetyd("doctor").stdout
    assert "[Approve] [Deny]" in daemon.safetyd("notify", "preview").stdout
    app.until(lambda: visit in app.acked)
    assert f'set slack = "{UNKNOWN_USER}"' in daemon.log()


def test_a_scope_that_is_missing_parks_the_channel_and_a_hint_says_what_to_do(
    begin: Begin, app: Slack
) -> None:
    app.scopes["bot"].discard("chat:write")
    daemon = begin()

    said = daemon.safetyd("notify", "test", "slack").stdout

    assert "127.0.0.1 answered missing_scope, needed: chat:write" in said
    assert "add the scope" in said
    assert outbox(daemon)[0]["state"] == "parked"
    assert app.messages == {}
