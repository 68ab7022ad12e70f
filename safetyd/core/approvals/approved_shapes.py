"""Suggests grants for actions of one shape that operators approved often and never denied.

The approvals come from requests that an agent chose. So a suggested grant covers only actions like
those that were approved: the same fields, and commands in which only data differs (see `_pattern`).
Nothing irreversible or prohibited is suggested, and nothing about secrets, safetyd itself,
purchases, permissions, other machines or people. No grant is made automatically.
"""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeVar

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor, hearing, on
from safetyd.core.approvals.assurance import TERMINAL_ONLY
from safetyd.core.approvals.grants import Grants
from safetyd.core.approvals.host_calls import is_command_alone
from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import Answered, Granted, GrantRevoked, Learned
from safetyd.core.guards.gate.command_rules import EFFECT, PROGRAM
from safetyd.core.messages.binding import Seen, binding
from safetyd.core.messages.proposal import Proposal
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.reading import HOLE, RUNS_FILE, Access, Effect, Finding
from safetyd.core.shell.shape import exactly, in_words, narrowed

ENOUGH: Final = 10  # approvals
MONTH: Final = timedelta(days=30)  # they must be this recent; a grant ends after the same time
MAX_SHAPES: Final = 500  # beyond that, the least recently approved or denied ones are dropped
MAX_TEXTS: Final = 20  # most recent texts and approvals of one shape
TEXT_CHARS: Final = 200  # maximum length of a text; longer ones are unreadable
WORDS_CHARS: Final = 200
USES: Final = 1_000

V = TypeVar("V")

# Types that no suggested grant covers.
_NEVER: Final = TERMINAL_ONLY | {"install_package", "open_port"}
_RULES: Final = frozenset({"classify.high", "classify.unknown_type"})
_COMMAND_RULES: Final = (f"{EFFECT}{Effect.UNKNOWN}", PROGRAM, "gate.blocklist:")
_EFFECTS: Final = frozenset({Effect.READ, Effect.WORK, Effect.UNKNOWN})


class Shape(NamedTuple):
    """What requests have in common that one denial concerns."""

    agent: str
    type: str
    project: str | None
    text: str


class ShapeApprovals(msgspec.Struct, kw_only=True):
    """The approvals of actions with one shape, the same other fields and the same rules."""

    agent: str
    type: str
    project: str | None
    cwd: str | None
    shape: str
    seen: Seen
    rules: tuple[str, ...]  # the rules that the operators saw; the grant lifts exactly these
    keyed: bool
    request_id: str = ""  # the last request
    approved: list[datetime] = []  # the last approvals, oldest first
    texts: list[str] = []  # different texts that were approved, the latest last

    @property
    def same(self) -> Shape:
        return Shape(self.agent, self.type, self.project, self.shape)


class ApprovedShapesState(msgspec.Struct):
    shapes: dict[str, ShapeApprovals] = {}  # least recently approved first
    denied: dict[str, datetime] = {}  # when shapes were denied, least recently first


class GrantSuggestion(NamedTuple):
    """A grant that would have spared the approvals of one shape."""

    id: str  # the same as long as the grant would be the same
    approvals: ShapeApprovals
    text: str  # a pattern

    @property
    def learned(self) -> Learned:
        """The origin of the grant."""
        known = self.approvals
        return Learned(
            suggestion=self.id,
            shape=known.shape,
            approved=len(known.approved),
            since=known.approved[0],
        )


