"""What a Slack message shows, and which buttons it has."""

import json
from typing import Any

import pytest

from safetyd.notify.message import Notice
from safetyd.notify.sanitize import harmless
from safetyd.notify.shortening import in_units
from safetyd.notify.slack.slack_message import MAX_UNITS, SlackMessage, written
from tests.notify.message_samples import (
    CODE,
    HOSTILE,
    LINK,
    LIST_LINK,
    alert_topic,
    notice,
    request_topic,
    whole_topic,
)
from tests.notify.slack.slack_stand_in import Shown, shown

TOKEN = "1k" + "x" * 43


def message(notice_: Notice, *ends: str, **fields: bool) -> SlackMessage:
    return written(notice_, lambda does, ref: does + TOKEN, ends, **fields)


def seen(made: SlackMessage) -> Shown:
    """Return what a reader sees; fail if Slack would refuse the message."""
    blocks = json.loads(json.dumps(made.blocks))
    return shown({"channel": "D1", "text": made.summary, "blocks": blocks}, "1.0", 0)


def labels(notice_: Notice, **fields: bool) -> list[str]:
    return list(seen(message(notice_, **fields)).buttons)


def test_a_whole_request_can_be_approved_denied_and_looked_at() -> None:
    one = seen(message(notice(whole_topic())))

    assert list(one.buttons) == ["Approve", "Deny", "Review"]
    assert (one.buttons["Review"], one.links) == (LINK, [LINK])
    assert labels(notice(whole_topic(), here_only=True)) == ["Approve", "Deny"]


@pytest.mark.parametrize(
    "fields",
    [
        {"code": ""},  # not shown whole, or of a type that only a terminal approves
        {"text": "x" * 4096},
    ],
)
def test_what_a_message_leaves_out_it_does_not_approve(fields: dict[str, Any]) -> None:
    assert labels(notice(whole_topic(**fields))) == ["Deny", "Review"]
    assert labels(notice(whole_topic(**fields)), public=True) == ["Deny"]


def test_each_of_several_requests_has_its_own_numbered_buttons() -> None:
    several = notice(whole_topic(), alert_topic(), whole_topic(id="req_2"))

    assert labels(several) == ["Approve 1", "Deny 1", "Approve 3", "Deny 3"]


def test_a_message_in_a_channel_has_no_link_and_no_code_in_it() -> None:
    for made in (notice(whole_topic()), notice(whole_topic(), alert_topic(), whole_topic())):
        public = message(made, public=True)

        assert "Approve" in " ".join(seen(public).buttons)
        assert not any(secret in str(public) for secret in (LINK, LIST_LINK, CODE))
        assert labels(made, public=True, answers=False) == []


@pytest.mark.parametrize("text", ["a" * 500, "😀" * 250, "\n".join(["> <b>&amp;</b>"] * 20)])
def test_twenty_requests_fit_with_their_buttons(text: str) -> None:
    topics = [whole_topic(id=f"req_{number}", text=text) for number in range(20)]
    for made in (message(notice(*topics)), message(notice(topics[0]), "Denied by alice")):
        assert in_units(made.text) <= MAX_UNITS
        assert seen(made).buttons


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_agents_words_are_text_and_nothing_else(hostile: str) -> None:
    said = harmless(hostile, 500).text
    made = message(notice(whole_topic(text=said, agent=said[:60], why=said)))

    one = seen(made)
    assert one.links == [LINK]
    assert not set("<>") & set(made.summary)
    block: Any = made.blocks[0]
    elements = block["elements"]
    quoted = [each for each in elements if each["type"] == "rich_text_preformatted"]
    assert all(
        line.startswith(">") for each in quoted for line in each["elements"][0]["text"].split("\n")
    )


def test_what_is_over_is_said_first() -> None:
    made = seen(message(notice(request_topic(link="", commands=())), "Denied by alice via cli"))

    assert made.text.startswith("Denied by alice via cli\n")
    assert made.buttons == {}
