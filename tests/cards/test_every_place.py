"""One card for every place: what a place leaves out it names, and then it offers no approval."""

import html
import re
from collections.abc import Callable
from datetime import UTC
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetyd.cards.request_card import CardField, RequestCard, request_card
from safetyd.cards.set_card import SetCard
from safetyd.console.render.terminal_card import card as terminal_card
from safetyd.console.review import detail
from safetyd.core.approvals.request import Request
from safetyd.core.messages.proposal import Target
from safetyd.core.text.visible_text import pieces, visible
from safetyd.notify.apprise.channel import ZERO_WIDTH, written
from safetyd.notify.compose import harmless_card
from safetyd.notify.desktop.desktop_content import rendered
from safetyd.notify.email.mail_channel import mail
from safetyd.notify.message import SUBJECT_CHARS, Notice, Privacy
from safetyd.notify.ntfy.channel import publication
from safetyd.notify.slack.slack_message import written as slack
from safetyd.notify.sms.gsm import BASIC, EXTENDED, normalise, septets
from safetyd.notify.sms.sms_text import MOST, text_of
from safetyd.notify.telegram.telegram_message import written as telegram
from safetyd.notify.webhook.channel import document
from safetyd.operators.views.request_view import details
from safetyd.web.pages.request_page import FormDraft, request_page
from tests.cards.card_story import context
from tests.cards.hard_requests import HARD
from tests.notify.compose_rig import ComposeRig, telling
from tests.web.pages.page_reader import Reader, view

CODE = "4821"


class Shown(NamedTuple):
    """What one place shows: its words, and whether it offers approval."""

    text: str
    approves: bool


def channel(notice: Notice, name: str) -> Shown:  # noqa: PLR0911, PLR0915 - a place each
    match name:
        case "mail text" | "mail HTML":
            message = mail(notice, "safetyd@example.com", "host")
            text, page = (part.get_content() for part in message.iter_parts())
            said = text if name == "mail text" else _without_tags(page)
            return Shown(said, CODE in said or "safetyd approve" in said or "i=a" in page)
        case "sms":
            text = text_of(notice)
            assert septets(text) <= MOST
            assert (BASIC | EXTENDED).issuperset(text)
            return Shown(text, bool(re.search(rf"code {CODE}|A {CODE}|safetyd approve", text)))
        case "ntfy":
            sent = publication(notice, "topic", lambda *_: "")
            assert len(sent.message.encode()) <= 4095
            labels = [button.label for button in sent.actions]
            offered = "Approve" in labels or _offers(sent.message)
            return Shown(f"{sent.title}\n{sent.message}", offered)
        case "chat":
            said_ = written(notice, marked=False)
            assert len(said_.body) <= 1900
            body = said_.body.replace(ZERO_WIDTH, "")
            return Shown(f"{said_.title}\n{body}", _offers(body))
        case "telegram":
            told = telegram(notice, lambda does, ref: does + ref)
            labels = [button.text for row in told.keyboard for button in row]
            return Shown(told.text, "Approve" in labels or _offers(told.text))
        case "slack":
            posted = slack(notice, lambda does, ref: does + ref)
            names = [button.label for row in posted.rows for button in row]
            return Shown(posted.text, "Approve" in names or _offers(posted.text))
        case "desktop":
            desk = rendered(notice)
            assert len(desk.body) <= 240
            assert desk.summary == notice.subject
            return Shown(f"{desk.summary}\n{desk.body}", "approve" in desk.actions)
        case _:
            sent_ = document(notice, links=True)
            assert len(sent_) <= 20_000
            (topic,) = msgspec.json.decode(sent_)["data"]["topics"]
            return Shown(_leaves(topic), "code" in topic or "approve" in str(topic.get("commands")))


def _offers(text: str) -> bool:
    return f"Code to approve: {CODE}" in text or "\nsafetyd approve" in text


def _without_tags(page: str) -> str:
    body = page.partition("<body")[2].replace("&nbsp;", " ").replace("<br>", "\n")
    return html.unescape(re.sub(r"<[^>]+>", "\n", body))


