"""What the card of a request shows, in the order and the words of `card/card.html`.

Link pages and the control room show the same card. What an agent wrote stands in boxes of its own,
all of it, so that it can pass neither for safetyd's words nor for a part of the page.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from itertools import chain, groupby, islice
from textwrap import indent
from typing import Any, Final, NamedTuple

import msgspec

from safetyd.core.text.diff_lines import diff_lines, holds_diff
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.request_contract import RequestCard
from safetyd.operators.views.request_facts import (
    SECTIONS,
    RequestFacts,
    Section,
    facts_of_card,
    folder_of,
    marked_parts,
    sections,
    time_left,
)
from safetyd.web.pages.shown_time import ShownTime, shown_time

# Of a longer diff the lines have no colour: whatever an agent sends, its page is made in no time.
MAX_LINES: Final = 4000
MAX_DIFFS: Final = 20

Card = Mapping[str, Any]  # of a RequestCard, as JSON has it
Piece = tuple[str, bool]  # whether it is a part of a command that does not pass

_TITLES: Final = {"rationale": "why, as the agent says"}  # where the card has one of its own
_DIFFS: Final = frozenset({"diff", "patch"})  # what these hold of a context is a diff
_UNDOING: Final = {
    "unknown": "nobody knows",
    "irreversible": "no",
    "reversible": "yes",
    "read_only": "it only reads",
}


class TextRun(NamedTuple):
    """Lines of one kind, in pieces."""

    kind: str  # of a diff: added, removed, hunk, file or same; nothing of any other text
    pieces: tuple[Piece, ...]


class AgentText(NamedTuple):
    """Words of an agent, all of them, under a title."""

    title: str = ""
    runs: tuple[TextRun, ...] = ()


class Fact(NamedTuple):
    """What safetyd knows of a request."""

    name: str
    said: str
    tone: str = ""
    time: ShownTime | None = None


class EarlierAnswer(NamedTuple):
    """How a request of the same kind ended."""

    decision: str
    by: str
    at: ShownTime | None
    words: str
    text: str


class CardView(NamedTuple):
    """All that `card/card.html` shows; the title is for the page around it."""

    id: str
    title: str
    own: bool  # safetyd asks, not an agent
    urgency: str
    risk: str
    time_left: str
    deadline: ShownTime | None
    silence: str  # what happens without an answer
    lack: str  # that nobody can tell exactly what would be done, if so
    text: AgentText
    parts: tuple[str, ...]  # of a command, that do not pass
    diffs: tuple[AgentText, ...]
    target: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    facts: tuple[Fact, ...]
    claims: tuple[tuple[str, str], ...]  # what the agent says in one line each
    words: tuple[AgentText, ...]
    earlier: tuple[EarlierAnswer, ...]


def plain_card(card: RequestCard) -> Card:
    """Return a card as JSON has it, which is what operators see of it."""
    plain: Card = msgspec.json.decode(msgspec.json.encode(card))
    return plain


def card_view(card: Card, zone: tzinfo, now: datetime) -> CardView:
    """Return what a card shows now to who lives in a zone."""
    facts, proposal = facts_of_card(card), card["proposal"]
    deadline = None if card["deadline"] is None else shown_time(card["deadline"], zone, now)
    diffs = _diffs(proposal)
    told = tuple(_told(proposal, diffs))
    return CardView(
        id=facts.id,
        title=f"{facts.agent} asks: {facts.type}",
        own=facts.own,
        urgency=card["urgency"],
        risk=facts.risk,
        time_left=time_left(duration(card["left_s"]), deadline.said)
        if deadline
        else time_left("", ""),
        deadline=deadline,
        silence=facts.silence,
        lack=facts.lack,
        text=_text(facts),
        parts=facts.part_lines,
        diffs=tuple(AgentText(name, diff_runs(said)) for name, said in diffs.items()),
        target=tuple(_named(proposal.get("target") or {})),
        paths=tuple(proposal.get("paths") or ()),
        facts=tuple(_facts(card, facts, zone, now)),
        claims=tuple(_named({each.title: each.said for each in told if _is_line(each)})),
        words=tuple(_agent_text(each) for each in told if not _is_line(each)),
        earlier=tuple(_earlier(row, zone, now) for row in card["before"]),
    )


def _text(facts: RequestFacts) -> AgentText:
    """Return all that would be done, however long it is, or how the agent describes it."""
    if facts.own:
        return _plain("why the agent is paused", facts.words)
    if not facts.proposal.text:
        return _plain("", facts.words)
    title, pieces = SECTIONS["text"], marked_parts(facts.words, facts.parts)
    if not holds_diff(facts.words):
        return AgentText(title, (TextRun("", tuple(pieces)),))
    return AgentText(title, _runs(facts.words, pieces))


def diff_runs(text: str) -> tuple[TextRun, ...]:
    """Return a diff as `card/agent_text.html` shows it."""
    return _runs(text, [(text, False)])


def _plain(title: str, words: str) -> AgentText:
    return AgentText(title, (TextRun("", ((words, False),)),) if words else ())


def _runs(text: str, pieces: list[Piece]) -> tuple[TextRun, ...]:
    """Return a diff, lines of one kind together."""
    if text.count("\n") > MAX_LINES:
        return (TextRun("", tuple(pieces)),)
    kinds = (line.kind for line in diff_lines(text))
    runs = groupby(zip(kinds, _lines(pieces), strict=True), lambda line: line[0])
    return tuple(TextRun(kind, _joined(line for _, line in same)) for kind, same in runs)


def _lines(pieces: list[Piece]) -> list[list[Piece]]:
    """Return the pieces of each line, with its end; one piece may have several lines."""
    lines: list[list[Piece]] = [[]]
    for piece, mark in pieces:
        *whole, rest = piece.split("\n")
        for line in whole:
            lines[-1].append((f"{line}\n", mark))
            lines.append([])
        lines[-1].append((rest, mark))
    return lines


def _joined(lines: Iterable[list[Piece]]) -> tuple[Piece, ...]:
    alike = groupby(chain.from_iterable(lines), lambda piece: piece[1])
    return tuple(("".join(text for text, _ in same), mark) for mark, same in alike)


def _diffs(proposal: Card) -> dict[str, str]:
    """Return which words of the context are a diff, by name."""
    context = proposal.get("context")
    said = context.items() if isinstance(context, Mapping) else ()
    return dict(islice(((name, words) for name, words in said if _is_diff(name, words)), MAX_DIFFS))


def _is_diff(name: str, said: object) -> bool:
    return isinstance(said, str) and bool(said) and (name in _DIFFS or holds_diff(said))


def _told(proposal: Card, diffs: Collection[str]) -> Iterator[Section]:
    """Yield what else the agent wrote, field by field."""
    shown = ("text",) if proposal.get("text") else ("description",)
    for section in sections(proposal, without=(*shown, "target", "paths")):
        if section.field != "context" or not diffs:
            yield section
        elif rest := {name: said for name, said in section.said.items() if name not in diffs}:
            yield section._replace(said=rest)


def _is_line(section: Section) -> bool:
    """Say whether a field is a line of a table; what has a title of its own is read as a whole."""
    if section.field in SECTIONS or isinstance(section.said, Mapping | list):
        return False
    return "\n" not in _words(section.said)


def _named(fields: Card) -> Iterator[tuple[str, str]]:
    yield from ((name, _words(said)) for name, said in fields.items())


def _agent_text(section: Section) -> AgentText:
    title = _TITLES.get(section.field, section.title)
    return _plain(title, _words(section.said))


def _words(said: object) -> str:
    if isinstance(said, Mapping):
        return "\n".join(_field(str(name), value) for name, value in said.items())
    if isinstance(said, list):
        return "\n".join(map(_words, said))
    return said if isinstance(said, str) else json.dumps(said)


def _field(name: str, value: object) -> str:
    """Return a value behind its name; of several lines, each below it."""
    lines = _words(value)
    if "\n" in lines or isinstance(value, Mapping):
        return f"{name}:\n{indent(lines, '  ')}"
    return f"{name}: {lines}"


def _facts(card: Card, facts: RequestFacts, zone: tzinfo, now: datetime) -> Iterator[Fact]:
    if folder := folder_of(facts):
        yield Fact("folder", folder)
    yield from (Fact("stopped by", str(verdict)) for verdict in facts.verdicts)
    yield from (Fact("a path leads to", end) for end in facts.ends)
    if facts.gives:
        yield Fact("also", facts.gives, "bad")
    if card["unknown"]:
        yield Fact("type", "nobody configured this type")
    undoing = facts.undoing
    yield Fact("can be undone", _UNDOING[undoing], "bad" if undoing == "irreversible" else "")
    if facts.no_rollback:
        yield Fact("rollback", facts.no_rollback)
    yield Fact("cost", facts.cost_said)
    asked = shown_time(card["asked_at"], zone, now)
    yield Fact("asked", asked.said, time=asked)
    if facts.again:
        yield Fact("again", facts.again)
    yield Fact("request", facts.id)


def _earlier(row: Card, zone: tzinfo, now: datetime) -> EarlierAnswer:
    at = row["decided_at"]
    return EarlierAnswer(
        decision=row["decision"],
        by=row["decided_by"] or "",
        at=None if at is None else shown_time(at, zone, now),
        words=row["words"],
        text=row["text"],
    )
