"""The card of a request as a page, and the form that answers it: pure functions to HTML.

What an agent wrote stands in boxes of its own, with everything unseen spelt out, so that it can
pass neither for safetyd's words nor for a part of the page.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from textwrap import indent
from typing import Any, Final, NamedTuple

from safetyd.core.text.time_words import complete
from safetyd.operators.views.request_facts import (
    SECTIONS,
    RequestFacts,
    facts_of_card,
    marked_parts,
    sections,
    time_left,
)
from safetyd.web.link_view import LinkView
from safetyd.web.pages.page_frame import moment, nonce_field, notice, page, seen

ABOUT_CHARS: Final = 300
TYPED_CHARS: Final = 400  # of a comment: in any script they fit into what a form may send

Card = Mapping[str, Any]

_TITLES: Final = {"rationale": "why, as the agent says"}  # where the page has one of its own


class FormDraft(NamedTuple):
    """How a form begins: what went wrong with it before, and what was typed into it."""

    nonce: str
    problem: str = ""
    words: str = ""
    focus: str = ""  # where a reader begins: "a" at the code, "d" at Deny


def request_page(view: LinkView, draft: FormDraft) -> str:
    """Return the card of a request and the form that answers it."""
    card, facts = view.card, facts_of_card(view.card)
    title = f"{facts.agent} asks: {facts.type}"
    parts = (
        f"<h1>{seen(title)}</h1>",
        _tags(card),
        f"<p>{escape(f'{_time_left(card, view)} {facts.silence}')}</p>",
        _what(facts),
        _facts(card, facts, view),
        *_words(card["proposal"]),
        _earlier(card["before"], view),
        _form(view, draft),
    )
    return page("A request waits for you", "".join(parts), view.link.recipient)


def about(card: Card) -> str:
    """Return in short what a request is about, so that its reader knows it again."""
    facts = facts_of_card(card)
    said = facts.words
    more = "" if len(said) <= ABOUT_CHARS else f" … ({len(said):,} characters)"
    return f"{facts.agent}: {facts.type}\n{said[:ABOUT_CHARS]}{more}".rstrip()


def _tags(card: Card) -> str:
    urgency, risk = escape(str(card["urgency"])), escape(str(card["risk"]))
    return (
        f'<p><span class="tag {urgency}">{urgency} urgency</span>'
        f'<span class="tag {risk}">{risk} risk</span></p>'
    )


def _time_left(card: Card, view: LinkView) -> str:
    if card["deadline"] is None:
        return time_left("", "")
    return time_left(complete(card["left_s"]), moment(card["deadline"], view.zone, view.at))


def _what(facts: RequestFacts) -> str:
    """Return all that would be done, however long it is, or how the agent describes it."""
    note = '<p class="soft">Boxes like this one hold the agent\'s own words.</p>'
    if facts.proposal.text:
        title = f"<h2>{seen(SECTIONS['text'])}</h2>"
        return f"{title}{_command(facts)}{_parts(facts)}{note}"
    if facts.own:
        return _section("why the agent is paused", facts.words)
    box = _box(facts.words) if facts.words else ""
    return f"<p>{seen(facts.lack)}</p>{box}{note}"


def _command(facts: RequestFacts) -> str:
    """Return the exact text, with the parts of a command marked that do not pass."""
    pieces = marked_parts(facts.words, facts.parts)
    said = (f"<mark>{seen(piece)}</mark>" if mark else seen(piece) for piece, mark in pieces)
    return f"<pre>{''.join(said)}</pre>"


def _parts(facts: RequestFacts) -> str:
    lines = "".join(f"<li>{seen(line)}</li>" for line in facts.part_lines)
    return f"<p>Of this do not pass:</p><ul>{lines}</ul>" if lines else ""


def _words(proposal: Card) -> Iterator[str]:
    """Yield what else the agent wrote, field by field."""
    shown = ("text",) if proposal.get("text") else ("description",)
    for section in sections(proposal, without=shown):
        yield _section(_TITLES.get(section.field, section.title), _lines(section.said))


def _section(name: str, said: str) -> str:
    return f"<h2>{seen(name)}</h2>{_box(said)}"


def _box(said: str) -> str:
    """Return words of an agent, all of them: what is not shown must not be approved."""
    return f"<pre>{seen(said)}</pre>"


def _lines(said: object) -> str:
    if isinstance(said, Mapping):
        return "\n".join(_field(str(name), value) for name, value in said.items())
    if isinstance(said, list):
        return "\n".join(map(_lines, said))
    return said if isinstance(said, str) else json.dumps(said)


def _field(name: str, value: object) -> str:
    """Return a value behind its name; of several lines, such as a diff, each below it."""
    lines = _lines(value)
    if "\n" in lines or isinstance(value, Mapping):
        return f"{name}:\n{indent(lines, '  ')}"
    return f"{name}: {lines}"


def _facts(card: Card, facts: RequestFacts, view: LinkView) -> str:
    pairs = _pairs(card, facts, view)
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in pairs)}</dl>"


def _pairs(card: Card, facts: RequestFacts, view: LinkView) -> Iterator[tuple[str, str]]:
    yield from (("stopped by", seen(verdict)) for verdict in facts.verdicts)
    yield from (("a path leads to", seen(end)) for end in facts.ends)
    if facts.gives:
        yield "also", f'<span class="bad">{escape(facts.gives)}</span>'
    if card["unknown"]:
        yield "type", "nobody configured this type"
    yield "can be undone", _undoing(facts.undoing)
    if facts.no_rollback:
        yield "rollback", facts.no_rollback
    yield "cost", facts.cost_said
    yield "asked", escape(moment(card["asked_at"], view.zone, view.at))
    if facts.again:
        yield "again", facts.again
    yield "request", seen(facts.id)


def _undoing(reversibility: str) -> str:
    known = {
        "unknown": "nobody knows",
        "irreversible": '<span class="bad">no</span>',
        "reversible": "yes",
    }
    return known.get(reversibility, "it only reads")


def _earlier(rows: Sequence[Card], view: LinkView) -> str:
    if not rows:
        return '<h2>Earlier answers to this kind</h2><p class="soft">None.</p>'
    lines = "".join(f"<li>{_ended(row, view)}</li>" for row in rows)
    return f"<h2>Earlier answers to this kind</h2><ul>{lines}</ul>"


def _ended(row: Card, view: LinkView) -> str:
    when = "" if row["decided_at"] is None else moment(row["decided_at"], view.zone, view.at)
    who = f"{seen(row['decision'])} by {seen(row['decided_by'])}, {escape(when)}"
    words = f": {seen(row['words'])}" if row["words"] else ""
    return f'{who}{words}<br><span class="soft">{seen(row["text"])}</span>'


def _form(view: LinkView, draft: FormDraft) -> str:
    deny = f'<button class="no" name="v" value="deny"{_focus(draft.focus == "d")}>Deny</button>'
    if not view.by_link:
        approve, buttons = _terminal_only(view.card), deny
    else:
        approve = _code_field(draft.focus == "a")
        buttons = f'<button class="yes" name="v" value="approve">Approve</button>{deny}'
    return (
        f'<form method="post" autocomplete="off">{nonce_field(draft.nonce)}'
        f"{notice(draft.problem)}{_holding(view.holds)}{approve}"
        '<label for="m">Comment for the agent, sent only with the code</label>'
        f'<textarea id="m" name="m" rows="2" maxlength="{TYPED_CHARS}">{escape(draft.words)}'
        "</textarea>"
        f'<div class="buttons">{buttons}</div></form>'
    )


def _holding(why: str) -> str:
    """Say before anybody answers that an approval would not be the end of it."""
    if not why:
        return ""
    said = f"An approval is recorded and held until this ends: {why.rstrip('.')}."
    return f'<p class="notice warn">{seen(said)}</p>'


def _focus(wanted: bool) -> str:  # noqa: FBT001 - it is called with what it says
    return " autofocus" if wanted else ""


def _terminal_only(card: Card) -> str:
    approve, _ = facts_of_card(card).commands
    line = f'<code class="line">{seen(approve)}</code>'
    return f"<p>A link cannot approve this. At a terminal:</p>{line}"


def _code_field(wanted: bool) -> str:  # noqa: FBT001 - as above
    return (
        '<label for="c">Code from the message, to approve</label>'
        '<input id="c" name="c" inputmode="numeric" autocomplete="one-time-code" maxlength="12"'
        f"{_focus(wanted)}>"
        '<p class="soft">A paired browser needs no code, and a denial needs none.</p>'
    )
