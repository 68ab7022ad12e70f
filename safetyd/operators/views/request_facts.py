"""What there is to know of a request before it is answered. Who tells of one only lays this out.

Words of agents in it are as they came: whoever shows them makes them harmless.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import msgspec

from safetyd.core.approvals.request import UNPAUSE, Request
from safetyd.core.messages.money import dollars, nano
from safetyd.core.messages.verdict import CommandPart
from safetyd.core.shell.command_reader import READ

SHORT_DIGEST: Final = 12
SHOWN_PARTS: Final = 5  # of a command
IRREVERSIBLE: Final = "gate.irreversible"  # how the names of rules begin that found it so

# In this order, under these names; every other field of the proposal comes after them.
SECTIONS: Final = {
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
    {"id", "type", "agent", "at", "urgency", "cost_usd", "cwd", "request_id", "wait", "timeout_s"}
)


class Section(NamedTuple):
    """One field of what an agent sent."""

    field: str
    title: str
    said: Any


class StoppedBy(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that wants a person to answer, and the others that its guard found."""

    rule: str
    reason: str = ""
    also: tuple[str, ...] = ()
    parts: tuple[CommandPart, ...] = ()  # of a command, the strictest first

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


class ProposalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What facts are taken from of a proposal; `sections` has the rest."""

    id: str | None = None
    text: str = ""
    description: str = ""
    rollback: str = ""
    cost_usd: float | None = None
    cwd: str | None = None
    project: str | None = None


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one request. `reversibility` is that of its type; `undoing` may know better."""

    id: str
    agent: str
    type: str
    digest: str
    risk: str
    reversibility: str
    proposal: ProposalFacts
    verdicts: tuple[StoppedBy, ...] = ()
    resolved: tuple[str, ...] = ()
    gives: str = ""  # what an approval gives beside the action
    repeats: int = 0

    @property
    def own(self) -> bool:
        """Whether safetyd asks to end a pause; an agent may call a proposal of its own the same."""
        return self.type == UNPAUSE and self.proposal.id == self.id

    @property
    def silence(self) -> str:
        """What happens without an answer."""
        if self.own:
            return "Without an answer the agent stays paused."
        return "Without an answer it does not happen."

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of all rules that want a person to answer."""
        return tuple(rule for each in self.verdicts for rule in (each.rule, *each.also))

    @property
    def parts(self) -> tuple[CommandPart, ...]:
        """The parts of a command that do not pass."""
        return tuple(part for each in self.verdicts for part in each.parts)

    @property
    def part_lines(self) -> tuple[str, ...]:
        """What the first parts of a command do, a line each, and how many more there are."""
        lines = tuple(dict.fromkeys(f"`{part.shown}`: {part.why}" for part in self.parts))
        more = len(lines) - SHOWN_PARTS
        return (*lines[:SHOWN_PARTS], *([f"and {more} more"] if more > 0 else ()))

    @property
    def undoing(self) -> str:
        """Whether it can be undone: a rule that says no knows more than the type does."""
        return stricter(self.reversibility, self.rules)

    @property
    def danger(self) -> str:
        """The risk and whether it can be undone, and which of that only a rule says."""
        return danger_by(self.risk, self.reversibility, self.rules)

    @property
    def cost(self) -> str:
        """What it costs as the agent says, as an amount; nothing if it does not say."""
        cost_usd = self.proposal.cost_usd
        return "" if cost_usd is None else dollars(nano(cost_usd))

    @property
    def cost_said(self) -> str:
        return f"{self.cost}, as the agent says" if self.cost else "not said"

    @property
    def ends(self) -> tuple[str, ...]:
        """Where paths lead that are links."""
        return tuple(end or "more than anybody could follow" for end in self.resolved)

    @property
    def no_rollback(self) -> str:
        return "" if self.proposal.rollback else "the agent has no plan for it"

    @property
    def again(self) -> str:
        if not self.repeats:
            return ""
        return f"proposed {self.repeats} more {'time' if self.repeats == 1 else 'times'}"

    @property
    def words(self) -> str:
        """Exactly what would be done or, if the agent does not say that, how it describes it."""
        return self.proposal.text or self.proposal.description

    @property
    def lack(self) -> str:
        """Say that nobody can tell exactly what would be done, if so, and what is told instead."""
        if self.proposal.text or self.own:
            return ""
        return no_text(described=bool(self.proposal.description))

    @property
    def commands(self) -> tuple[str, str]:
        """How it is approved and denied at a terminal."""
        approve = f"safetyd approve {self.id} --digest {short_digest(self.digest)}"
        return approve, f"safetyd deny {self.id}"


def facts_of(request: Request) -> RequestFacts:
    asked = request.asked
    known = {
        "id": request.id,
        "agent": request.agent,
        "type": asked.type,
        "digest": asked.digest,
        "risk": asked.risk,
        "reversibility": asked.reversibility,
        "proposal": asked.proposal,
        "verdicts": asked.verdicts,
        "resolved": asked.resolved,
        "gives": request.gives,
        "repeats": request.repeats,
    }
    return facts_of_card(known)


def facts_of_card(card: object) -> RequestFacts:
    """Return the facts of a request as operators see it, from JSON or not."""
    return msgspec.convert(card, RequestFacts, from_attributes=True)


def folder_of(facts: RequestFacts) -> str:
    """Return where an action runs: every command has a folder, others if the agent names one."""
    cwd, project = facts.proposal.cwd, facts.proposal.project
    if cwd:
        absolute = cwd.startswith(("/", "~"))
        return cwd if absolute or not project else f"{cwd} in project {project}"
    if facts.type not in READ:
        return ""
    return f"that of project {project}; the agent names none" if project else "the agent names none"


def sections(proposal: Mapping[str, Any], without: Collection[str] = ()) -> Iterator[Section]:
    """Yield what the agent sent, field by field, but for what is told elsewhere."""
    for name in (*SECTIONS, *(name for name in proposal if name not in SECTIONS)):
        if proposal.get(name) and name not in _ELSEWHERE and name not in without:
            yield Section(name, SECTIONS.get(name, name), proposal[name])


def marked_parts(text: str, parts: Sequence[CommandPart]) -> list[tuple[str, bool]]:
    """Return a text in pieces, and of each whether it is a part; in one piece if parts do not fit.

    A text in which something was masked is not the one that was read.
    """
    encoded = text.encode("utf-8", "replace")
    edges = sorted({0, len(encoded), *(edge for part in parts for edge in (part.start, part.end))})
    if edges[0] < 0 or edges[-1] > len(encoded):
        return [(text, False)]
    pieces = [
        (encoded[start:end], any(part.start <= start and end <= part.end for part in parts))
        for start, end in pairwise(edges)
    ]
    try:
        found = [
            (b"".join(piece for piece, _ in same).decode(), marked)
            for marked, same in groupby(pieces, lambda piece: piece[1])
        ]
    except UnicodeDecodeError:  # an edge within a letter
        return [(text, False)]
    return found if "".join(piece for piece, _ in found) == text else [(text, False)]


def words_of(said: Mapping[str, Any]) -> str:
    """Return what a row or a proposal says would be done, exactly or as the agent describes it."""
    return said.get("text") or said.get("description") or ""


def place_of(said: Mapping[str, Any]) -> str:
    """Return the first path that a row names, and how many more there are."""
    path, more = said.get("path") or "", said.get("paths", 1) - 1
    return f"{path} and {more} more" if more > 0 else path


def placed_words_of(said: Mapping[str, Any]) -> str:
    """Return where a row says that something would be done, and then what."""
    return ": ".join(filter(None, (place_of(said), words_of(said))))


def short_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:SHORT_DIGEST]


def stricter(reversibility: str, rules: Iterable[str]) -> str:
    """Return whether something can be undone, by its type or by a rule that says no."""
    found = any(rule.startswith(IRREVERSIBLE) for rule in rules)
    return "irreversible" if found else reversibility


def undone(reversibility: str) -> str:
    """Return in words whether something can be undone."""
    if reversibility == "unknown":
        return "nobody knows whether it can be undone"
    return reversibility.replace("_", " ")


def danger_of(risk: str, reversibility: str) -> str:
    """Return in one line how dangerous something is, as far as that is known."""
    return ", ".join(filter(None, (risk, undone(reversibility))))


def danger_by(risk: str, reversibility: str, rules: Iterable[str]) -> str:
    """Return how dangerous something is by its type and by rules, and which of that they say."""
    found = stricter(reversibility, rules)
    said = danger_of(risk, found)
    if found == reversibility:
        return said
    known = reversibility != "unknown"
    return f"{said} (a rule says so{f'; its type is {undone(reversibility)}' * known})"


def no_text(*, described: bool) -> str:
    """Say that an agent gave no exact text and, if it `described` its wish, lead up to that."""
    return f"It gave no exact text.{' The agent describes it as:' * described}"


def time_left(left: str, until: str) -> str:
    """Say how long there is to answer; of what has no end nothing is `left`."""
    return f"{left} left, until {until}." if left else "It waits without an end."
