"""What a message says of itself, for every channel the same."""

import pytest

from safetyd.core.events.notification_events import ItemKind
from safetyd.notify.message import Prefix
from tests.notify.message_samples import alert_topic, notice, request_topic


@pytest.mark.parametrize("kind", ["request", "reminder", "last_call"])
def test_what_wants_an_answer_is_counted_as_a_request(kind: ItemKind) -> None:
    topic = request_topic(kind=kind)

    assert (topic.asks, topic.sort, topic.high) == (True, "request", True)


@pytest.mark.parametrize("kind", ["expired", "alert", "summary", "test"])
def test_what_is_only_to_be_known_asks_for_nothing(kind: ItemKind) -> None:
    topic = alert_topic(kind=kind)

    assert (topic.asks, topic.sort, topic.high) == (False, kind, False)


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        ("request", Prefix()),
        ("reminder", Prefix("Reminder: ", "Reminder: ", "still waiting: ")),
        ("last_call", Prefix("Last call: ", "Last call: ", "last call: ")),
        ("expired", Prefix("Expired without an answer: ", "Expired: ", "expired: ")),
        ("alert", Prefix()),
    ],
)
def test_a_prefix_says_which_of_several_messages_it_is(kind: ItemKind, prefix: Prefix) -> None:
    assert request_topic(kind=kind).prefix == prefix


def test_counts_name_requests_first_and_how_many_more_there_are() -> None:
    expired = [request_topic(kind="expired")] * 2
    told = notice(alert_topic(), *expired, request_topic(), request_topic(kind="reminder"))
    many = notice(*told.topics, more=1200)

    assert told.counted() == ["2 requests waiting", "2 requests expired", "1 alert"]
    assert told.counted(short=True) == ["2 requests waiting", "2 expired", "1 alert"]
    assert (told.rest, many.rest) == ("", "+1,200 more")
    assert (many.counted()[-1], many.counted(short=True)[-1]) == ("1,200 more", "1200 more")


def test_a_topic_says_how_often_it_happened_and_how_dangerous_it_is() -> None:
    assert (alert_topic().times, alert_topic(count=3).times) == ("", " (3 times)")
    assert alert_topic().danger == ""
    assert request_topic(reversibility="unknown").danger == (
        "high, nobody knows whether it can be undone"
    )
