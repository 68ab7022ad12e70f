"""Suggestions: rules that match past answers. They are shown, never applied automatically.

A suggested rule can block a kind of action, or add an unknown program to the table of programs. It
can also allow one exact text or commands of one shape. It allows nothing broader, because operators
have reviewed nothing else.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor, hearing, on
from safetyd.core.approvals.approved_shapes import Shape
from safetyd.core.approvals.assurance import says_all
from safetyd.core.approvals.grants import unknown_program
from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import UNPAUSE, Request
from safetyd.core.events.request_events import Answered
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.shape import pattern

# Kinds of requests; beyond that, the least recently answered one is dropped.
MAX_KINDS: Final = 1_000
ENOUGH: Final = 5  # equal answers that a suggestion requires, with no other answer
NAME_CHARS: Final = 64
TEXT_CHARS: Final = 200  # maximum length of a text; longer ones are unreadable

# Rules of the type table. A custom rule that allows lifts only these.
TABLE: Final = frozenset({"classify.high", "classify.unknown_type"})
_not_in_names = re.compile(r"[^A-Za-z0-9_.-]+").sub


class Count(msgspec.Struct):
    """The answers to requests with the same agent, type and project, and the same text if set."""

    agent: str
    type: str
    project: str | None
    text: str | None = None  # exact text or shape of a command; None: any text
    approved: int = 0
    by_table: int = 0  # approved requests that only the type table required
    denied: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    # An unknown program with its subcommand. Unset in older checkpoints.
    program: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def same(self) -> Shape:
        """What the requests have in common."""
        return Shape(self.agent, self.type, self.project, self.text or "")


class PastAnswersState(msgspec.Struct):
    kinds: dict[str, Count] = {}  # least recently answered first


class Suggestion(NamedTuple):
    """A rule that would have given the same answers, and the evidence for it."""

    then: Literal["allow", "block"]
    answers: Count
    name: str
    reason: str
    toml: str


class PastAnswers(Actor):
    """Counts past answers by kind of request. It must observe each answer after the queue does."""

    name = "history"
    _state: PastAnswersState

    def __init__(self, approvals: Approvals, reader: CommandReader) -> None:
        self._approvals = approvals
        self._reader = reader
        self._kinds = reader.kinds
        self._state = PastAnswersState()
        self.hears = hearing(on(Answered, self._answered))

    def suggestions(self, taken: Sequence[str] = ()) -> list[Suggestion]:
        """Return suggested rules, except those whose name is in `taken`."""
        counts = self._state.kinds.values()
        found = (suggestion_of(count, self._kinds.named(count.type)) for count in counts)
        return [each for each in found if each is not None and each.name not in taken]

    def _answered(self, event: Answered) -> None:
        request = self._approvals.find(event.request_id)
        if request is None or request.asked.type == UNPAUSE or not request.answered_by(event):
            return
        self._add(event, request, None)
        proposal = request.asked.proposal
        exact = says_all(proposal) and len(proposal.text) <= TEXT_CHARS
        if exact and not self._reader.runs_file(proposal):
            self._add(event, request, self._reader.shaped(proposal).text)
        if program := unknown_program(request.asked):
            self._add(event, request, None, program)

    def _add(self, event: Answered, request: Request, text: str | None, program: str = "") -> None:
        count = self._count_of(request, text, program)
        count.first_at, count.last_at = count.first_at or event.at, event.at
        if event.answer == "denied":
            count.denied += 1
            return
        count.approved += 1
        count.by_table += self._by_table(request)

    def _count_of(self, request: Request, text: str | None, program: str) -> Count:
        asked, kinds = request.asked, self._state.kinds
        project = asked.proposal.project
        named = (asked.agent, asked.type, project)
        key = json.dumps(named if text is None else (*named, text))
        key = f"{key} {program}" if program else key
        new = Count(asked.agent, asked.type, project, text, program=program or msgspec.UNSET)
        count = kinds.pop(key, None) or new
        kinds[key] = count
        if len(kinds) > MAX_KINDS:
            del kinds[next(iter(kinds))]
        return count

    def _by_table(self, request: Request) -> bool:
        raised = self._kinds.of(request.asked.proposal).raised
        return not raised and request.rules <= TABLE


def suggestion_of(count: Count, kind: Kind) -> Suggestion | None:
    """Return the rule that matches the answers to one kind of request, if any."""
    if kind.human:
        return None
    if count.program:
        known = count.approved >= ENOUGH and not count.denied
        return _row(count, count.program) if known else None
    if count.text is None:
        if count.denied >= ENOUGH and not count.approved:
            return _rule("block", count, f"denied {count.denied} times and never approved")
    elif count.by_table >= ENOUGH and not count.denied and kind.risk != "prohibited":
        return _rule("allow", count, f"approved {count.approved} times and never denied")
    return None


def forbidding(count: Count, reason: str) -> Suggestion:
    """Return a rule that blocks what the count is about."""
    return _rule("block", count, reason)


def _rule(then: Literal["allow", "block"], count: Count, reason: str) -> Suggestion:
    exact = "" if count.text is None else hashlib.sha256(count.text.encode()).hexdigest()[:6]
    parts = (then, count.agent, count.type, count.project or "")
    name = _not_in_names("_", "_".join(filter(None, parts)))[: NAME_CHARS - 7]
    name = f"{name}_{exact}" if exact else name
    lines = (
        "[[rules.custom]]",
        f"name = {toml_quoted(name)}",
        f"when = {{ {', '.join(_when(count))} }}",
        f"then = {toml_quoted(then)}",
        f"reason = {toml_quoted(reason)}",
    )
    return Suggestion(then, count, name, reason, "\n".join(lines))


def _row(count: Count, program: str) -> Suggestion:
    """Suggest an entry for the table of programs."""
    name, _, verb = program.partition(" ")
    reason = f"approved {count.approved} times and never denied"
    lines = (
        f"[shell.programs.{toml_quoted(name)}]  # {reason}",
        f"work = [{toml_quoted(verb)}]" if verb else 'effect = "work"',
    )
    return Suggestion("allow", count, f"shell_{name}", reason, "\n".join(lines))


def _when(count: Count) -> Iterator[str]:
    yield f"types = [{toml_quoted(count.type)}]"
    yield f"agents = [{toml_quoted(count.agent)}]"
    if count.project is not None:
        yield f"projects = [{toml_quoted(count.project)}]"
    if count.text is not None:
        yield f"text = {toml_quoted(pattern(count.text))}"
        yield "only_text = true"


def toml_quoted(word: str) -> str:
    """Return a word as a string of TOML."""
    return json.dumps(word, ensure_ascii=False).replace("\x7f", "\\u007f")
