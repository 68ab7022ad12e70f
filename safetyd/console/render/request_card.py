"""The card of a request: all that a person should see before answering.

What the agent wrote stands by itself, each line behind a bar, so that it can pass neither for
safetyd's words nor for the end of its own: a line that is too long goes on behind a plus.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from safetyd.console.render.layout import indented, when
from safetyd.console.render.request_tables import before
from safetyd.console.terminal_text import document, plain
from safetyd.core.approvals.request import UNPAUSE
from safetyd.core.text.time_words import duration
from safetyd.core.text.visible_text import visible

Row = Mapping[str, Any]

SHORT_DIGEST: Final = 12
MIN_WIDTH: Final = 20

# In this order, under these names; every other field of the proposal comes after them.
_SECTIONS: Final = {
    "text": "exact text",
    "description": "description",
    "target": "target",
    "paths": "paths",
    "rationale": "why",
    "rollback": "rollback plan",
    "context": "context",
    "extra": "fields that safetyd does not know",
}
# What safetyd says itself, or what does not describe the action.
_ELSEWHERE: Final = frozenset(
    {"id", "type", "agent", "at", "urgency", "cost_usd", "request_id", "wait", "timeout_s"}
)


def card(view: Row, width: int = 100, most: int | None = None) -> str:
    """Return one request, at most `width` columns wide; of each field all lines, or at `most` some.

    A screen that is drawn again and again cannot draw tens of thousands.
    """
    parts = (
        [_title(view), *indented(_facts(view))],
        ["In the agent's own words, with everything unseen made visible:"],
        list(_words(view["proposal"], max(width, MIN_WIDTH) - 5, most)),
        list(_earlier(view)),
        list(_next(view)),
    )
    return "\n\n".join("\n".join(part) for part in parts if part)


def is_cut(view: Row, most: int) -> bool:
    """Say whether a card of at most so many lines of a field leaves something out."""
    shown = (value for name, value in view["proposal"].items() if name not in _ELSEWHERE)
    return any(len(list(_lines(value))) > most for value in shown)


def short_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:SHORT_DIGEST]


def _title(view: Row) -> str:
    return f"{plain(view['id'])} ({plain(view['state'])}): {plain(view['agent'])} wants to do this"


def _facts(view: Row) -> Iterator[tuple[str, str]]:
    proposal = view["proposal"]
    yield "action", f"{plain(view['type'])}{' (a type that is not known)' * view['unknown']}"
    yield "risk", f"{plain(view['risk'])}, {_undoing(view['reversibility'])}"
    for verdict in view["verdicts"]:
        yield "stopped by", f"{plain(verdict['rule'])}: {plain(verdict.get('reason', ''), 2000)}"
    for end in view.get("resolved", ()):
        yield "leads to", plain(end, 2000) or "more than anybody could follow"
    if view.get("gives"):
        yield "ALSO", plain(view["gives"])
    cost = proposal.get("cost_usd")
    yield "cost", "not said" if cost is None else f"${cost:.2f}, as the agent says"
    if not proposal.get("rollback"):
        yield "rollback", "the agent has no plan for it"
    yield "urgency", plain(view["urgency"])
    repeats = f", proposed {view['repeats']} times more" if view["repeats"] else ""
    yield "asked", f"{when(view['asked_at'])}{repeats}"
    yield "proposal", plain(proposal.get("id", ""))


def _undoing(reversibility: str) -> str:
    if reversibility == "unknown":
        return "nobody knows whether it can be undone"
    return plain(reversibility).replace("_", " ")


def _words(proposal: Row, width: int, most: int | None) -> Iterator[str]:
    names = [*_SECTIONS, *(name for name in proposal if name not in _SECTIONS)]
    for name in names:
        if proposal.get(name) and name not in _ELSEWHERE:
            yield f"  {_SECTIONS.get(name, name)}"
            lines = list(_lines(proposal[name]))
            yield from _barred(lines[:most], width)
            if most is not None and len(lines) > most:
                yield f"  ({len(lines) - most:,} more lines: v shows all of them)"
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


def _next(view: Row) -> Iterator[str]:
    if view["state"] != "pending":
        yield from _end(view)
        return
    id_ = plain(view["id"])
    yield f"{_time_left(view)} {_silence(view)}"
    if view["until"]:
        yield f"It was put off until {when(view['until'])}."
    yield f"  safetyd approve {id_} --digest {short_digest(view['digest'])}"
    yield f"  safetyd deny {id_}"


def _time_left(view: Row) -> str:
    if view["left_s"] is None:
        return "It waits without an end."
    return f"{duration(max(view['left_s'], 0.0))} left, until {when(view['deadline'])}."


def _silence(view: Row) -> str:
    if view["type"] == UNPAUSE:
        return "Without an answer the agent stays paused."
    return "Without an answer it does not happen."


def _end(view: Row) -> Iterator[str]:
    answer = view["answer"]
    words = f": {plain(answer['words'], 2000)}" if answer.get("words") else ""
    by = f"by {plain(answer['by'])} via {plain(answer['via'])}"
    yield f"It was {plain(view['state'])} {by} at {when(answer['at'])}{words}."
    if view["used"]:
        yield f"The approval was used by {plain(view['used'])}."
    elif view["valid_until"]:
        yield f"The approval may be used once, until {when(view['valid_until'])}."