def _leaves(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(map(_leaves, value.values()))
    return "\n".join(map(_leaves, value)) if isinstance(value, list) else str(value)


def _bare(text: str) -> str:
    """Return the words of a text without the ways in which places break lines and mark them."""
    return re.sub(r"[\s|+>⏎…\u200b]+", "", text)


def _visible(text: str) -> str:
    return "".join(part for part, _ in pieces(text))


# How a place spells some characters.
SPELT: dict[str, Callable[[str], str]] = {"sms": normalise, "mail HTML": _visible}


def missing(fields: tuple[CardField, ...], text: str, place: str) -> list[CardField]:
    """Return the fields that a text shows neither whole nor, on a phone, in brief."""
    shown, spelt = _bare(text), SPELT.get(place, str)
    return [
        field
        for field in fields
        if any(_bare(spelt(line)) not in shown for line in field.lines)
        and not (place in BRIEF and field.brief and _bare(spelt(field.brief)) in shown)
    ]


BRIEF = ("sms", "desktop")
CHANNELS = (
    *("mail text", "mail HTML", "sms", "ntfy", "chat", "telegram", "slack", "desktop", "webhook"),
)


def asked(**fields: Any) -> tuple[ComposeRig, Request]:
    rig = ComposeRig(telling("email", "sms", "desktop", "webhook", "ntfy", "team"))
    id_ = rig.asks(**fields)
    return rig, rig.queue.request(id_)


def message(rig: ComposeRig, name: str) -> Notice:
    wanted = {
        "mail text": "email",
        "mail HTML": "email",
        "chat": "team",
        "telegram": "team",
        "slack": "team",
    }.get(name, name)
    (delivery,) = (due for due in rig.passes() if due.channel == wanted)
    return rig.says(delivery)


@pytest.mark.parametrize("place", CHANNELS)
@pytest.mark.parametrize("name", HARD)
def test_a_channel_names_what_it_leaves_out_and_then_offers_no_approval(
    name: str, place: str
) -> None:
    check_message(place, **HARD[name])


NAME = st.from_regex(r"[a-z_]{1,64}", fullmatch=True)
WORDS = st.text(max_size=60) | st.sampled_from(
    ["git push origin main", "x" * 900, "UPDATE t;\nDROP", "\u202egnp.exe", "\U0001f680 ä ш"]
)
PROPOSALS = st.fixed_dictionaries(
    {"text": WORDS, "agent": NAME},
    optional={
        "type": st.sampled_from(["push", "publish", "send_email", "never_heard_of_" * 6]),
        "description": WORDS,
        "rationale": WORDS,
        "paths": st.lists(WORDS.filter(bool), max_size=3).map(tuple),
        "target": st.builds(Target, label=WORDS, url=st.just("https://shop.example/pay")),
        "project": WORDS.filter(bool),
        "cwd": WORDS.filter(bool),
        "cost_usd": st.floats(0.01, 9.0),
        "context": st.builds(lambda to: context(to=to), WORDS),
        "timeout_s": st.floats(7200.0, 9e5),
    },
)


@pytest.mark.hypothesis
@settings(max_examples=25)
@given(fields=PROPOSALS, place=st.sampled_from(CHANNELS))
def test_no_message_lacks_what_the_decision_needs_and_offers_approval(
    fields: dict[str, Any], place: str
) -> None:
    check_message(place, **fields)


def check_message(place: str, **fields: Any) -> None:
    """Assert that a message shows or names each field, and approves only with what is needed."""
    rig, _ = asked(**fields)
    notice = message(rig, place)
    card = notice.card
    assert isinstance(card, RequestCard)
    assert card.link
    assert len(notice.subject) <= SUBJECT_CHARS
    assert "\n" not in notice.subject

    shown = channel(notice, place)

    gone = missing(card.fields, shown.text, place)
    left_out = [field for field in gone if field.required] or not card.whole
    assert not (left_out and shown.approves)
    if place == "sms":
        deadline = next(field for field in card.fields if field.name == "deadline")
        assert _bare(normalise(deadline.brief)) in _bare(shown.text)
    if gone or card.left_out:
        assert "Not shown" in shown.text or place == "webhook"
        names = [*card.left_out, *(field.named for field in gone)]
        # The title of a message may count paths in the same words.
        more = re.search(r"and (\d+) more", shown.text.rpartition("Not shown")[2])
        spelt = SPELT.get(place, str)
        named = [each for each in names if _named(each, shown.text, spelt)]
        assert len(named) + int(more[1] if more else 0) >= len(names)
    if not (left_out or card.left_out or place in BRIEF):  # on a phone, only plain text
        assert shown.approves


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("count", [3, 20, 50])
@pytest.mark.parametrize("place", CHANNELS)
def test_a_set_is_shown_whole_or_offers_no_approval(place: str, count: int, long: bool) -> None:  # noqa: FBT001
    rig = ComposeRig(telling("email", "sms", "desktop", "webhook", "ntfy", "team"))
    for number in range(count):
        why = f"node {number} is old, " * 60 if long else "old"
        text = f"kubectl drain node-{number:02}"
        rig.asks(f"p{number}", type="run_shell", text=text, rationale=why)
    notice = message(rig, place)
    assert isinstance(notice.card, SetCard)

    shown = channel(notice, place)

    parts = [part for member in notice.card.members for part in member.parts]
    bare = _bare(shown.text)
    whole = all(_bare(part) in bare for part in parts)
    offers = re.search(rf"(?:code|Code|all {count}:?|A) ?\s*{CODE}", shown.text) or shown.approves
    assert whole or not offers
    if place in {"mail text", "mail HTML"} or (place not in {"sms", "desktop"} and not long):
        assert whole
        assert CODE in shown.text or place == "webhook"


def _named(name: str, text: str, spelt: Callable[[str], str]) -> bool:
    """Say whether a text names a field, or how many of its characters it leaves out."""
    begin = _bare(spelt(name))[:40]
    return begin in _bare(text) or f"charactersofthe{_bare(spelt(name))}"[:40] in _bare(text)


@pytest.mark.parametrize("name", HARD)
def test_a_mail_and_a_page_show_everything(name: str) -> None:
    """Only a mail of more than 100 kB may drop something."""
    rig, request = asked(**HARD[name])
    known = details(rig.engine, rig.clock.now(), request)
    card = request_card(known, UTC, rig.at)

    page = Reader(request_page(view(rig.queue, request.id), FormDraft("nonce")))
    screen = "\n".join(row.text for row in detail.everything(known, rig.at, 100))
    terminal = terminal_card(known, rig.at, 100, zone=UTC)

    for field in card.fields:
        for line in field.lines:
            assert _bare(_visible(line)) in _bare(page.text), field.name
            assert _bare(visible(line)) in _bare(terminal), field.name
            if field.name not in {"deadline", "asked"}:  # in the zone of this machine
                assert _bare(visible(line)) in _bare(screen), field.name


@pytest.mark.parametrize("privacy", ["summary", "minimal"])
@pytest.mark.parametrize("place", CHANNELS)
def test_a_channel_that_is_trusted_with_less_shows_no_words_and_offers_no_approval(
    place: str, privacy: Privacy
) -> None:
    rig, _ = asked(text="the secret text", cwd="/secret", rationale="secret reasons")
    rig.privacy = privacy
    notice = message(rig, place)

    shown = channel(notice, place)

    assert "secret" not in shown.text
    assert not shown.approves


def test_words_that_messages_show_are_harmless_in_every_field() -> None:
    rig, request = asked(**HARD["links"], context=msgspec.Raw(b'{"u": "https://evil.example"}'))
    known = details(rig.engine, rig.clock.now(), request)

    card = harmless_card(request_card(known, UTC, rig.at))

    assert not any("https://evil" in field.text for field in card.fields)
    assert "hxxps://evil[.]example" in card.find("context")
