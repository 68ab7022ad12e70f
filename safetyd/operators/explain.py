"""Explains a proposal: the verdict of every guard, and changes that would make it allowed.

The decision comes from the audit lines, with the numbers of that time. For guards that did not
restrict it, only their current numbers are known; they are marked with `now`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import UNSET

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Decided, Reported, Withheld
from safetyd.core.events.event import Event, Moment
from safetyd.core.guards.guard_chain import Chain
from safetyd.core.messages.telemetry import HOST_DENIED, Outcome
from safetyd.core.messages.verdict import Severity, Verdict, all_of, strictest
from safetyd.operators.contract.decision_contract import (
    AuditPlace,
    DecisionExplained,
    ExplainAnswer,
    GuardExplained,
    OutcomeExplained,
    WithheldExplained,
)
from safetyd.operators.explain_search import Searched
from safetyd.operators.views.paging import PAGE_BYTES, fitting

# The current state of each guard for a proposal like the given one, by guard.
Today = Callable[[Decided], Mapping[str, str]]

BY_A_PERSON: Final = "by a person"


def explain(found: Searched, today: Today, max_bytes: int = PAGE_BYTES) -> ExplainAnswer:
    """Explain a proposal. `today` adds the current state of guards that did not restrict it.

    If there are too many decisions, repeated ones are dropped first, oldest first.
    """
    trail, like = found
    outcomes = tuple(filter(None, map(_outcome, trail.events)))
    withheld = tuple(_withheld(event) for event in trail.events if isinstance(event, Withheld))
    steps = trail.steps()
    foremost = sorted(trail.decided, key=lambda event: (event.first, event.seq), reverse=True)
    rows = (decision_explained(event, today(event), trail.places[event.seq]) for event in foremost)
    newest = next(rows)
    room = max_bytes - len(msgspec.json.encode((newest, outcomes, withheld, steps, like)))
    decisions = sorted((newest, *fitting(rows, room)), key=attrgetter("seq"))
    return ExplainAnswer(
        ok=True,
        id=trail.id,
        decisions=tuple(decisions),
        outcomes=outcomes,
        withheld=withheld,
        steps=steps,
        like=like or UNSET,
    )


def today_of(state: EngineState, moment: Moment) -> Today:
    return lambda event: {guard.name: guard.now(event, moment) for guard in state.guards}


def untold(_event: Decided) -> Mapping[str, str]:
    """Return nothing, because there is no engine."""
    return {}


def _outcome(event: Event) -> OutcomeExplained | None:
    if not isinstance(event, Reported) or not isinstance(outcome := event.telemetry, Outcome):
        return None
    details = outcome.details if isinstance(outcome.details, dict) else {}
    return OutcomeExplained(
        seq=event.seq,
        at=event.at,
        agent=event.agent,
        ok=outcome.ok,
        error=outcome.error,
        host_denied=str(details.get(HOST_DENIED, "")),
    )


def _withheld(event: Withheld) -> WithheldExplained:
    return WithheldExplained(seq=event.seq, at=event.at, why=event.why)


def decision_explained(
    event: Decided, today: Mapping[str, str], place: AuditPlace | None = None
) -> DecisionExplained:
    """Explain one decision. `today` adds the current state of the other guards."""
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
        audit=place or UNSET,
    )


def _way_out(verdicts: Sequence[Verdict], decided: Severity) -> tuple[str, Severity | None]:
    """Return the smallest change that would have changed the decision, and the new decision.

    All of the strictest verdicts must be lifted; weaker ones remain.
    """
    remedy = all_of(verdict.remedy for verdict in verdicts if verdict.decision is decided)
    if decided is Severity.ASK:
        return f"{BY_A_PERSON}, or {remedy}" if remedy else BY_A_PERSON, Severity.ALLOW
    if not remedy:
        return "", None
    others = (verdict for verdict in verdicts if verdict.decision is not decided)
    return remedy, strictest(others).decision


def _guards(verdicts: Sequence[Verdict], today: Mapping[str, str]) -> Iterator[GuardExplained]:
    """Yield other sources of verdicts, then every guard in the order of the chain."""
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
