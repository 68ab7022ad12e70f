"""The blocks of a Slack message, and its buttons.

The text is in a rich text block, which has its formatting outside the text. So nothing in a text
can be a link, a mention or markup. An agent's lines are preformatted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from safetyd.cards.note_cards import DigestCard, SingleCard
from safetyd.cards.request_card import RequestCard
from safetyd.notify.message import Notice
from safetyd.notify.message_buttons import (
    APPROVE,
    DENY,
    Data,
    OfferedButton,
    button_rows,
    opens_elsewhere,
    titled_with,
)
from safetyd.notify.shortening import clip, fitted, in_units

MAX_UNITS: Final = 3000  # the maximum of Slack for one text; the blocks then fit into a message too
TITLE_UNITS: Final = 200
SUMMARY_UNITS: Final = 500
STYLES: Final = {APPROVE: "primary", DENY: "danger"}

Block = Mapping[str, object]


class SlackMessage(msgspec.Struct, frozen=True):
    summary: str  # for notifications and screen readers; escaped
    blocks: tuple[Block, ...]
    text: str
    rows: tuple[tuple[OfferedButton, ...], ...]


class PublicNotice(Notice, frozen=True, kw_only=True):
    """A message that every member of a channel can read: its text has no links and no codes."""

    def rendered(self, template: str, **values: object) -> str:
        shown = self.changed(_without_access)
        if isinstance(shown.card, DigestCard):
            lines = tuple(replace(line, link="") for line in shown.card.lines)
            shown = replace(shown, card=replace(shown.card, lines=lines, list_link=""))
        return self.templates.render(template, message=shown, **values)


def written(
    notice: Notice,
    data: Data,
    ends: Sequence[str] = (),
    *,
    public: bool = False,
    answers: bool = True,
) -> SlackMessage:
    """Return the Slack message. `ends` are the outcomes of its requests that have ended.

    `public`: everyone in a channel can read it. `answers`: it may have buttons.
    """
    if public:
        notice = PublicNotice(**{name: getattr(notice, name) for name in Notice.__struct_fields__})
    title = titled_with(ends, notice, TITLE_UNITS)
    body, cards = fitted(notice, "chat.txt", MAX_UNITS - in_units(title), in_units)
    rows = tuple(_rows(notice, cards, public=public)) if answers else ()
    links = () if public else tuple(_links(notice))
    parts = ({"type": "rich_text", "elements": [_title(title), *_elements(body, links)]},)
    return SlackMessage(
        summary=escaped(clip(title, SUMMARY_UNITS, in_units)),
        blocks=(*parts, *(_drawn(row, data) for row in rows)),
        text=f"{title}\n\n{body}".strip(),
        rows=rows,
    )


def _without_access(card: SingleCard) -> SingleCard:
    if isinstance(card, RequestCard):
        return replace(card, link="", code="", deny_code="")
    return replace(card, link="", code="")


def escaped(text: str) -> str:
    """Escape the characters with which links and mentions begin."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _rows(
    notice: Notice, cards: Sequence[SingleCard], *, public: bool
) -> Iterator[tuple[OfferedButton, ...]]:
    """Yield the rows of buttons. Only a message about one request has a button with a link.

    With more of them, the blocks of twenty requests would be too long for Slack.
    """
    linked = notice.single is not None and not public
    for row in button_rows(notice, cards):
        yield tuple(each for each in row if linked or not each.url)


def _links(notice: Notice) -> Iterator[str]:
    """Yield safetyd's own links in the text."""
    entries = (*notice.cards, *notice.lines)
    links = (notice.list_link, *(entry.link for entry in entries))
    yield from (link for link in links if opens_elsewhere(notice, link))


def _title(title: str) -> Block:
    return _section("rich_text_section", _text(f"{title}\n", bold=True))


def _elements(body: str, links: Collection[str]) -> Iterator[Block]:
    """Yield an element for each run of an agent's lines, and for each run of other lines."""
    for agent, run in groupby(body.split("\n"), lambda line: line.startswith(">")):
        lines = list(run)
        if agent:
            yield _section("rich_text_preformatted", _text("\n".join(lines)))
        elif any(lines):
            yield _section("rich_text_section", *_linked(lines, links))


def _linked(lines: Sequence[str], links: Collection[str]) -> Iterator[Block]:
    """Yield the lines as texts, and those that are a link of safetyd as links."""
    for linked, run in groupby(lines, lambda line: line in links):
        for line in run if linked else ():
            yield {"type": "link", "url": line}
            yield _text("\n")
        if not linked:
            yield _text("".join(f"{line}\n" for line in run))


def _section(kind: str, *elements: Block) -> Block:
    return {"type": kind, "elements": elements}


def _text(text: str, *, bold: bool = False) -> Block:
    style = {"style": {"bold": True}} if bold else {}
    return {"type": "text", "text": text, **style}


def _drawn(row: Sequence[OfferedButton], data: Data) -> Block:
    return {"type": "actions", "elements": [_button(each, data) for each in row]}


def _button(offered: OfferedButton, data: Data) -> Block:
    does, ref = offered.does, offered.ref
    kind: Block = {"url": offered.url} if offered.url else {"value": data(does, ref)}
    style = {"style": STYLES[does]} if does in STYLES else {}
    return {
        "type": "button",
        "action_id": offered.label,
        "text": {"type": "plain_text", "text": offered.label},
        **kind,
        **style,
    }
