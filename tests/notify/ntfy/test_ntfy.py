from urllib.parse import urlencode

import msgspec
import pytest

from safetyd.cards.request_card import RequestKind
from safetyd.notify.channel import Misconfigured, Receipt, Unavailable, Undeliverable
from safetyd.notify.links.tokens import Signer
from safetyd.notify.message import Notice
from safetyd.notify.ntfy import channel as module
from safetyd.notify.ntfy.channel import (
    Ntfy,
    NtfyConfig,
    Publication,
    publication,
    server_and_topic,
)
from safetyd.notify.sanitize import harmless
from tests.notify.channel_context import context
from tests.notify.http_receivers import Reaction, ntfy, receiving
from tests.notify.message_samples import (
    CODE,
    DELIVERY,
    DIGEST,
    HOSTILE,
    LINK,
    LIST_LINK,
    REQUEST,
    alert_topic,
    notice,
    request_topic,
    whole_topic,
)
from tests.web.link_site import KEY

TOPIC = "watch-9f3c"
TOKEN = "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"  # not anybody's


def channel(url: str, token: str = "") -> Ntfy:
    config = NtfyConfig(
        enabled=True, url=f"{url}/{TOPIC}", token_file="ntfy.token" if token else ""
    )
    return Ntfy("ntfy", config, context(secrets={"ntfy.token": token}))


def published(notice: Notice) -> Publication:
    return publication(notice, TOPIC, lambda card, answer: f"{answer} {card.code}")


@pytest.mark.req("S3.27")
async def test_a_request_is_published_with_its_page_and_its_answers() -> None:
    signer = Signer([KEY])
    token = signer.token(DELIVERY, REQUEST, "alice")
    link = f"https://safety.example.com/d/{token}"
    asked = whole_topic(link=link)
    async with receiving(ntfy(TOKEN)) as server:
        receipt = await channel(server.url, f"{TOKEN}\n").send(notice(asked))

    assert receipt == Receipt("accepted", "xE73Iyuabi")
    sent = server.posts[0].document
    assert link in sent.pop("message")
    approve, deny, review = sent.pop("actions")
    assert sent == {
        "topic": TOPIC,
        "title": "HIGH: push by code: git push --force origin main",
        "priority": 5,
        "tags": ["safetyd", "high"],
        "sequence_id": DELIVERY,
        "click": link,
    }
    token_id = signer.token_id(DELIVERY, REQUEST, "alice")
    approves = {"v": "approve", "n": signer.button(token_id, "approved", DIGEST), "c": CODE}
    denies = {"v": "deny", "n": signer.button(token_id, "denied", DIGEST)}
    posted = {"action": "http", "url": link, "method": "POST", "clear": True}
    assert approve == posted | {"label": "Approve", "body": urlencode(approves)}
    assert deny == posted | {"label": "Deny", "body": urlencode(denies)}
    assert review == {"action": "view", "label": "Review", "url": link}


async def test_a_server_that_wants_no_token_gets_none() -> None:
    async with receiving(ntfy()) as server:
        channel_ = channel(server.url)
        await channel_.send(notice())
        await channel_.close()

    assert "Authorization" not in server.posts[0].headers


@pytest.mark.parametrize(("urgency", "priority"), [("low", 2), ("normal", 3), ("high", 5)])
def test_urgency_is_the_priority(urgency: str, priority: int) -> None:
    assert published(notice(urgency=urgency)).priority == priority


@pytest.mark.parametrize("kind", ["request", "reminder", "last_call"])
def test_only_a_message_with_the_code_and_everything_offers_to_approve(kind: RequestKind) -> None:
    without_code = published(notice(whole_topic(kind=kind, code="")))
    cut = published(notice(whole_topic(kind=kind, text="x" * 5_000)))
    whole = published(notice(whole_topic(kind=kind)))

    assert [button.label for button in without_code.actions] == ["Deny", "Review"]
    assert [button.label for button in cut.actions] == ["Deny", "Review"]
    assert [button.label for button in whole.actions] == ["Approve", "Deny", "Review"]
    assert CODE not in msgspec.json.encode((without_code, cut)).decode()


def test_what_has_ended_offers_no_answer() -> None:
    (button,) = published(notice(request_topic(kind="expired"))).actions

    assert (button.action, button.label) == ("view", "Review")


def test_several_open_their_list() -> None:
    several = published(notice(request_topic(), alert_topic()))

    assert several.click == LIST_LINK
    assert [(button.action, button.label) for button in several.actions] == [("view", "Review")]


def test_what_leads_nowhere_has_no_buttons() -> None:
    alert = published(notice(alert_topic()))
    here_only = published(notice(here_only=True))

    assert (alert.click, alert.actions) == ("", ())
    assert (here_only.click, here_only.actions) == ("", ())


@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_no_hostile_message_becomes_an_attachment(number: int) -> None:
    shown = harmless(HOSTILE[number], 4_000)
    topic = request_topic(text=shown.text, why=shown.text)

    message = published(notice(topic)).message

    assert len(message.encode()) <= module.MAX_BYTES
    assert LINK in message


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
