"""Finds a proposal and similar ones in the audit files; runs in a worker thread."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from safetyd.core.action_types import Kinds
from safetyd.core.events.decision_events import Decided
from safetyd.core.messages.binding import action_key
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.reading import HOLE
from safetyd.journal.audit_reading import (
    DECIDED,
    NewestFirst,
    ReadingBounds,
    Rests,
    is_before,
    placed_lines,
    read_event,
    second_of,
    time_on,
)
from safetyd.operators.contract.decision_contract import (
    DecisionRow,
    DecisionsQuestion,
    ExplainQuestion,
    LikeDecision,
    LikeDecisions,
)
from safetyd.operators.proposal_trail import Trail
from safetyd.operators.views.decision_view import decisions

WEEK: Final = timedelta(days=7)
SHOWN: Final = 5
BOUNDS: Final = ReadingBounds(seconds=1.5)

_encode = msgspec.json.Encoder().encode


class Searched(NamedTuple):
    trail: Trail
    like: LikeDecisions | None


def search(
    audit: Path,
    asked: ExplainQuestion,
    max_bytes: int,
    policy: Policy | None = None,
    rests: Rests | None = None,
) -> Searched | None:
    """Return the decisions and events about a proposal in the audit files, or None.

    The policy decides which commands have the same shape. Raises OSError.
    """
    rests = rests or Rests()
    name = asked.id or _last(audit, asked.last, rests)
    trail = Trail(name, max_bytes).follow(placed_lines(audit, rests) if name else ())
    if not trail.decided:
        return None
    if policy is None:
        return Searched(trail, None)
    reader = policy.reader(Kinds(policy.types, policy.profile))
    newest = trail.decided[-1]
    return Searched(trail, like(NewestFirst(audit, None, BOUNDS, rests), newest, reader))


def like(lines: NewestFirst, decided: Decided, reader: CommandReader) -> LikeDecisions:
    """Return how similar proposals were decided in the week up to the newest line."""
    is_alike, parts = _comparing(decided, reader), _said_by_all(decided, reader)
    counts = dict.fromkeys(Severity, 0)
    last: list[LikeDecision] = []
    week, oldest, ended = b"", b"", False
    for line in lines:
        week = week or second_of((time_on(line) or decided.at) - WEEK)
        if is_before(line, week):
            ended = True
            break
        oldest = line
        other = read_event(line) if _has(line, parts) else None
        if isinstance(other, Decided) and other.id != decided.id and is_alike(other):
            counts[other.decision] += 1
            last += [_row(other)] if len(last) < SHOWN else []
    return LikeDecisions(
        since=time_on(oldest) or decided.at,
        whole=ended or lines.ended,
        counts=counts,
        last=tuple(last),
    )


def _has(line: bytes, parts: tuple[bytes, ...]) -> bool:
    return line.startswith(DECIDED) and all(part in line for part in parts)


def _comparing(decided: Decided, reader: CommandReader) -> Callable[[Decided], bool]:
    """Return a function that returns True for decisions about the same kind of action."""

    def key(event: Decided) -> bytes:
        return action_key("", event.type, reader.shaped(event.proposal))

    wanted = key(decided)
    return lambda other: other.first and key(other) == wanted


def _said_by_all(decided: Decided, reader: CommandReader) -> tuple[bytes, ...]:
    """Return texts that appear in the line of every similar decision, to skip most lines quickly.

    A shape is a text with placeholders, so texts of one shape start with the same words.
    """
    kind = b'"type":%b,"tier"' % _encode(decided.type)
    text = decided.proposal.text
    shaped = reader.shaped(decided.proposal).text
    if shaped == text:
        return (kind, b'"text":%b' % _encode(text)) if text else (kind,)
    words, _, _ = shaped.partition(HOLE)
    return kind, b'"text":%b' % _encode(words)[:-1]


def _row(event: Decided) -> LikeDecision:
    return LikeDecision(
        seq=event.seq, at=event.at, id=event.id, agent=event.agent, decision=event.decision
    )


def _last(audit: Path, agent: str, rests: Rests) -> str:
    """Return the id of the newest decision for an agent."""
    asked = DecisionsQuestion(agent=agent, limit=1)
    while True:
        answer = decisions(NewestFirst(audit, asked.before, BOUNDS, rests), asked)
        for row in answer.rows:
            return row.id if isinstance(row, DecisionRow) else ""
        if not answer.more:
            return ""
        asked = msgspec.structs.replace(asked, before=answer.before)
