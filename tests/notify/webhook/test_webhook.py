import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import standardwebhooks

from safetyd.cards.note_cards import DigestCard, SingleCard, SummaryCard
from safetyd.cards.request_card import CardField
from safetyd.notify.channel import Misconfigured, Receipt, Unavailable
from safetyd.notify.message import Notice
from safetyd.notify.sanitize import harmless
from safetyd.notify.webhook import channel as module
from safetyd.notify.webhook.channel import Webhook, WebhookConfig, document, signing_keys
from tests.notify.http_receivers import Post, Reaction, receiving
from tests.notify.message_samples import (
    AT,
    CODE,
    DELIVERY,
    HOSTILE,
    LINK,
    LIST_LINK,
    REQUEST,
    alert_topic,
    notice,
    request_topic,
)

SECRET = base64.b64encode(b"a key of twenty-four byt").decode()
OLD_SECRET = base64.b64encode(b"another key, 24 bytes in").decode()


def now(**fields: Any) -> Notice:
    """Return a message that is sent right now."""
    return notice(at=datetime.now(UTC), **fields)


def hook(url: str, *secrets: str, include_links: bool = False) -> Webhook:
    config = WebhookConfig(enabled=True, url=url, include_links=include_links)
    return Webhook(config, signing_keys("\n".join(secrets or (f"whsec_{SECRET}",))))


def verified(post: Post, secret: str | bytes = SECRET) -> Any:
    """Return what a receiver reads that believes only what is signed."""
    return standardwebhooks.Webhook(secret).verify(post.body, dict(post.headers))


def data(told: Notice, *, links: bool = False) -> Any:
    return msgspec.json.decode(document(told, links=links))["data"]


@pytest.mark.req("S3.27")
@pytest.mark.req("S3.34")
async def test_a_message_arrives_signed() -> None:
    async with receiving() as receiver:
        receipt = await hook(f"{receiver.url}/hooks/1").send(now())

    assert receipt == Receipt("delivered")
    [post] = receiver.posts
    assert (post.path, post.headers["webhook-id"]) == ("/hooks/1", DELIVERY)
    body = verified(post)
    assert set(body) == {"type", "timestamp", "data"}
    assert body["type"] == "permission.requested"
    assert body["data"]["topics"][0]["id"] == REQUEST


@pytest.mark.req("S3.34")
async def test_while_a_secret_is_changed_both_verify() -> None:
    async with receiving() as receiver:
        await hook(receiver.url, f"whsec_{SECRET}", "", f"whsec_{OLD_SECRET}").send(now())

    [post] = receiver.posts
    assert verified(post, SECRET) == verified(post, OLD_SECRET)


async def test_a_raw_secret_signs_with_its_own_bytes() -> None:
    async with receiving() as receiver:
        await hook(receiver.url, "correct horse").send(now())

    assert verified(receiver.posts[0], b"correct horse")


async def test_what_was_changed_on_the_way_does_not_verify() -> None:
    async with receiving() as receiver:
        await hook(receiver.url).send(now())

    [post] = receiver.posts
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verified(post._replace(body=post.body.replace(b"push", b"pull")))


async def test_another_try_has_the_same_id_and_its_own_time() -> None:
    async with receiving(Reaction(503), Reaction(204)) as receiver:
        channel = hook(receiver.url)
        with pytest.raises(Unavailable):
            await channel.send(notice())
        await channel.send(now(again=True))
        await channel.close()

    first, second = receiver.posts
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["webhook-timestamp"] == str(int(AT.timestamp()))
    assert verified(second)["data"]["again"] is True


@pytest.mark.parametrize("text", ["", "\n \n", "whsec_", "whsec_!!!", f"{SECRET}\nwhsec_a"])
def test_a_file_without_good_secrets_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        signing_keys(text)

    assert SECRET not in str(refused.value)
    assert "!!!" not in str(refused.value)


@pytest.mark.parametrize(
    ("kinds", "type_"),
    [
        (("request",), "permission.requested"),
        (("reminder",), "permission.reminded"),
        (("last_call",), "permission.reminded"),
        (("expired",), "permission.expired"),
        (("alert",), "alert"),
        (("summary",), "summary"),
        (("test",), "test"),
        (("alert", "expired", "request"), "permission.requested"),
        (("summary", "alert"), "alert"),
        ((), "alert"),
    ],
)
def test_a_message_is_called_after_what_needs_people_most(kinds: Sequence[str], type_: str) -> None:
    several = DigestCard(cards=tuple(map(card, kinds)))

    body = msgspec.json.decode(document(notice(card=several), links=False))

    assert body["type"] == type_


def card(kind: str) -> SingleCard:
    if kind == "summary":
        return SummaryCard(id="note_1", title="a session", urgency="low")
    return alert_topic(kind=kind) if kind in {"alert", "test"} else request_topic(kind=kind)


def test_links_and_codes_are_posted_only_where_they_are_wanted() -> None:
    told, several = notice(), notice(request_topic(), request_topic())

    assert CODE not in str(data(told)["topics"])
    assert "link" not in str(data(told))
    assert tuple(data(told, links=True)["topics"][0][key] for key in LINK_AND_CODE) == (LINK, CODE)
    assert data(several, links=True)["list_link"] == LIST_LINK


LINK_AND_CODE = ("link", "code")


def test_what_has_no_value_is_left_out() -> None:
    [topic] = data(notice(alert_topic()))["topics"]

    assert set(topic) == {"kind", "id", "urgency", "title", "text", "agent"}


def test_a_description_does_not_pass_for_what_would_be_done() -> None:
    what = CardField(name="text", title="description", lines=("Push the fix",), bound=True)

    [posted] = data(notice(request_topic(fields=(what,))))["topics"]

    assert ("text" in posted, posted["description"]) == (False, "Push the fix")


def test_topics_that_do_not_fit_have_a_line() -> None:
    words = "€" * 4_000
    cards = [request_topic(text=words, why=words, agent="ä" * 60) for _ in range(20)]
    long = [request_topic(agent="ü" * 1_000) for _ in range(20)]

    posted = [msgspec.json.decode(document(notice(*c, more=3), links=True)) for c in (cards, long)]

    for each in posted:
        assert len(msgspec.json.encode(each)) <= module.MAX_BYTES
        also = sum(len(line["ids"]) for line in each["data"].get("also", ()))
        assert (len(each["data"]["topics"]) + also, each["data"]["more"]) == (20, 3)
    assert 0 < len(posted[1]["data"]["topics"]) < 20


@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_hostile_words_arrive_as_text(number: int) -> None:
    shown = harmless(HOSTILE[number]).text

    [posted] = data(notice(request_topic(text=shown)))["topics"]

    assert posted.get("text", "") == shown
