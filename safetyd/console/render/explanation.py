"""Everything about one proposal as text: each decision, its reasons, and how to get it allowed.

The text after `now:` is the guard's current state, which may have been different at the decision.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from safetyd.cards.risk_words import danger_by
from safetyd.console.line_folding import fitted
from safetyd.console.render.layout import because, indented, names, when
from safetyd.console.terminal_text import columns, document, plain
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import CommandPart
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.decision_contract import (
    AuditPlace,
    DecisionExplained,
    ExplainAnswer,
    GuardExplained,
    LikeDecisions,
    OutcomeExplained,
    Step,
)

_SAID: Final = {
    "allow": "allowed",
    "require_confirmation": "needs approval",
    "block": "blocked",
}
_WITHHELD: Final = {
    "stopped": "an emergency stop began before the answer was sent",
    "late": "recording the decision took too long",
}
_THEN: Final = {"require_confirmation": "; then it needs approval"}
# Each step in words. _BY and _VIA are the prepositions before `by` and `via` of a step.
_STEPS: Final = {
    "asked": "approval requested",
    "told": "notification sent",
    "not_told": "notification failed",
    "deferred": "deferred",
    "lifted": "denial lifted",
    "answered": "answered",
    "held_back": "withheld after the answer",
    "cancelled": "cancelled",
    "expired": "expired without an answer",
    "superseded": "replaced by another request",
    "lapsed": "approval expired unused",
    "claimed": "claimed",
    "used": "approval used",
    "granted": "allowed by a grant",
    "committed_before": "files committed before the action",
    "committed": "files committed",
    "not_committed": "files not committed",
}
_BY: Final = {"told": "to", "not_told": "to"}
_VIA: Final = {"committed_before": "in", "committed": "in", "not_committed": "in"}
_HASH: Final = 16
_FIRST: Final = ("type", "text", "description", "rationale")


def account(view: ExplainAnswer) -> str:
    lines = [f"Proposal {plain(view.id)}"]
    for decided in view.decisions:
        lines += ["", *_decided(decided)]
    lines += _way(view.steps)
    if view.like:
        lines += ["", *_like(view.like)]
    for outcome in view.outcomes:
        lines += ["", _outcome(outcome)]
    for withheld in view.withheld:
        why = _WITHHELD[withheld.why]
        lines += ["", f"{when(withheld.at)} withheld (event {withheld.seq}): {why}"]
    return fitted("\n".join(lines), columns())


def _way(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the steps between the decision and the outcome."""
    told = [step for step in steps if step.what in _STEPS]
    if not told:
        return
    yield ""
    yield f"Steps since {when(steps[0].at)}"
    for step in told:
        passed_s = (step.at - steps[0].at).total_seconds()
        yield f"  +{duration(max(passed_s, 0.0)):<7}{_step(step)}"


def _step(step: Step) -> str:
    by = f" {_BY.get(step.what, 'by')} {plain(step.by)}" if step.by else ""
    way = _VIA.get(step.what, "via")
    via = f" {way} {plain(step.via)}" if step.via else ""
    ref = f" ({plain(step.ref)})" if step.ref else ""
    return f"{_STEPS[step.what]}{by}{via}{ref}{because(step.text)}"


def _like(like: LikeDecisions) -> Iterator[str]:
    counts = ((_SAID[decision], count) for decision, count in like.counts.items() if count)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts) or "none"
    yield f"Similar proposals since {when(like.since)}: {said}"
    for other in like.last:
        verdict = _SAID[other.decision]
        yield f"  {when(other.at)} {verdict}  {plain(other.agent)}  {plain(other.id)}"


def _outcome(outcome: OutcomeExplained) -> str:
    went = "success" if outcome.ok else f"failure{because(outcome.error, 2000)}"
    if outcome.host_denied:
        went = f"its host refused the action{because(outcome.host_denied, 2000)}"
    who = plain(outcome.agent)
    return f"{when(outcome.at)} {who} reported (event {outcome.seq}): {went}"


def _decided(decided: DecisionExplained) -> Iterator[str]:
    said = _SAID[decided.decision]
    note = "" if decided.first else "; a dry run or a repetition, so no budget was used"
    yield f"{when(decided.at)} {said} (event {decided.seq}{note})"
    yield from _why(decided)
    yield from indented(
        (
            ("agent", plain(decided.agent)),
            ("type", plain(decided.type)),
            ("judged", _judged(decided)),
            ("digest", plain(decided.digest.removeprefix("sha256:"))),
            *_place(decided.audit or None),
        )
    )
    yield "  guards"
    yield from (line for guard in decided.guards for line in _guard(guard))
    yield "  proposed"
    yield from (f"  {line}" for line in indented(_proposal(decided.proposal)))


def _place(place: AuditPlace | None) -> Iterator[tuple[str, str]]:
    if place:
        yield "audit", plain(f"{place.file}:{place.line}")
        yield "hash", plain(f"{place.hash[:_HASH]}… after {place.previous[:_HASH]}…")


def _judged(decided: DecisionExplained) -> str:
    restricting = (guard for guard in decided.guards if guard.restricted)
    rules = (rule for guard in restricting for rule in (guard.rule or "", *(guard.also or ())))
    danger = danger_by(decided.risk, decided.reversibility, rules)
    overruled = decided.tier == "auto_allowed" and decided.decided_by is not None
    by_type = " by its type alone" if overruled else ""
    return plain(f"{decided.tier}{by_type}, risk {danger}")


def _why(decided: DecisionExplained) -> Iterator[str]:
    if decided.decided_by is None:
        yield "  no guard objected"
        return
    yield f"  {plain(decided.decided_by)}: {plain(decided.reason, 2000)}"
    if decided.remedy:
        yield way_out(decided)


def way_out(decided: DecisionExplained) -> str:
    """Return one line that says what would have made the proposal allowed."""
    then = _THEN.get(decided.then or "", "")
    return f"  To be allowed: {plain(decided.remedy, 4000)}{then}"


def _guard(guard: GuardExplained) -> Iterator[str]:
    name = plain(guard.guard)
    if not guard.restricted:
        said = f"no objection; now: {plain(guard.now)}" if guard.now else "no objection"
        yield f"    {name}: {said}"
        return
    said = _SAID[guard.decision or "allow"]
    rules = names((guard.rule or "", *(guard.also or ())))
    yield f"    {name}: {said} by {rules}"
    yield f"      {plain(guard.reason or '', 2000)}"
    if guard.remedy:
        yield f"      allowed {plain(guard.remedy, 2000)}"
    yield from (line for part in guard.parts or () for line in _part(part))


def _part(part: CommandPart) -> Iterator[str]:
    """Yield the effect of a part of a command, its position, and the commands around it."""
    yield f"      `{plain(part.shown)}`: {plain(part.why)}"
    way = " → ".join(map(plain, part.way))
    program = f", {plain(part.program)}" if part.program else ""
    where = f"bytes {part.start} to {part.end}{f', in {way}' if way else ''}"
    yield f"        {plain(part.effect)}{program}, {where}"


def _proposal(proposal: Proposal) -> Iterator[tuple[str, str]]:
    said: dict[str, object] = msgspec.to_builtins(proposal)
    rest = [name for name in said if name not in _FIRST]
    for name in (*_FIRST, *rest):
        if name in said:
            yield plain(name, 40), _value(said[name])


def _value(value: object) -> str:
    return plain(value, 2000) if isinstance(value, str) else plain(document(value), 2000)
