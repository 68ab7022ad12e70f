"""Messages that operators look at before anything is sent."""

from typing import Any

import msgspec
import pytest

from safetyd.core.recipients import QuietHours
from safetyd.notify.channel_config import CHANNELS, NotificationsConfig
from safetyd.notify.preview import Previews
from safetyd.operators.contract.notification_contract import PreviewQuestion
from safetyd.operators.replies import Refusal
from safetyd.operators.views.paging import PAGE_BYTES
from tests.notify.compose_rig import ComposeRig, telling
from tests.operators.views.view_reader import plain

NIGHT = 11 * 3600.0  # after noon


def looks(wired: ComposeRig, **asked: Any) -> dict[str, Any]:
    chats = [
        {"name": name, "url_file": "f"}
        for name in wired.engine.policy.telling.channels
        if name not in CHANNELS
    ]
    settings = msgspec.convert({"apprise": chats}, NotificationsConfig)
    samples = Previews(wired.composer, lambda: settings)
    return plain(samples.previews(wired.engine, wired.clock.now(), PreviewQuestion(**asked)))


def look(wired: ComposeRig, **asked: Any) -> dict[str, Any]:
    (row,) = looks(wired, **asked)["previews"]
    row_: dict[str, Any] = row
    return row_


@pytest.mark.req("S3.30")
def test_a_sample_is_shown_as_each_channel_would_say_it() -> None:
    rows = looks(ComposeRig(telling("email", "sms", "webhook", "desktop", "team")))["previews"]

    assert [row["channel"] for row in rows] == ["email", "sms", "webhook", "desktop", "team"]
    for row in rows:
        assert "push" in row["text"]
        assert row["size"]
    assert [bool(row["html"]) for row in rows] == [True, False, False, False, False]


def test_one_channel_is_shown_if_it_is_named() -> None:
    wired = ComposeRig(telling("email", "sms"))

    assert look(wired, channel="sms")["channel"] == "sms"


def test_a_channel_that_does_not_exist_is_refused_and_the_others_are_named() -> None:
    some, none = (
        ComposeRig(telling("email", "sms")),
        ComposeRig(telling(recipients=(), channels={})),
    )

    assert looks(some, channel="fax")["error"] == "'fax' is not one of email, sms"
    assert looks(none, channel="fax")["error"] == "'fax' is not one of no channels"
    assert looks(none) == {"ok": True, "previews": []}


def test_a_request_is_shown_as_it_is_with_its_own_urgency() -> None:
    wired = ComposeRig()
    ref = wired.asks(text="git push origin here", urgency="high")

    row = look(wired, request=ref[:12])

    assert "git push origin here" in row["text"]
    assert row["when"].startswith("immediately")


def test_a_request_that_nobody_knows_is_refused() -> None:
    assert looks(ComposeRig(), request="req_none")["code"] == "not_found"


def test_a_batch_shows_as_many_as_a_message_does_and_counts_the_rest() -> None:
    many, one = look(ComposeRig(), batch=25), look(ComposeRig(), batch=1)

    assert many["text"].count("push by nightly") == 25
    assert "https://safety.example.com/d/dlv_0000000000000000//alice" in many["text"]
    assert "https://safety.example.com/d/dlv_0000000000000000//alice" not in one["text"]


def test_a_batch_of_one_request_shows_it_several_times() -> None:
    wired = ComposeRig()
    ref = wired.asks(text="git push origin here")

    row = look(wired, request=ref, batch=3)

    assert row["text"].count("git push origin here") >= 3


def test_what_many_channels_would_say_fits_into_an_answer() -> None:
    wired = ComposeRig(telling("email", *(f"team-{n}" for n in range(200))))

    rows = looks(wired, batch=20)["previews"]

    assert 0 < len(rows) < 201
    assert sum(len(row["text"]) for row in rows) < PAGE_BYTES


@pytest.mark.req("S3.30")
@pytest.mark.parametrize(
    ("t", "urgency", "bypass", "when"),
    [
        (0.0, "normal", "high", "in one message with other requests within 60 s"),
        (NIGHT, "normal", "high", "quiet hours: in one digest at 07:00"),
        (NIGHT, "high", "high", "immediately, even in quiet hours"),
        (0.0, "high", "none", "at once"),
        (NIGHT, "high", "none", "quiet hours: in one digest at 07:00"),
    ],
)
def test_it_is_said_when_a_message_would_be_sent(
    t: float, urgency: str, bypass: str, when: str
) -> None:
    wired = ComposeRig(telling("email", quiet=QuietHours(), quiet_bypass=bypass))
    wired.clock.t = t

    assert look(wired, urgency=urgency)["when"] == when


@pytest.mark.parametrize(
    ("urgency", "ladder"),
    [
        ("low", ["reminders at 09:00 and 16:00"]),
        ("normal", ["reminders at 09:00 and 16:00"]),
        ("high", ["next channel at 12:05", "reminder at 12:15, and to the backup"]),
    ],
)
def test_it_is_said_what_follows_if_nobody_answers(urgency: str, ladder: list[str]) -> None:
    assert look(ComposeRig(), urgency=urgency)["ladder"] == ladder


def test_a_preview_that_cannot_be_made_is_refused_and_ends_nothing() -> None:
    wired = ComposeRig(telling("email"))

    def broken() -> NotificationsConfig:
        raise LookupError("no words for this")

    samples = Previews(wired.composer, broken)
    answer = samples.previews(wired.engine, wired.clock.now(), PreviewQuestion())

    assert isinstance(answer, Refusal)
    assert answer.code == "failed"
