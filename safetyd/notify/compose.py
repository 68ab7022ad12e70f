"""Compose the message of a delivery from the current state of its requests and notes."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, tzinfo
from socket import gethostname
from typing import Final, Literal, Protocol
from zoneinfo import ZoneInfo

import msgspec

from safetyd.cards.note_cards import AlertCard, Card, DigestCard, SingleCard, SummaryCard
from safetyd.cards.request_card import UNSTATED, CardField, RequestCard, request_card
from safetyd.core.approvals.assurance import approvable, risk_within
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import (
    SHOWN,
    Item,
    Note,
    NoteSheet,
    SheetRule,
    SheetSection,
)
from safetyd.core.messages.proposal import Risk
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.recipients import Recipient
from safetyd.core.text.time_words import in_zone
from safetyd.notify.channel_templates import ChannelTemplates
from safetyd.notify.message import Notice, Privacy
from safetyd.notify.sanitize import harmless, harmless_nearly, one_line
from safetyd.operators.views.request_view import details

TEXT_CHARS: Final = 500
SUMMARY_CHARS: Final = 4000
LINE_CHARS: Final = 250  # maximum length of a name
SHEET_CHARS: Final = 600  # maximum length of a line of a report
FIELD_CHARS: Final = 100_000  # more than an agent can send
_ASKED: Final = frozenset({"request", "reminder", "last_call", "expired"})
_SUMMARY: Final = frozenset(
    {"risk", "deadline", "asked"}
)  # fields that `privacy = "summary"` shows

NotNow = Literal["cancelled", "expired", "quiet"]


class MakesLinks(Protocol):
    """Makes links and approval codes."""

    @property
    def here_only(self) -> bool: ...

    def link(self, delivery: str, ref: str, recipient: str) -> str:
        """Return the URL of an item's page, or without `ref`, of the list of all items."""
        ...

    def code(self, request_id: str, recipient: str, pending: Iterable[Request]) -> str:
        """Return a code for a request that differs from those of other pending requests."""
        ...


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a recipient on a channel, and the limits on its messages."""

    address: str = ""
    privacy: Privacy = "full"
    codes: bool = True  # readers may see the approval code
    reply_risk: Risk | None = None  # the highest risk that a reply may approve; None: no risk


class Composer:
    """Composes the message for each attempt, from the current state of the engine.

    `machine` is the displayed name of the machine; the default is its host name. `option` names the
    data directory in commands, unless it is the default.
    """

    def __init__(
        self,
        links: MakesLinks,
        destination: Callable[[str, str], Destination],
        machine: str = "",
        templates: ChannelTemplates | None = None,
        option: str = "",
    ) -> None:
        self._option = option
        self._templates = templates or ChannelTemplates()
        self._links = links
        self._destination = destination  # takes a recipient and a channel
        self._machine = machine or gethostname()

    def compose(
        self, state: EngineState, delivery: str, at: datetime, *, again: bool
    ) -> Notice | NotNow | None:
        """Return the current message, or why it must not be sent. None: the delivery has ended."""
        outbox = state.outbox
        found = outbox.find(delivery)
        if found is None or found.state != "open":
            return None
        if found.expires is not None and at >= found.expires:
            return "expired"
        items = outbox.pending(found)
        if not items:
            return "cancelled"
        if _quiet(state, found, items, at):
            return "quiet"
        return self.notice(state, found, items, at, again=again)

    def notice(
        self,
        state: EngineState,
        delivery: Delivery,
        items: tuple[Item, ...],
        at: datetime,
        *,
        again: bool = False,
    ) -> Notice:
        """Return the message of a delivery about these items."""
        recipient = _recipient(state, delivery.recipient)
        now = at.astimezone(ZoneInfo(recipient.quiet.timezone))
        destination = self._destination(delivery.recipient, delivery.channel)
        cards = tuple(self._cards(state, delivery, items, now, destination))
        return Notice(
            delivery=delivery.id,
            channel=delivery.channel,
            recipient=delivery.recipient,
            address=destination.address,
            urgency=delivery.urgency,
            card=self.joined(delivery, cards, len(items) - len(cards) + delivery.left),
            held_back=delivery.held_back,
            again=again,
            at=now,
            thread=items[0].ref if len(items) == 1 else "",
            here_only=self._links.here_only,
            machine=self._machine,
            privacy=destination.privacy,
            templates=self._templates,
            option=self._option,
        )

    def joined(self, delivery: Delivery, cards: tuple[SingleCard, ...], more: int) -> Card:
        """Return the card if there is only one, or a digest of several cards."""
        if len(cards) == 1 and not more:
            return cards[0]
        linked = sum(bool(card.link) for card in cards) > 1
        link = self.link(delivery.id, "", delivery.recipient) if linked else ""
        return DigestCard(cards=cards, more=more, quiet=delivery.digest, list_link=link)

    def _cards(
        self,
        state: EngineState,
        delivery: Delivery,
        items: tuple[Item, ...],
        now: datetime,
        destination: Destination,
    ) -> Iterator[SingleCard]:
        others = Counter(_agent(state, item) for item in items[SHOWN:])
        for item in items[:SHOWN]:
            request, note = state.approvals.find(item.ref), state.outbox.note(item.ref)
            if request is not None:
                card = self._asked(state, delivery, item, request, now, destination)
                yield msgspec.structs.replace(card, others=others.pop(request.agent, 0))
            elif note is not None:
                tested = note.kind == "test"
                link = self.link(delivery.id, note.id, delivery.recipient) if tested else ""
                yield noted(note, link, destination.privacy, now.tzinfo)

    def _asked(
        self,
        state: EngineState,
        delivery: Delivery,
        item: Item,
        request: Request,
        now: datetime,
        destination: Destination,
    ) -> RequestCard:
        """Return the sanitized card of a request, with links and commands to answer it."""
        known = details(state, Moment(now, 0.0), request, grants=False)
        card = _stated(request_card(known, now.tzinfo, now)).with_option(self._option)
        kind = item.kind if item.kind in _ASKED else "request"
        card = msgspec.structs.replace(card, kind=kind)
        if request.pending:
            ways = tuple(_ways(state, delivery, request, destination))
            pending = state.approvals.pending()
            revocations, recipient = state.records.link_revocations, delivery.recipient
            named = revocations.code_name(request.id, recipient, delivery.at)
            code = self._links.code(named, recipient, pending)
            card = msgspec.structs.replace(
                card,
                approve_by=ways,
                link=self.link(delivery.id, request.id, delivery.recipient),
                code=code if "link" in ways else "",
                deny_code=code if destination.codes else "",
            )
        return discreet(harmless_card(card), destination.privacy)

    def link(self, delivery: str, ref: str, recipient: str) -> str:
        """Return the link to an item of a message, or without `ref`, to the list of its items."""
        return self._links.link(delivery, ref, recipient)


def _quiet(state: EngineState, delivery: Delivery, items: tuple[Item, ...], at: datetime) -> bool:
    """Return True if quiet hours have begun and the message has to wait for their end."""
    if delivery.urgency == "high" or any(item.kind == "test" for item in items):
        return False
    return state.outbox.quiet_until(delivery.recipient, at) is not None


def _recipient(state: EngineState, name: str) -> Recipient:
    known = state.policy.telling.recipients
    return next(person for person in known if person.name == name)


def _agent(state: EngineState, item: Item) -> str:
    request = state.approvals.find(item.ref)
    return "" if request is None else request.agent


def _ways(
    state: EngineState, delivery: Delivery, request: Request, destination: Destination
) -> Iterator[str]:
    """Yield the channels through which an operator may approve a request from this message."""
    ways, risk = state.approve_via(request), request.asked.risk
    if destination.codes and approvable(request, "link", ways):
        yield "link"
    if approvable(request, "desktop", ways):
        yield "desktop"
    most = destination.reply_risk
    replies = most is not None and risk_within(risk, most) and len(delivery.items) == 1
    if replies and approvable(request, "sms", ways):
        yield "sms"


def _stated(card: RequestCard) -> RequestCard:
    """Return a card without fields that only say that the agent stated nothing."""
    fields = tuple(field for field in card.fields if field.name not in UNSTATED)
    return msgspec.structs.replace(card, fields=fields)


def harmless_card(card: RequestCard) -> RequestCard:
    """Return a sanitized card that names unprintable characters among its omissions."""
    fields = tuple(map(_harmless_field, card.fields))
    clean = msgspec.structs.replace(
        card,
        type=one_line(card.type, LINE_CHARS),
        project=one_line(card.project, LINE_CHARS),
        wish=one_line(card.wish, LINE_CHARS),
        fields=fields,
    )
    seen = (field.text.replace("\n", "").isprintable() for field in card.fields if field.bound)
    return clean if all(seen) else clean.without("unprintable characters")


def _harmless_field(field: CardField) -> CardField:
    lines: tuple[str, ...]
    if field.agent:
        lines = tuple(harmless(field.text, FIELD_CHARS).text.split("\n"))
    else:
        lines = tuple(one_line(line, FIELD_CHARS) for line in field.lines)
    return msgspec.structs.replace(
        field,
        title=one_line(field.title, LINE_CHARS),
        lines=lines,
        label=one_line(field.label, LINE_CHARS),
        brief=one_line(field.brief, FIELD_CHARS),
        gist=one_line(field.gist, LINE_CHARS),
        marks=(),
    )


def discreet(card: RequestCard, privacy: Privacy) -> RequestCard:
    """Return a card with only the details that this privacy level allows."""
    if privacy == "full":
        return card
    shown = _SUMMARY if privacy == "summary" else ()
    fields = tuple(field for field in card.fields if field.name in shown)
    bare = msgspec.structs.replace(card, project="", wish="", fields=fields)
    return bare.without("details of the action")


def noted(note: Note, link: str, privacy: Privacy, zone: tzinfo | None) -> AlertCard | SummaryCard:
    """Return the sanitized card of an alert, a summary or a test, with times in `zone`."""
    summary = note.kind == "summary"
    said = in_zone(note.text, zone, note.at)
    shown = harmless_nearly(said, SUMMARY_CHARS if summary else TEXT_CHARS)
    full = privacy == "full"
    kind = SummaryCard if summary else AlertCard
    card = kind(
        id=note.id,
        title=one_line(in_zone(_title(note), zone, note.at), LINE_CHARS),
        urgency=note.urgency,
        text=shown.text if full else "",
        cut=shown.cut if full else 0,
        agent=note.agent or "",
        count=note.count,
        link=link,
        sheet=_shown_sheet(note.sheet) if full and note.sheet else None,
    )
    tested = note.kind == "test" and isinstance(card, AlertCard)
    return msgspec.structs.replace(card, kind="test") if tested else card


def _title(note: Note) -> str:
    """Return the title of a note. If it is an alert about one agent, the title names the agent."""
    agent = note.agent if note.kind == "alert" else None
    if not agent or re.search(rf"(?<![\w-]){re.escape(agent)}(?![\w-])", note.title):
        return note.title
    kind, colon, said = note.title.partition(": ")
    return f"{kind}: {agent}: {said}" if colon and kind.isupper() else f"{agent}: {note.title}"


def _shown_sheet(sheet: NoteSheet) -> NoteSheet:
    """Return a sanitized report; agents chose the names in it."""
    return NoteSheet(
        colour=sheet.colour,
        rules=tuple(
            SheetRule(rule.colour, one_line(rule.says, SHEET_CHARS), rule.todo)
            for rule in sheet.rules
        ),
        sections=tuple(
            SheetSection(
                part.title, tuple((name, one_line(said, SHEET_CHARS)) for name, said in part.lines)
            )
            for part in sheet.sections
        ),
        more=sheet.more,
    )
