"""A delivery put into words: what is known now of everything that it tells of."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, tzinfo
from socket import gethostname
from typing import Final, Literal, Protocol
from zoneinfo import ZoneInfo

import msgspec

from safetyd.core.approvals.assurance import approvable, risk_within, says_all
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.notification_events import (
    SHOWN,
    Item,
    Note,
    NoteSheet,
    SheetRule,
    SheetSection,
)
from safetyd.core.messages.binding import besides, diff_of, object_of
from safetyd.core.messages.proposal import Proposal, Risk
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.recipients import Recipient
from safetyd.notify.message import Notice, Privacy, Topic, as_entry
from safetyd.notify.sanitize import harmless, harmless_nearly, one_line
from safetyd.operators.views.request_facts import (
    SECTIONS,
    RequestFacts,
    facts_of,
    folder_of,
    short_digest,
)

TEXT_CHARS: Final = 500
SUMMARY_CHARS: Final = 4000
LINE_CHARS: Final = 160
SHEET_CHARS: Final = 600  # of a line of a report
RULES: Final = 5

NotNow = Literal["cancelled", "expired", "quiet"]


class MakesLinks(Protocol):
    """Where a message leads, and the codes that approve."""

    @property
    def here_only(self) -> bool: ...

    def link(self, delivery: str, ref: str, recipient: str) -> str:
        """Return the address of a page; without `ref` of the list of the whole message."""
        ...

    def code(self, request_id: str, recipient: str, pending: Iterable[Request]) -> str:
        """Return the code of a request, told apart from those of others that are pending."""
        ...


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where one recipient is reached on one channel, and how much may be said there."""

    address: str = ""
    privacy: Privacy = "full"
    codes: bool = True  # those who read it may have the code
    reply_risk: Risk | None = None  # up to which a reply may approve; None: no reply can


class Composer:
    """Makes every message again for each try, of the engine's state at that moment.

    `machine` is what people call the machine where safetyd runs; without it, its own name for it.
    """

    def __init__(
        self,
        links: MakesLinks,
        destination: Callable[[str, str], Destination],
        machine: str = "",
    ) -> None:
        self._links = links
        self._destination = destination  # of a recipient and a channel
        self._machine = machine or gethostname()

    def compose(
        self, state: EngineState, delivery: str, at: datetime, *, again: bool
    ) -> Notice | NotNow | None:
        """Return the message as it is now, or why it is not to be sent; None: nobody wants it."""
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
        """Return what a delivery says of these items."""
        recipient = _recipient(state, delivery.recipient)
        zone = ZoneInfo(recipient.quiet.timezone)
        destination = self._destination(delivery.recipient, delivery.channel)
        topics = tuple(self._topics(state, delivery, items, zone, destination))
        more = len(items) - len(topics) + delivery.left
        if len(topics) + more > 1:
            topics = tuple(
                as_entry(topic, len(topic.text), destination.privacy) for topic in topics
            )
        asked = [topic for topic in topics if topic.link]
        return Notice(
            delivery=delivery.id,
            channel=delivery.channel,
            recipient=delivery.recipient,
            address=destination.address,
            urgency=delivery.urgency,
            topics=topics,
            more=more,
            held_back=delivery.held_back,
            digest=delivery.digest,
            again=again,
            at=at.astimezone(zone),
            thread=items[0].ref if len(items) == 1 else "",
            list_link=self.link(delivery.id, "", delivery.recipient) if len(asked) > 1 else "",
            here_only=self._links.here_only,
            machine=self._machine,
            privacy=destination.privacy,
        )

    def _topics(
        self,
        state: EngineState,
        delivery: Delivery,
        items: tuple[Item, ...],
        zone: tzinfo,
        destination: Destination,
    ) -> Iterator[Topic]:
        others = Counter(_agent(state, item) for item in items[SHOWN:])
        for item in items[:SHOWN]:
            request, note = state.approvals.find(item.ref), state.outbox.note(item.ref)
            if request is not None:
                topic = self._asked(state, delivery, item, request, zone, destination)
                yield _with_others(topic, others.pop(request.agent, 0))
            elif note is not None:
                tested = note.kind == "test"
                link = self.link(delivery.id, note.id, delivery.recipient) if tested else ""
                yield _noted(note, link)

    def _asked(
        self,
        state: EngineState,
        delivery: Delivery,
        item: Item,
        request: Request,
        zone: tzinfo,
        destination: Destination,
    ) -> Topic:
        asked, proposal, facts = request.asked, request.asked.proposal, facts_of(request)
        text, why = _said(request)
        shown = harmless_nearly(text, TEXT_CHARS)
        topic = Topic(
            kind=item.kind,
            ref=request.id,
            title=one_line(_title(request), LINE_CHARS),
            urgency=request.urgency,
            action=one_line(asked.type, LINE_CHARS),
            target=one_line(_target(proposal), LINE_CHARS),
            text=shown.text,
            cut=shown.cut,
            exact=not facts.lack,
            whole=says_all(proposal) and not request.gives,
            agent=request.agent,
            session=one_line(proposal.session or "", LINE_CHARS),
            project=one_line(proposal.project or "", LINE_CHARS),
            folder=one_line(folder_of(facts), LINE_CHARS),
            beside=one_line(
                ", ".join(filter(None, (request.gives, *_beside(proposal, facts)))), LINE_CHARS
            ),
            why=harmless(why, TEXT_CHARS).text,
            rules=tuple(one_line(str(rule), LINE_CHARS) for rule in facts.verdicts[:RULES]),
            parts=tuple(one_line(line, LINE_CHARS) for line in _parts(facts)),
            risk=facts.risk,
            reversibility=facts.undoing.replace("_", " "),
            cost=facts.cost,
            asked=asked.at.astimezone(zone),
            until=None if request.deadline is None else request.deadline.astimezone(zone),
            silence=facts.silence,
            digest=short_digest(facts.digest),
            count=request.repeats + 1,
        )
        if not request.pending:
            return topic
        return self._with_ways(state, topic, delivery, request, destination)

    def _with_ways(
        self,
        state: EngineState,
        topic: Topic,
        delivery: Delivery,
        request: Request,
        destination: Destination,
    ) -> Topic:
        """Add how a request can be answered."""
        ways, pending = state.approve_via(request), state.approvals.pending()
        may = destination.codes and approvable(request, "link", ways)
        return msgspec.structs.replace(
            topic,
            link=self.link(delivery.id, request.id, delivery.recipient),
            code=self._links.code(request.id, delivery.recipient, pending) if may else "",
            by_reply=len(delivery.items) == 1 and _by_reply(request, ways, destination.reply_risk),
            commands=facts_of(request).commands,
        )

    def link(self, delivery: str, ref: str, recipient: str) -> str:
        """Return where a message leads; without `ref` to the list of all that it tells of."""
        return self._links.link(delivery, ref, recipient)


