"""The card of a request: all that a person should see before answering.

What the agent wrote stands by itself, each line behind a bar, so that it can pass neither for
safetyd's words nor for the end of its own: a line that is too long goes on behind a plus.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from safetyd.console.render.grant_list import grant_offer
from safetyd.console.render.layout import indented, when
from safetyd.console.render.request_tables import before
from safetyd.console.terminal_text import document, plain
from safetyd.core.text.time_words import duration
from safetyd.core.text.visible_text import visible
from safetyd.operators.views.request_facts import (
    RequestFacts,
    facts_of_card,
    sections,
    time_left,
)

Row = Mapping[str, Any]

MIN_WIDTH: Final = 20


def card(view: Row, width: int = 100, most: int | None = None) -> str:
    """Return one request, at most `width` columns wide; of each field all lines, or at `most` some.

    A screen that is drawn again and again cannot draw tens of thousands.
    """
    facts = facts_of_card(view)
    parts = (
        [_title(view), *indented(_facts(view, facts))],
        ["In the agent's own words, with everything unseen made visible:"],
        list(_words(view["proposal"], facts, max(width, MIN_WIDTH) - 5, most)),
        list(_earlier(view)),
        list(_next(view, facts)),
    )
    return "\n\n".join("\n".join(part) for part in parts if part)


def is_cut(view: Row, most: int) -> bool:
    """Say whether a card of at most so many lines of a field leaves something out."""
    return any(len(list(_lines(part.said))) > most for part in sections(view["proposal"]))


def _title(view: Row) -> str:
    return f"{plain(view['id'])} ({plain(view['state'])}): {plain(view['agent'])} wants to do this"


def _facts(view: Row, facts: RequestFacts) -> Iterator[tuple[str, str]]:
    yield "action", f"{plain(facts.type)}{' (a type that is not known)' * view['unknown']}"
    yield "risk", plain(facts.danger)
    yield from (("stopped by", plain(verdict, 2000)) for verdict in facts.verdicts)
    yield from (("leads to", plain(end, 2000)) for end in facts.ends)
    if facts.gives:
        yield "ALSO", plain(facts.gives)
    yield "cost", facts.cost_said
    if facts.no_rollback:
        yield "rollback", facts.no_rollback
    yield "urgency", plain(view["urgency"])
    yield "asked", ", ".join(filter(None, (when(view["asked_at"]), facts.again)))
    yield "proposal", plain(facts.proposal.id or "")


def _words(proposal: Row, facts: RequestFacts, width: int, most: int | None) -> Iterator[str]:
    for section in sections(proposal):
        yield f"  {section.title}"
        lines = list(_lines(section.said))
        yield from _barred(lines[:most], width)
        if most is not None and len(lines) > most:
            yield f"  ({len(lines) - most:,} more lines: v shows all of them)"
        if section.field == "text" and facts.part_lines:
            yield "  of which do not pass"
            yield from (f"    {plain(line)}" for line in facts.part_lines)
    if not proposal.get("text"):
        yield "  (it gave no exact text)"


def _lines(said: object) -> Iterator[str]:
    if isinstance(said, Mapping):
        for name, value in said.items():
            yield from _field(str(name), value)
    elif isinstance(said, list):
        yield from map(_told, said)
    else:
        yield from _told(said).split("\n")


def _field(name: str, value: object) -> Iterator[str]:
    """Yield a value behind its name; of a text of several lines, such as a diff, each line."""
    first, *rest = _told(value).split("\n")
    if not rest:
        yield f"{name}: {first}"
        return
    yield f"{name}:"
    yield from (f"  {line}" for line in (first, *rest))


def _told(value: object) -> str:
    return value if isinstance(value, str) else document(value)


def _barred(lines: Iterable[str], width: int) -> Iterator[str]:
    for line in lines:
        seen = visible(line)
        step = width if seen.isascii() else width // 2  # some letters are two columns wide
        yield f"  | {seen[:step]}"
        yield from (f"  + {seen[at : at + step]}" for at in range(step, len(seen), step))


def _earlier(view: Row) -> Iterator[str]:
    yield (
        "Answers to the same kind before:" if view["before"] else "No answers to this kind before."
    )
    yield from (f"  {said}" for said in before(view["before"]))


def _next(view: Row, facts: RequestFacts) -> Iterator[str]:
    if view["state"] != "pending":
        yield from _end(view)
        return
    yield f"{_time_left(view)} {facts.silence}"
    if view["until"]:
        yield f"It was put off until {when(view['until'])}."
    yield from (f"  {plain(command)}" for command in facts.commands)
    if offer := view.get("grant"):
        yield f"  safetyd approve {plain(view['id'])} --grant   permits the same for a while"
        yield from (f"    {line}" for line in grant_offer(offer))


def _time_left(view: Row) -> str:
    if view["left_s"] is None:
        return time_left("", "")
    return time_left(duration(max(view["left_s"], 0.0)), when(view["deadline"]))


def _end(view: Row) -> Iterator[str]:
    answer = view["answer"]
    words = f": {plain(answer['words'], 2000)}" if answer.get("words") else ""
    by = f"by {plain(answer['by'])} via {plain(answer['via'])}"
    yield f"It was {plain(view['state'])} {by} at {when(answer['at'])}{words}."
    if view["used"]:
        yield f"The approval was used by {plain(view['used'])}."
    elif view["valid_until"]:
        yield f"The approval may be used once, until {when(view['valid_until'])}."
