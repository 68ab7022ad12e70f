"""What a Telegram message says, and which buttons it has."""

from typing import Any

import pytest

from safetyd.notify.message import Notice
from safetyd.notify.shortening import in_units
from safetyd.notify.telegram.telegram_message import MAX_UNITS, TelegramMessage, written
from tests.notify.message_samples import alert_topic, notice, request_topic, whole_topic


def message(shown: Notice, *ends: str) -> TelegramMessage:
    return written(shown, lambda does, ref: does + ref, ends)


def labels(shown: Notice) -> list[list[str]]:
    return [[button.text for button in row] for row in message(shown).keyboard]


def test_a_whole_request_can_be_approved_denied_and_looked_at() -> None:
    assert labels(notice(whole_topic())) == [["Approve", "Deny", "Review"]]
    assert labels(notice(whole_topic(), here_only=True)) == [["Approve", "Deny"]]


@pytest.mark.parametrize(
    "fields",
    [
        {"code": ""},  # not shown whole, or of a type that only a terminal approves
        {"text": "x" * 4096},
    ],
)
def test_what_a_message_leaves_out_it_does_not_approve(fields: dict[str, Any]) -> None:
    assert labels(notice(whole_topic(**fields))) == [["Deny", "Review"]]


def test_each_of_several_requests_has_its_own_numbered_buttons() -> None:
    several = notice(whole_topic(), alert_topic(), whole_topic(id="req_2"))

    assert labels(several) == [
        ["Approve 1", "Deny 1", "Review 1"],
        ["Approve 3", "Deny 3", "Review 3"],
    ]


@pytest.mark.parametrize("text", ["a" * 500, "😀" * 250, "\n".join(["> <b>&amp;</b>"] * 20)])
def test_a_message_fits_and_marks_the_agents_words(text: str) -> None:
    topics = [whole_topic(id=f"req_{number}", text=text) for number in range(20)]
    for shown in (message(notice(*topics)), message(notice(topics[0]), "Denied by alice")):
        encoded = shown.text.encode("utf-16-le")
        bold, *quoted = (
            encoded[2 * each.offset : 2 * (each.offset + each.length)].decode("utf-16-le")
            for each in shown.entities
        )

        assert in_units(shown.text) <= MAX_UNITS
        assert shown.text.startswith(bold)
        assert all(line.startswith(">") for part in quoted for line in part.split("\n"))
        assert len("\n".join(quoted)) == sum(
            len(line) + 1 for line in shown.text.split("\n") if line.startswith(">")
        ) - bool(quoted)


def test_what_is_over_is_said_first() -> None:
    shown = message(notice(request_topic(link="", commands=())), "Denied by alice via cli")

    assert shown.text.startswith("Denied by alice via cli\n")
    assert shown.keyboard == ()