def _quiet(state: EngineState, delivery: Delivery, items: tuple[Item, ...], at: datetime) -> bool:
    """Say whether quiet hours began while it was tried."""
    if delivery.urgency == "high" or any(item.kind == "test" for item in items):
        return False
    return state.outbox.quiet_until(delivery.recipient, at) is not None


def _recipient(state: EngineState, name: str) -> Recipient:
    known = state.policy.telling.recipients
    return next(person for person in known if person.name == name)


def _agent(state: EngineState, item: Item) -> str:
    request = state.approvals.find(item.ref)
    return "" if request is None else request.agent


def _with_others(topic: Topic, others: int) -> Topic:
    """Add that its agent asks more than is shown, if so."""
    if not others:
        return topic
    return msgspec.structs.replace(topic, title=f"{topic.title}, and {others:,} more")


def _by_reply(request: Request, ways: tuple[str, ...], most: Risk | None) -> bool:
    """Say whether a reply can approve: an SMS must show all that would be done."""
    if most is None or not risk_within(request.asked.risk, most):
        return False
    return approvable(request, "sms", ways)


def _noted(note: Note, link: str) -> Topic:
    limit = SUMMARY_CHARS if note.kind == "summary" else TEXT_CHARS
    shown = harmless_nearly(note.text, limit)
    return Topic(
        kind=note.kind,
        ref=note.id,
        title=one_line(note.title, LINE_CHARS),
        urgency=note.urgency,
        text=shown.text,
        cut=shown.cut,
        agent=note.agent or "",
        count=note.count,
        link=link,
        sheet=None if note.sheet is None else _shown_sheet(note.sheet),
    )


def _shown_sheet(sheet: NoteSheet) -> NoteSheet:
    """Return a report without what could harm; names in it are the agents' own."""
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


def _said(request: Request) -> tuple[str, str]:
    """Return what would be done, exactly or as it is described, and the agent's reasons."""
    proposal = request.asked.proposal
    if proposal.text:
        return proposal.text, proposal.rationale or proposal.description
    if request.own:
        return f"End the pause of {request.agent}: {proposal.description}", ""
    return proposal.description, proposal.rationale


def _parts(facts: RequestFacts) -> tuple[str, ...]:
    """Return the parts of a command that do not pass; of a single one the reason has told."""
    return facts.part_lines if len(facts.part_lines) > 1 else ()


def _title(request: Request) -> str:
    project = request.asked.proposal.project
    return f"{request.asked.type} by {request.agent}{f' in {project}' if project else ''}"


def _beside(proposal: Proposal, facts: RequestFacts) -> Iterator[str]:
    """Yield by name what an approval covers besides the text, so that people look at it."""
    diff = diff_of(proposal)
    if isinstance(diff, str) and diff:
        yield f"a diff of {len(diff.splitlines()):,} lines"
    for name in besides(proposal):
        if name == "cwd" and _fits(folder_of(facts)):
            continue
        yield _with_keys(name, getattr(proposal, name))
    if proposal.tokens is not None:
        yield "tokens"
    if not proposal.text.replace("\n", "").isprintable():
        yield "characters that cannot be printed"


def _fits(words: str) -> bool:
    """Return True if a line of a message shows all of these words."""
    return len(words) <= LINE_CHARS and words.isprintable()


def _with_keys(name: str, said: object) -> str:
    """Return the name of a field, and the keys in it that agents choose."""
    keys = ", ".join(key for key in object_of(said) if key != "diff")
    return f"{SECTIONS[name] if name == 'extra' else name}{f' ({keys})' if keys else ''}"


def _target(proposal: Proposal) -> str:
    target = proposal.target
    if target is not None:
        named = (target.label, target.name, target.app, target.url)
        return next(filter(None, named), "")
    return ", ".join(proposal.paths) or proposal.remote or ""
