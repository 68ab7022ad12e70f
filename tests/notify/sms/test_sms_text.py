from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.notify.message import Notice, Privacy
from safetyd.notify.sanitize import harmless, one_line
from safetyd.notify.sms.gsm import BASIC, EXTENDED, segments, septets
from safetyd.notify.sms.sms_text import text_of
from tests.notify.message_samples import (
    AT,
    HOSTILE,
    LINK,
    LIST_LINK,
    REQUEST,
    alert_topic,
    notice,
    request_topic,
    whole_topic,
)

REPLY = "or reply A 4821 / D 4821"
DENIAL = "code 4821 or reply D 4821"
REQUEST_ID = "req_0123456789ab"
# What becomes an address only when its accents and pictures are gone.
ACCENTED = (
    "see \u0125ttps://evil.example/x",
    "see https\U0001f680://evil.example/x",
    "www\u0307.evil.example",
    "evil.\u0107om and evil.c\u0301om/x",
    "evil\uff0ecom and evil.\u0301com",
)
LIVE = ("http://", "https://", "www.e", "evil.c", "evil.e", "javascript:", "@example.c")


def cheap(text: str) -> bool:
    return (BASIC | EXTENDED).issuperset(text) and segments(text) <= 2


def test_a_request_is_one_segment() -> None:
    text = text_of(notice(request_topic(target="", until=None)))

    assert text == f"safetyd HIGH: push by code. {LINK} {DENIAL}"
    assert septets(text) <= 160


def test_what_a_reply_may_approve_is_shown_whole() -> None:
    text = text_of(notice(whole_topic()))

    assert text == (f'safetyd HIGH: push "git push --force origin main" by code. {LINK} {REPLY}')


@pytest.mark.parametrize(
    ("topic", "fields"),
    [
        ({"by_reply": False}, {}),
        ({"cut": 1}, {}),
        ({"text": "x" * 190}, {}),
        ({"text": "echo `id`"}, {}),
        ({}, {"privacy": "summary"}),
    ],
)
def test_a_reply_only_denies_what_is_not_shown_whole(
    topic: dict[str, object], fields: dict[str, Any]
) -> None:
    text = text_of(notice(whole_topic(**topic), **fields))

    assert text.endswith(f"{LINK} {DENIAL}")
    assert "reply A" not in text
    assert cheap(text)


@pytest.mark.parametrize(
    ("topic", "fields"), [({"code": ""}, {}), ({}, {"here_only": True}), ({"link": ""}, {})]
)
def test_no_reply_is_asked_for_that_could_not_be_heard(
    topic: dict[str, object], fields: dict[str, Any]
) -> None:
    assert "reply" not in text_of(notice(whole_topic(**topic), **fields))


def test_its_target_is_quoted_as_far_as_it_fits() -> None:
    whole = text_of(notice(request_topic(target='the "main" branch')))
    cut = text_of(notice(request_topic(target="far too long " * 9)))
    none = text_of(
        notice(request_topic(target="main branch", agent="a-name-with-no-room-beside-it"))
    )

    assert whole.startswith("safetyd HIGH: push \"the 'main' branch\" by code. https://")
    assert cut.startswith('safetyd HIGH: push "far too long far too long fa..." by code. https')
    assert septets(cut) <= 160
    assert none.startswith("safetyd HIGH: push by a-name-with-no-room-beside-it. https://")


@pytest.mark.parametrize(
    ("hours", "until"),
    [(1, "until 15:02."), (24, "until Tue 14:02."), (24 * 30, "until 1 Apr."), (None, "by code.")],
)
def test_its_end_is_told_if_there_is_room(hours: int | None, until: str) -> None:
    end = None if hours is None else AT + timedelta(hours=hours)

    text = text_of(notice(request_topic(target="", until=end)))

    assert until in text


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [
        ("request", 'safetyd: push "main" by code'),
        ("reminder", 'safetyd: still waiting: push "main" by code'),
        ("last_call", 'safetyd: last call: push "main" by code'),
        ("expired", 'safetyd: expired: push "main" by code. http'),
    ],
)
def test_it_says_why_it_comes(kind: str, beginning: str) -> None:
    topic = request_topic(kind=kind, urgency="normal", target="main")

    assert text_of(notice(topic)).startswith(beginning)


def test_what_is_over_is_only_told() -> None:
    over = request_topic(kind="expired", link="", code="", commands=())

    assert text_of(notice(over)) == 'safetyd HIGH: expired: push "example/repo main" by code.'


def test_without_a_public_address_it_is_answered_at_a_terminal() -> None:
    commands = (
        f"safetyd approve {REQUEST_ID} --digest 9f3c1a20b7de",
        f"safetyd deny {REQUEST_ID}",
    )
    asked = request_topic(commands=commands, target="")

    here = text_of(notice(asked, here_only=True))
    unlinked = text_of(notice(request_topic(commands=commands, target="", link="")))

    assert here == unlinked
    assert here.endswith(f"{commands[0]} or {commands[1]}")
    assert septets(here) <= 160


@pytest.mark.parametrize("link", ["https://example.com/" + "x" * 200, "https://бцд.example/d/1"])
def test_an_address_that_would_be_dear_is_left_out(link: str) -> None:
    text = text_of(notice(request_topic(link=link)))

    assert "https" not in text
    assert f"safetyd approve {REQUEST} --digest" in text


