import msgspec
import pytest

from safetyd.notify.channel import Misconfigured, Receipt, Unavailable, Undeliverable
from safetyd.notify.ntfy import channel as module
from safetyd.notify.ntfy.channel import Ntfy, NtfyConfig, publication, server_and_topic
from safetyd.notify.sanitize import harmless
from tests.notify.http_receivers import Reaction, ntfy, receiving
from tests.notify.message_samples import (
    DELIVERY,
    HOSTILE,
    LINK,
    LIST_LINK,
    alert_topic,
    notice,
    request_topic,
)

TOPIC = "watch-9f3c"
TOKEN = "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"  # not anybody's


def channel(url: str, token: str = "") -> Ntfy:
    return Ntfy(NtfyConfig(enabled=True, url=f"{url}/{TOPIC}"), token)


@pytest.mark.req("S3.27")
async def test_a_request_is_published_with_its_page() -> None:
    async with receiving(ntfy(TOKEN)) as server:
        receipt = await channel(server.url, f"{TOKEN}\n").send(notice())

    assert receipt == Receipt("accepted", "xE73Iyuabi")
    sent = server.posts[0].document
    assert LINK in sent.pop("message")
    assert sent == {
        "topic": TOPIC,
        "title": "HIGH: Approval needed: push by code",
        "priority": 5,
        "tags": ["safetyd", "high"],
        "sequence_id": DELIVERY,
        "click": LINK,
        "actions": [
            {"action": "view", "label": "Review", "url": LINK},
            {"action": "view", "label": "Deny", "url": f"{LINK}?i=d"},
        ],
    }


async def test_a_server_that_wants_no_token_gets_none() -> None:
    async with receiving(ntfy()) as server:
        channel_ = channel(server.url)
        await channel_.send(notice())
        await channel_.close()

    assert "Authorization" not in server.posts[0].headers


@pytest.mark.parametrize(("urgency", "priority"), [("low", 2), ("normal", 3), ("high", 5)])
def test_urgency_is_the_priority(urgency: str, priority: int) -> None:
    assert publication(notice(urgency=urgency), TOPIC).priority == priority


def test_no_button_decides_without_the_page() -> None:
    published = [
        publication(notice(request_topic(kind=kind)), TOPIC)
        for kind in ("request", "reminder", "last_call", "expired")
    ]

    actions = msgspec.to_builtins([each.actions for each in published])
    assert {action["action"] for each in actions for action in each} == {"view"}
    assert all(len(each) <= 3 for each in actions)


def test_several_open_their_list() -> None:
    several = publication(notice(request_topic(), alert_topic()), TOPIC)

    assert several.click == LIST_LINK
    assert [button.label for button in several.actions] == ["Review"]


def test_what_leads_nowhere_has_no_buttons() -> None:
    alert = publication(notice(alert_topic()), TOPIC)
    here_only = publication(notice(here_only=True), TOPIC)

    assert (alert.click, alert.actions) == ("", ())
    assert (here_only.click, here_only.actions) == ("", ())


@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_no_hostile_message_becomes_an_attachment(number: int) -> None:
    shown = harmless(HOSTILE[number], 4_000)
    topic = request_topic(text=shown.text, why=shown.text)

    published = publication(notice(topic), TOPIC)

    assert len(published.message.encode()) <= module.MAX_BYTES
    assert LINK in published.message


async def test_a_refused_token_needs_mending_and_is_not_repeated() -> None:
    async with receiving(ntfy("another")) as server:
        with pytest.raises(Misconfigured, match="answered 403") as refused:
            await channel(server.url, TOKEN).send(notice())

    assert TOKEN not in str(refused.value)


async def test_neither_token_nor_topic_is_in_an_error() -> None:
    said = f"topic {TOPIC} and token {TOKEN}".encode()

    async with receiving(Reaction(400, body=said)) as server:
        with pytest.raises(Undeliverable) as refused:
            await channel(server.url, TOKEN).send(notice())

    assert str(refused.value) == "127.0.0.1 answered 400: topic [secret] and token [secret]"


async def test_too_many_messages_are_taken_later() -> None:
    async with receiving(Reaction(429, {"Retry-After": "5"})) as server:
        with pytest.raises(Unavailable) as busy:
            await channel(server.url).send(notice())

    assert busy.value.retry_after_s == 5.0


async def test_an_answer_without_an_id_is_an_answer() -> None:
    async with receiving(Reaction(200, body=b"{}")) as server:
        receipt = await channel(server.url).send(notice())

    assert receipt == Receipt("accepted")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://ntfy.example.com/watch", ("https://ntfy.example.com/", "watch")),
        ("https://example.com:8443/push/watch/", ("https://example.com:8443/push/", "watch")),
    ],
)
def test_an_address_is_a_server_and_a_topic(url: str, parts: tuple[str, str]) -> None:
    assert server_and_topic(url) == parts


@pytest.mark.parametrize("url", ["", "https://ntfy.example.com", "https://ntfy.example.com/"])
def test_an_address_without_a_topic_needs_mending(url: str) -> None:
    with pytest.raises(Misconfigured, match="no topic"):
        server_and_topic(url)