class ApprovedShapes(Actor):
    """Remembers approvals, and ends suggested grants at the first denial of their shape.

    It must observe each answer after the queue does.
    """

    name = "approved_shapes"
    _state: ApprovedShapesState

    def __init__(self, approvals: Approvals, grants: Grants, reader: CommandReader) -> None:
        self._approvals = approvals
        self._grants = grants
        self._reader = reader
        self._state = ApprovedShapesState()
        self.hears = hearing(on(Answered, self._answered))

    def suggestions(self, at: datetime) -> list[GrantSuggestion]:
        """Return the grants to suggest, the most frequently approved first."""
        learned = (grant.made.learned for grant in self._grants.live())
        made = {one.suggestion for one in learned if one is not None}
        found = (
            self._suggestion(one) for one in self._state.shapes.values() if self._is_due(one, at)
        )
        ranked = sorted(found, key=lambda one: (-len(one.approvals.approved), one.id))
        return [one for one in ranked if one.id not in made]

    def find(self, id_: str, at: datetime) -> GrantSuggestion | None:
        return next((one for one in self.suggestions(at) if one.id == id_), None)

    def _is_due(self, known: ShapeApprovals, at: datetime) -> bool:
        enough = len(known.approved) >= ENOUGH and at - known.approved[-ENOUGH] <= MONTH
        return enough and _is_ordinary(self._reader.kinds.named(known.type))

    def _answered(self, event: Answered) -> Sequence[Event]:
        request = self._approvals.find(event.request_id)
        if request is None or request.own or not request.answered_by(event):
            return ()
        proposal = request.asked.proposal
        shape = Shape(
            request.agent,
            request.asked.type,
            proposal.project,
            self._reader.shaped(proposal).text,
        )
        if event.answer == "denied":
            return self._denied(event, shape)
        before = self._state.denied.get(_key(shape))
        if (before is None or event.at - before > MONTH) and self._is_learnable(request):
            self._approved(event, request, shape)
        return ()

    def _approved(self, event: Answered, request: Request, shape: Shape) -> None:
        new, shapes = self._new(request, shape), self._state.shapes
        key = _key((new.seen.action.hex(), new.keyed, new.rules))
        known = shapes.pop(key, None) or new
        text = request.asked.proposal.text
        shapes[key] = msgspec.structs.replace(
            known,
            seen=new.seen,
            request_id=request.id,
            approved=[*known.approved, event.at][-MAX_TEXTS:],
            texts=[*(one for one in known.texts if one != text), text][-MAX_TEXTS:],
        )
        _shorten(shapes)

    def _denied(self, event: Answered, shape: Shape) -> Sequence[Event]:
        """Forget the approvals of a shape. End the grants that were suggested for it."""
        state, key = self._state, _key(shape)
        state.shapes = {name: known for name, known in state.shapes.items() if known.same != shape}
        state.denied.pop(key, None)
        state.denied[key] = event.at
        _shorten(state.denied)
        made = [grant.made for grant in self._grants.live() if grant.made.learned is not None]
        return [_ended(event, one) for one in made if _is_for(one, shape)]

    def _new(self, request: Request, shape: Shape) -> ShapeApprovals:
        asked, proposal = request.asked, request.asked.proposal
        shaped = self._reader.shaped(proposal)
        seen = Seen(
            action=binding(asked.agent, asked.type, shaped, asked.resolved),
            words=in_words(shape.text)[:WORDS_CHARS],
            shape=True,
        )
        return ShapeApprovals(
            agent=shape.agent,
            type=shape.type,
            project=shape.project,
            shape=shape.text,
            cwd=proposal.cwd,
            seen=seen,
            rules=tuple(sorted(request.rules)),
            keyed=not asked.keyless,
        )

    def _is_learnable(self, request: Request) -> bool:
        """Return whether approvals of an action may lead to a suggestion."""
        asked, proposal = request.asked, request.asked.proposal
        kind = self._reader.kinds.of(proposal)
        if asked.permission or asked.priced_nano or not is_command_alone(asked):
            return False
        if not proposal.text.replace("\n", "").isprintable() or len(proposal.text) > TEXT_CHARS:
            return False
        if asked.reversibility == "irreversible" or kind.raised or not _is_ordinary(kind):
            return False
        if not self._reader.reads(kind, proposal):
            return bool(proposal.text) and request.rules <= _RULES
        left = request.rules - _RULES
        found = self._reader.reading(proposal).findings
        return all(rule.startswith(_COMMAND_RULES) for rule in left) and all(map(_is_plain, found))

    def _suggestion(self, known: ShapeApprovals) -> GrantSuggestion:
        text = self._pattern(known)
        said = (known.seen.action.hex(), known.keyed, known.rules, text)
        return GrantSuggestion(f"sug_{_key(said)[:12]}", known, text)

    def _pattern(self, known: ShapeApprovals) -> str:
        """Return a pattern for the texts that a grant covers.

        Only messages, numbers and files that are written may differ from those that were approved.
        Other files may contain commands. If the effect of a command is unknown, nothing may differ.
        """
        proposals = [
            Proposal(type=known.type, text=text, project=known.project, cwd=known.cwd)
            for text in known.texts
        ]
        if not all(self._reader.reads(self._reader.kinds.of(one), one) for one in proposals):
            return exactly(known.texts)
        found = [finding for one in proposals for finding in self._reader.reading(one).findings]
        if not all(finding.passes for finding in found):
            return exactly(known.texts)
        touched = (touch for finding in found for touch in finding.touches)
        written = {touch.given for touch in touched if touch.access is Access.WRITE}
        return narrowed(known.shape, known.texts, written)


def _is_plain(finding: Finding) -> bool:
    """Return whether a command itself says what it runs, and that is nothing that is never granted.

    Commands from variables, other commands, input or files can change.
    """
    said = bool(finding.program) and not finding.way and HOLE not in finding.said
    ordinary = finding.effect in _EFFECTS and finding.type not in _NEVER
    return said and ordinary and not {"open_input", *RUNS_FILE} & {*finding.traits}


def _is_ordinary(kind: Kind) -> bool:
    """Return whether a type can be granted for a month."""
    barred = kind.human or kind.type in _NEVER or bool(kind.approve_via)
    return not barred and "prohibited" not in {kind.risk, kind.tier}


def _is_for(made: Granted, shape: Shape) -> bool:
    learned = made.learned
    said = "" if learned is None else learned.shape
    return (made.agent, made.type, made.project, said) == shape


def _ended(event: Answered, made: Granted) -> GrantRevoked:
    words = f": {event.words}" if event.words else ""
    return GrantRevoked(
        at=event.at,
        t=event.t,
        grant=made.id,
        agent=made.agent,
        by=event.by,
        reason=f"denied {event.request_id}{words}",
        request_id=event.request_id,
    )


def _key(said: object) -> str:
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _shorten(entries: dict[str, V]) -> None:
    if len(entries) > MAX_SHAPES:
        del entries[next(iter(entries))]
