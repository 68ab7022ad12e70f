"""The card of a request: all that a person should see before answering, as on a decision page.

What the agent wrote stands by itself, each line behind a bar, so that it can pass neither for
safetyd's words nor for the end of its own: a line that is too long goes on behind a plus.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from safetyd.console.line_folding import folded
from safetyd.console.render.agent_words import (
    AgentWords,
    CardMark,
    CardRow,
    agent_words,
    word_rows,
)
from safetyd.console.render.grant_list import grant_offer, program_offer
from safetyd.console.render.layout import indented, when
from safetyd.console.render.request_tables import before
from safetyd.console.terminal_text import document, plain
from safetyd.core.text.time_words import duration
from safetyd.core.text.visible_text import visible
from safetyd.operators.contract.history_contract import SHORT, diff_command
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

Row = Mapping[str, Any]

CHANGE_LINES: Final = 400  # that are shown of what an action changed

MIN_WIDTH: Final = 20
OWN_WORDS: Final = "Behind bars stand the agent's own words, with everything unseen made visible."
_SHORT: Final = "in short, as the agent says"
_TITLES: Final = {"rationale": "why, as the agent says"}
_DIFFS: Final = frozenset({"diff", "patch"})  # what these hold of a context is a diff


def card(view: Row, width: int = 100) -> str:
    """Return one request, at most `width` columns wide, and how it is answered at a terminal."""
    facts = facts_of_card(view)
    shown = [row.text for row in card_rows(view, width)]
    return "\n".join((*shown, *_answers(view, facts)))


def card_rows(
    view: Row, width: int, most: int | None = None, left: Callable[[float], str] = duration
) -> list[CardRow]:
    """Return a request in rows of at most `width` columns; of each field all, or at `most` some.

    A screen that is drawn again and again cannot draw tens of thousands.
    """
    facts, columns = facts_of_card(view), max(width, MIN_WIDTH)
    text, places, rest = _text(facts), list(_places(view)), list(_rest(view))
    parts = (
        [*_top(view, facts), *_ours(_standing(view, facts, left))],
        list(change_rows(view, columns)),
        [*_ours([facts.lack] if facts.lack else []), *_said([text], columns, most), *_parts(facts)],
        _said(places, columns, most),
        _ours(indented(_facts(view, facts))),
        [*_said(rest, columns, most), *_ours([OWN_WORDS])],
        _earlier(view),
    )
    rows = [row for part in parts if part for row in (*part, CardRow(""))]
    return [fit for row in rows[:-1] for fit in _fitted(row, columns)]


def is_cut(view: Row, most: int) -> bool:
    """Say whether a card of at most so many lines of a field leaves something out."""
    said = (_text(facts_of_card(view)), *_places(view), *_rest(view))
    return any(len(words.lines) > most for words in said)


def change_rows(view: Row, columns: int, most: int = CHANGE_LINES) -> Iterator[CardRow]:
    """Yield what the action changed: the `diff` of its commit, or why there is `no_diff`."""
    kept = view.get("change")
    if not kept:
        return
    title = f"what it changed, commit {kept['commit'][:SHORT]} of {kept['project']}"
    yield CardRow(f"  {visible(title)}", "heading")
    if (diff := view.get("diff")) is None:
        yield CardRow(f"  (it cannot be shown: {plain(view.get('no_diff', ''))})")
        return
    words = agent_words(title, [(diff.removesuffix("\n"), False)], diff=True)
    yield from word_rows(words, columns, most)
    if (more := len(words.lines) - most) > 0:
        command = plain(diff_command(kept["project"], kept["commit"]))
        yield CardRow(f"  ({more:,} more {'line' if more == 1 else 'lines'}: {command})")


def exact_text(view: Row) -> AgentWords:
    """Return exactly what would be done, with the parts of a command marked that do not pass."""
    facts = facts_of_card(view)
    return agent_words(SECTIONS["text"], marked_parts(facts.proposal.text, facts.parts))


def diffs(view: Row) -> Iterator[AgentWords]:
    """Yield what of the context is a diff."""
    for name, said in _context(view["proposal"]).items():
        if _is_diff(name, said):
            yield agent_words(name, [(said, False)], diff=True)


def without_diffs(context: Any) -> Any:
    """Return the rest of the context."""
    if not isinstance(context, Mapping):
        return context
    return {name: said for name, said in context.items() if not _is_diff(name, said)}


def _top(view: Row, facts: RequestFacts) -> Iterator[CardRow]:
    state = f"({plain(view['id'])}, {plain(view['state'])})"
    yield CardRow(f"{plain(facts.agent)} asks: {plain(facts.type)} {state}", "title")
    urgency, risk = plain(view["urgency"]), plain(facts.risk)
    tags = f"{urgency} urgency, {risk} risk"
    start = len(f"{urgency} urgency, ")
    marks = (
        CardMark(0, len(f"{urgency} urgency"), f"urgency {urgency}"),
        CardMark(start, len(tags), f"risk {risk}"),
    )
    yield CardRow(tags, "", marks)


def _standing(view: Row, facts: RequestFacts, left: Callable[[float], str]) -> Iterator[str]:
    """Yield how long there is to answer and what happens then, or how it was answered."""
    if view["state"] != "pending":
        yield from _end(view)
        return
    yield f"{_time_left(view, left)} {facts.silence}"
    if view["until"]:
        yield f"It was put off until {when(view['until'])}."


def _time_left(view: Row, left: Callable[[float], str]) -> str:
    if view["left_s"] is None:
        return time_left("", "")
    return time_left(left(max(view["left_s"], 0.0)), when(view["deadline"]))


def _end(view: Row) -> Iterator[str]:
    answer = view["answer"]
    words = f": {plain(answer['words'], 2000)}" if answer.get("words") else ""
    by = f"by {plain(answer['by'])} via {plain(answer['via'])}"
    yield f"It was {plain(view['state'])} {by} at {when(answer['at'])}{words}."
    if view["used"]:
        yield f"The approval was used by {plain(view['used'])}."
    elif view["valid_until"]:
        yield f"The approval may be used once, until {when(view['valid_until'])}."
    elif view.get("denied_until"):
        yield f"The same is denied without asking until {when(view['denied_until'])}."
        yield f"`safetyd deny {plain(view['id'])} --once` lets the agent ask again."


def _text(facts: RequestFacts) -> AgentWords:
    """Return all that would be done or, if the agent does not say that, how it describes it."""
    if facts.own:
        return agent_words("why the agent is paused", [(facts.words, False)])
    if not facts.proposal.text:
        return agent_words("", [(facts.words, False)] if facts.words else [])
    return agent_words(SECTIONS["text"], marked_parts(facts.words, facts.parts))


def _parts(facts: RequestFacts) -> list[CardRow]:
    lines = [f"    {plain(line)}" for line in facts.part_lines]
    return _ours(["  of which do not pass", *lines]) if lines else []


def _places(view: Row) -> Iterator[AgentWords]:
    """Yield what changes and where: diffs, target and paths."""
    yield from diffs(view)
    for section in sections(view["proposal"]):
        if section.field in {"target", "paths"}:
            yield _words(section)


def _facts(view: Row, facts: RequestFacts) -> Iterator[tuple[str, str]]:
    if folder := folder_of(facts):
        yield "folder", plain(folder, 2000)
    yield from (("stopped by", plain(verdict, 2000)) for verdict in facts.verdicts)
    yield from (("leads to", plain(end, 2000)) for end in facts.ends)
    if facts.gives:
        yield "ALSO", plain(facts.gives)
    if view["unknown"]:
        yield "type", "nobody configured this type"
    yield "risk", plain(facts.danger)
    if facts.no_rollback:
        yield "rollback", facts.no_rollback
    yield "cost", facts.cost_said
    yield "asked", ", ".join(filter(None, (when(view["asked_at"]), facts.again)))
    yield "proposal", plain(facts.proposal.id or "")


def _rest(view: Row) -> Iterator[AgentWords]:
    """Yield what else the agent wrote: fields of a line together, then the others by themselves."""
    proposal = view["proposal"]
    shown = ("text", "target", "paths", *(() if proposal.get("text") else ("description",)))
    told = [section._replace(said=_rest_of(section)) for section in sections(proposal, shown)]
    lines = [line for section in told if _is_short(section) for line in _field(*section[1:])]
    if lines:
        yield agent_words(_SHORT, [("\n".join(lines), False)])
    yield from (_words(section) for section in told if section.said and not _is_short(section))


def _rest_of(section: Section) -> Any:
    return without_diffs(section.said) if section.field == "context" else section.said


def _is_short(section: Section) -> bool:
    """Say whether a field is one of several lines; what has a title of its own is read alone."""
    if section.field in SECTIONS or isinstance(section.said, Mapping | list):
        return False
    return "\n" not in _told(section.said)


def _context(proposal: Row) -> Row:
    context = proposal.get("context")
    return context if isinstance(context, Mapping) else {}


def _is_diff(name: object, said: object) -> bool:
    return name in _DIFFS and isinstance(said, str) and bool(said)


def _words(section: Section) -> AgentWords:
    title = _TITLES.get(section.field, section.title)
    return agent_words(title, [("\n".join(_lines(section.said)), False)])


def _lines(said: object) -> Iterator[str]:
    if isinstance(said, Mapping):
        for name, value in said.items():
            yield from _field(str(name), value)
    elif isinstance(said, list):
        yield from map(_told, said)
    else:
        yield _told(said)


def _field(name: str, value: object) -> Iterator[str]:
    """Yield a value behind its name; of a text of several lines each line below it."""
    first, *rest = _told(value).split("\n")
    if not rest:
        yield f"{name}: {first}"
        return
    yield f"{name}:"
    yield from (f"  {line}" for line in (first, *rest))


def _told(value: object) -> str:
    return value if isinstance(value, str) else document(value)


def _said(told: Sequence[AgentWords], columns: int, most: int | None) -> list[CardRow]:
    return [row for words in told for row in _section(words, columns, most)]


def _section(words: AgentWords, columns: int, most: int | None) -> Iterator[CardRow]:
    if words.title:
        yield CardRow(f"  {visible(words.title)}", "heading")
    yield from word_rows(words, columns, most)
    if most is not None and len(words.lines) > most:
        yield CardRow(f"  ({len(words.lines) - most:,} more lines: v shows all of them)")


def _earlier(view: Row) -> list[CardRow]:
    if not view["before"]:
        return _ours(["No answers to this kind before."])
    heading = CardRow("Answers to the same kind before:", "heading")
    return [heading, *_ours(f"  {said}" for said in before(view["before"]))]


def _answers(view: Row, facts: RequestFacts) -> Iterator[str]:
    """Yield what to type, if it waits."""
    if view["state"] != "pending":
        return
    yield ""
    yield from (f"  {plain(command)}" for command in facts.commands)
    if offer := view.get("grant"):
        yield f"  safetyd approve {plain(view['id'])} --grant   permits the same for a while"
        yield from (f"    {line}" for line in (*grant_offer(offer), *program_offer(offer)))


def _ours(lines: Iterator[str] | Sequence[str]) -> list[CardRow]:
    return [CardRow(line) for line in lines]


def _fitted(row: CardRow, columns: int) -> Iterator[CardRow]:
    """Yield a row as several that fit; its marks are all at its beginning."""
    for number, text in enumerate(folded(row.text, columns)):
        yield row._replace(text=text, marks=() if number else row.marks)
