"""The account of one proposal: what every guard thought of it, and what would have let it pass.

What was decided comes from the audit lines, with the numbers of that moment. Of the guards that did
not restrict it only today's numbers are known, and they are told apart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.decision_events import Decided, Reported, Withheld
from safetyd.core.events.event import Event, Moment
from safetyd.core.guards import Chain
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.messages.verdict import CommandPart, Severity, Verdict, all_of, strictest
from safetyd.operators.replies import Done
from safetyd.operators.views.paging import PAGE_BYTES, fitting

# What each guard says now, by its name, of a proposal like one that was decided.
Today = Callable[[Decided], Mapping[str, str]]

BY_A_PERSON: Final = "by a person"


class GuardExplained(msgspec.Struct, frozen=True, kw_only=True):
    """What a guard thought, if it restricted; else `now`, where it stands today if that is known.

    `remedy` completes "allowed ...": what would have let the proposal pass this guard.
    """

    guard: str
    restricted: bool
    decision: Severity | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    also: tuple[str, ...] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    remedy: str | UnsetType = UNSET
    parts: tuple[CommandPart, ...] | UnsetType = UNSET  # of a command, that do not pass
    now: str | UnsetType = UNSET


class DecisionExplained(msgspec.Struct, frozen=True, kw_only=True):
    """`remedy` is the smallest change that would have turned the decision, into `then`.

    It completes "allowed ..."; empty if nobody knows. `guards` are in the order of the chain.
    """

    seq: int
    at: datetime
    agent: str
    type: str
    tier: Tier
    risk: Risk
    reversibility: Reversibility
    decision: Severity
    decided_by: str | None  # the guard that gave the reason
    reason: str
    remedy: str
    then: Severity | None
    first: bool
    digest: str
    guards: tuple[GuardExplained, ...]
    proposal: Proposal


class OutcomeExplained(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: datetime
    agent: str
    ok: bool
    error: str


class WithheldExplained(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: datetime
    why: Literal["stopped", "late"]


class ExplainAnswer(Done, frozen=True, kw_only=True):
    id: str
    decisions: tuple[DecisionExplained, ...]
    outcomes: tuple[OutcomeExplained, ...]
    withheld: tuple[WithheldExplained, ...]


class Story(NamedTuple):
    """What the audit lines say of one id."""

    id: str
    decided: list[Decided]
    outcomes: list[OutcomeExplained]
    withheld: list[WithheldExplained]


def story(lines: Sequence[bytes], id_: str) -> Story | None:
    """Return what was decided about a proposal and how it went; None if nothing was."""
    told = Story(id_, [], [], [])
    for line in lines:
        match _read(line):
            case Decided() as event if event.id == id_:
                told.decided.append(event)
            case Reported(telemetry=Outcome(id=named) as outcome) as event if named == id_:
                told.outcomes.append(_outcome(event, outcome))
            case Withheld() as event if event.id == id_:
                told.withheld.append(_withheld(event))
    return told if told.decided else None


def explain(told: Story, today: Today, max_bytes: int = PAGE_BYTES) -> ExplainAnswer:
    """Return the account of a proposal, with what `today` says of guards that did not restrict.

    If there are too many decisions, repeats give way to first ones and older to newer ones.
    """
    foremost = sorted(told.decided, key=lambda event: (event.first, event.seq), reverse=True)
    rows = (_decided(event, today(event)) for event in foremost)
    newest = next(rows)
    room = max_bytes - len(msgspec.json.encode((newest, told.outcomes, told.withheld)))
    decisions = sorted((newest, *fitting(rows, room)), key=attrgetter("seq"))
    return ExplainAnswer(
        ok=True,
        id=told.id,
        decisions=tuple(decisions),
        outcomes=tuple(told.outcomes),
        withheld=tuple(told.withheld),
    )


def today_of(engine: Engine, moment: Moment) -> Today:
    return lambda event: {guard.name: guard.now(event, moment) for guard in engine.guards}


def untold(_event: Decided) -> Mapping[str, str]:
    """Stand for today where there is no engine to ask."""
    return {}


def _read(line: bytes) -> Event | None:
    """Return None for a line that says nothing: a file's first, or one that was damaged."""
    try:
        return decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _outcome(event: Reported, outcome: Outcome) -> OutcomeExplained:
    return OutcomeExplained(
        seq=event.seq, at=event.at, agent=event.agent, ok=outcome.ok, error=outcome.error
    )


def _withheld(event: Withheld) -> WithheldExplained:
    return WithheldExplained(seq=event.seq, at=event.at, why=event.why)


def _decided(event: Decided, today: Mapping[str, str]) -> DecisionExplained:
    headline = strictest(event.verdicts)
    remedy, then = _way_out(event.verdicts, headline.decision)
    return DecisionExplained(
        seq=event.seq,
        at=event.at,
        agent=event.agent,
        type=event.type,
        tier=event.tier,
        risk=event.risk,
        reversibility=event.reversibility,
        decision=event.decision,
        decided_by=headline.guard or None,
        reason=headline.reason,
        remedy=remedy,
        then=then,
        first=event.first,
        digest=event.digest,
        guards=tuple(_guards(event.verdicts, today)),
        proposal=event.proposal,
    )


def _way_out(verdicts: Sequence[Verdict], decided: Severity) -> tuple[str, Severity | None]:
    """Return the smallest change that would have turned the decision, and what it were then.

    Everything that restricts most must be lifted; what restricts less remains.
    """
    remedy = all_of(verdict.remedy for verdict in verdicts if verdict.decision is decided)
    if decided is Severity.ASK:
        return f"{BY_A_PERSON}, or {remedy}" if remedy else BY_A_PERSON, Severity.ALLOW
    if not remedy:
        return "", None
    others = (verdict for verdict in verdicts if verdict.decision is not decided)
    return remedy, strictest(others).decision


def _guards(verdicts: Sequence[Verdict], today: Mapping[str, str]) -> Iterator[GuardExplained]:
    """Yield every guard in the order of the chain; first what is no guard and restricted."""
    said = {verdict.guard: verdict for verdict in reversed(verdicts)}
    others = [guard for guard in said if guard not in Chain._fields]
    for guard in (*others, *Chain._fields):
        verdict = said.get(guard)
        yield _thought(verdict) if verdict else _stands(guard, today.get(guard, ""))


def _thought(verdict: Verdict) -> GuardExplained:
    return GuardExplained(
        guard=verdict.guard,
        restricted=True,
        decision=verdict.decision,
        rule=verdict.rule,
        also=verdict.also,
        reason=verdict.reason,
        remedy=verdict.remedy,
        parts=verdict.parts or UNSET,
    )


def _stands(guard: str, now: str) -> GuardExplained:
    return GuardExplained(guard=guard, restricted=False, now=now)