def test_what_needs_a_terminal_can_be_looked_at() -> None:
    text = text_of(notice(request_topic(code="")))

    assert text.endswith(f"{LINK} (approve at a terminal)")


def test_a_sender_that_cannot_be_answered_gives_the_code() -> None:
    assert text_of(notice(), replies=False).endswith(f"{LINK} code 4821")


def test_an_alert_says_first_how_bad_it_is() -> None:
    assert text_of(notice(alert_topic())) == (
        "safetyd CRITICAL: error rate of code. "
        "9 of the last 10 actions failed. Everything is stopped."
    )


def test_an_alert_is_one_segment() -> None:
    text = text_of(notice(alert_topic(title="The mail server is away", text="so " * 99, count=3)))
    long = text_of(notice(alert_topic(title="so " * 99)))
    silent = text_of(notice(alert_topic(text="")))

    assert text.startswith("safetyd: The mail server is away (3 times). so so")
    assert septets(text) <= 160
    assert long.endswith("s...")
    assert cheap(long)
    assert silent == "safetyd CRITICAL: error rate of code."


def test_a_test_says_that_it_is_one() -> None:
    test = alert_topic(kind="test", title="Hello from safetyd", text="", link=LINK)

    assert text_of(notice(test)) == f"safetyd TEST: Hello from safetyd. {LINK}"


def test_many_are_counted() -> None:
    asked = (request_topic(), request_topic(kind="reminder"), request_topic(urgency="low"))
    others = (request_topic(kind="expired"), alert_topic(), alert_topic())

    text = text_of(notice(*asked, *others, more=5, held_back=2, digest=True))

    assert text == (
        "safetyd HIGH: 3 requests waiting (2 high), 1 expired, 2 alerts, 5 more, "
        f"2 less urgent not sent. {LIST_LINK}"
    )
    assert septets(text) <= 306


def test_only_requests_of_one_urgency_are_counted_together() -> None:
    low = request_topic(urgency="low")

    assert text_of(notice(low, low)).startswith("safetyd: 2 requests waiting, first push")


def test_of_many_the_first_has_its_name_where_there_is_room_and_trust() -> None:
    first, other = request_topic(agent="deployer"), request_topic(agent="made-up")
    named = text_of(notice(alert_topic(), first, other))
    long_ago = "https://safety.example.com/d/" + "x" * 110

    assert (
        named == f"safetyd HIGH: 2 requests waiting, 1 alert, first push by deployer. {LIST_LINK}"
    )
    for less in (notice(first, other, privacy="minimal"), notice(first, other, list_link=long_ago)):
        assert "deployer" not in text_of(less)
    assert text_of(notice(alert_topic(), alert_topic())).startswith("safetyd HIGH: 2 alerts.")


@pytest.mark.parametrize(
    ("told", "end"),
    [
        (notice(request_topic(), request_topic(), here_only=True), ". safetyd list"),
        (notice(request_topic(), request_topic(), list_link=""), ". safetyd list"),
        (notice(request_topic(), alert_topic(), list_link=""), f". {LINK} (approve at a terminal)"),
        (notice(request_topic(), alert_topic(), list_link="", more=1), ". safetyd list"),
        (notice(alert_topic(), alert_topic(), list_link=""), "2 alerts."),
    ],
)
def test_many_are_looked_at_where_that_can_be(told: Notice, end: str) -> None:
    assert text_of(told).endswith(end)


@pytest.mark.parametrize(
    ("privacy", "text"),
    [
        ("summary", f"safetyd HIGH: push by code until Tue 14:02. {LINK} {DENIAL}"),
        ("minimal", f"safetyd HIGH: 1 request waiting. {LINK} code 4821"),
    ],
)
def test_a_request_says_no_more_than_it_may(privacy: Privacy, text: str) -> None:
    assert text_of(notice(privacy=privacy)) == text


def test_an_alert_says_no_more_than_it_may() -> None:
    alert = alert_topic()

    assert text_of(notice(alert, privacy="summary")) == "safetyd CRITICAL: error rate of code."
    assert text_of(notice(alert, privacy="minimal")) == "safetyd HIGH: 1 alert."


@pytest.mark.parametrize("words", [*HOSTILE, *ACCENTED], ids=lambda words: ascii(words)[:30])
def test_the_words_of_agents_do_no_harm(words: str) -> None:
    line, text = one_line(words, 160), harmless(words).text
    asked = text_of(notice(request_topic(action=line, target=line, agent=line)))
    told = text_of(notice(alert_topic(title=line, text=text)))

    for shown in (asked.replace(LINK, ""), told):
        assert cheap(shown)
        assert not any(char in shown for char in "\n\r\f")
        assert not any(live in shown.lower() for live in LIVE)
    assert cheap(asked)
    assert asked.endswith(f" {LINK} {DENIAL}")


@given(st.text(max_size=400), st.sampled_from(["full", "summary", "minimal"]))
def test_no_message_is_more_than_two_segments(words: str, privacy: Privacy) -> None:
    line = one_line(words, 160)
    topics = (
        request_topic(action=line, target=line, agent=line),
        whole_topic(action=line, text=line, agent=line),
        alert_topic(title=line, text=words),
    )

    for topic in topics:
        assert cheap(text_of(notice(topic, privacy=privacy)))
        assert cheap(text_of(notice(topic, privacy=privacy, here_only=True)))
