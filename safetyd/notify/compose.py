"""Compose the message of a delivery from the current state of its requests and notes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from socket import gethostname
from typing import Final, Literal, NamedTuple, Protocol
from zoneinfo import ZoneInfo

import msgspec

from safetyd.cards.digest_lines import line_of, merged, request_line
from safetyd.cards.note_cards import AlertCard, Card, DigestCard, Line, SingleCard, SummaryCard
from safetyd.cards.request_card import UNSTATED, CardField, RequestCard, request_card
from safetyd.cards.set_card import set_card
from safetyd.cards.similar_requests import set_ref
from safetyd.core.approvals.assurance import approvable, risk_within
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import (
    Item,
    Note,
    NoteSheet,
    SheetRule,
    SheetSection,
)
from safetyd.core.messages.proposal import Risk
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.recipients import Recipient
from safetyd.core.text.time_words import clock, in_zone
from safetyd.notify.channel_templates import ChannelTemplates
from safetyd.notify.message import Notice, Privacy
from safetyd.notify.message_sets import sets_in
from safetyd.notify.sanitize import harmless, harmless_nearly, one_line
from safetyd.operators.views.request_view import details

TEXT_CHARS: Final = 500
SUMMARY_CHARS: Final = 4000
LINE_CHARS: Final = 250  # maximum length of a name
SHEET_CHARS: Final = 600  # maximum length of a line of a report
FIELD_CHARS: Final = 100_000  # more than an agent can send
LISTED: Final = 20  # entries of a message that have a card; each further one has a line
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


class _Writing(NamedTuple):
    """The message that is being composed."""

    state: EngineState
    delivery: Delivery
    now: datetime
    destination: Destination


class _Entry(NamedTuple):
    """An entry of a message: a note, a request, or a set of requests."""

    item: Item  # the first one
    ref: str  # its links and its code depend on it
    requests: tuple[Request, ...] = ()
    note: Note | None = None
    whole: bool = True  # all requests of the set are pending


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
        writing = _Writing(state, delivery, now, destination)
        entries = list(_entries(state, delivery, items))
        cards = [self._card(writing, entry) for entry in entries[:LISTED]]
        lines = [self._line(writing, entry) for entry in entries[LISTED:]]
        return Notice(
            delivery=delivery.id,
            channel=delivery.channel,
            recipient=delivery.recipient,
            address=destination.address,
            urgency=delivery.urgency,
            card=self.joined(delivery, cards, lines),
            held_back=delivery.held_back,
            again=again,
            at=now,
            thread=items[0].ref if len(items) == 1 else "",
            here_only=self._links.here_only,
            machine=self._machine,
            privacy=destination.privacy,
            templates=self._templates,
            limited_until=_limit(delivery, now),
            option=self._option,
        )

    def joined(
        self, delivery: Delivery, cards: Sequence[SingleCard], lines: Sequence[Line] = ()
    ) -> Card:
        """Return the card if there is only one, or a digest of several cards."""
        if len(cards) == 1 and not (lines or delivery.left):
            return cards[0]
        linked = sum(bool(entry.link) for entry in (*cards, *lines)) > 1
        link = self.link(delivery.id, "", delivery.recipient) if linked else ""
        return DigestCard(
            cards=tuple(cards),
            lines=merged(lines, link),
            more=delivery.left,
            quiet=delivery.digest,
            list_link=link,
        )

    def _card(self, writing: _Writing, entry: _Entry) -> SingleCard:
        """Return the sanitized card of an entry, with links and commands to answer it."""
        if entry.note is not None:
            link = self._test_link(writing, entry.note)
            privacy, zone = writing.destination.privacy, writing.now.tzinfo
            return noted(entry.note, link, privacy, zone)
        requests, state, delivery = entry.requests, writing.state, writing.delivery
        cards = [_request_card(writing, entry.item, each, self._option) for each in requests]
        card = cards[0] if len(cards) == 1 else set_card(cards, set_ref(requests))
        if all(request.pending for request in requests):
            recipient = delivery.recipient
            named = state.records.link_revocations.code_name(entry.ref, recipient, delivery.at)
            code = self._links.code(named, recipient, state.approvals.pending())
            ways = _ways(writing, entry)
            card = msgspec.structs.replace(
                card,
                approve_by=ways,
                link=self.link(delivery.id, entry.ref, recipient),
                code=code if "link" in ways else "",
                deny_code=code if writing.destination.codes else "",
            )
        return discreet(harmless_card(card), writing.destination.privacy)

    def _line(self, writing: _Writing, entry: _Entry) -> Line:
        """Return an entry as a line."""
        if entry.note is not None:
            return line_of(self._card(writing, entry))
        first, delivery = entry.requests[0].asked, writing.delivery
        full = writing.destination.privacy == "full"
        pending = all(request.pending for request in entry.requests)
        line = Line(
            kind=entry.item.kind,
            title=f"{one_line(first.type, LINE_CHARS)} by {first.agent}",
            agent=first.agent,
            type=one_line(first.type, LINE_CHARS),
            refs=tuple(request.id for request in entry.requests),
            link=self.link(delivery.id, entry.ref, delivery.recipient) if pending else "",
        )
        return request_line(line, one_line(first.proposal.text, LINE_CHARS) if full else "")

    def _test_link(self, writing: _Writing, note: Note) -> str:
        if note.kind != "test":
            return ""
        return self.link(writing.delivery.id, note.id, writing.delivery.recipient)

    def link(self, delivery: str, ref: str, recipient: str) -> str:
        """Return the link to an item of a message, or without `ref`, to the list of its items."""
        return self._links.link(delivery, ref, recipient)


def _limit(delivery: Delivery, now: datetime) -> str:
    """Return until when the channel sends no other urgent message, or an empty text."""
    until = delivery.limited_until
    return "" if until is None else clock(until.astimezone(now.tzinfo))


def _quiet(state: EngineState, delivery: Delivery, items: tuple[Item, ...], at: datetime) -> bool:
    """Return True if quiet hours have begun and the message has to wait for their end."""
    if delivery.urgency == "high" or any(item.kind == "test" for item in items):
        return False
    return state.outbox.quiet_until(delivery.recipient, at) is not None


def _recipient(state: EngineState, name: str) -> Recipient:
    known = state.policy.telling.recipients
    return next(person for person in known if person.name == name)


def _entries(state: EngineState, delivery: Delivery, items: tuple[Item, ...]) -> Iterator[_Entry]:
    """Yield the entries of a message. Similar requests are one, at the place of the first."""
    alike = {(s.kind, one.id): s for s in sets_in(state, delivery) for one in s.requests}
    shown = {(item.kind, item.ref) for item in items}
    done = set[str]()
    for item in items:
        request, note = state.approvals.find(item.ref), state.outbox.note(item.ref)
        found = alike.get((item.kind, item.ref))
        if request is None:
            if note is not None:
                yield _Entry(item, item.ref, note=note)
        elif found is None:
            yield _Entry(item, item.ref, (request,))
        elif found.ref not in done:
            done.add(found.ref)
            mine = tuple(one for one in found.requests if (item.kind, one.id) in shown)
            one = len(mine) == 1
            yield _Entry(item, mine[0].id if one else found.ref, mine, whole=mine == found.requests)


def _request_card(writing: _Writing, item: Item, request: Request, option: str) -> RequestCard:
    now = writing.now
    known = details(writing.state, Moment(now, 0.0), request, grants=False)
    card = _stated(request_card(known, now.tzinfo, now)).with_option(option)
    kind = item.kind if item.kind in _ASKED else "request"
    return msgspec.structs.replace(card, kind=kind)


def _ways(writing: _Writing, entry: _Entry) -> tuple[str, ...]:
    """Return the channels through which an operator may approve an entry from this message.

    A reply by SMS can approve it only if the message contains nothing else.
    """
    destination, requests = writing.destination, entry.requests
    single = len(requests) == 1
    alone = entry.whole and len(requests) == len(writing.delivery.items)
    most = destination.reply_risk
    usable = {
        "link": destination.codes,
        "desktop": single,
        "sms": alone and most is not None,
    }
    return tuple(
        way
        for way, usual in usable.items()
        if usual
        and all(approvable(each, way, writing.state.approve_via(each)) for each in requests)
        and (way != "sms" or all(_within(each, most) for each in requests))
    )


def _within(request: Request, most: Risk | None) -> bool:
    return most is not None and risk_within(request.asked.risk, most)


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
