"""Collects the verdicts of the guards on a proposal, and makes the decision."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import ALLOW, ALLOWED, BLOCK, Verdict, strictest
from safetyd.core.text.folding import masked


def restricting(
    guards: Iterable[Guard], proposed: Proposed, kind: Kind, *, again: bool = False
) -> list[Verdict]:
    """Return the restricting verdicts of all guards, in order.

    A guard that raises an exception blocks the action.
    """
    if not again:
        try:
            return [v for guard in guards if (v := guard.check(proposed, kind)) is not ALLOWED]
        except Exception:  # noqa: BLE001, S110 - then each is asked alone: `check` changes nothing
            pass
    each = (_asked(guard, proposed, kind, again=again) for guard in guards)
    return [verdict for verdict in each if verdict is not ALLOWED]


def _asked(guard: Guard, proposed: Proposed, kind: Kind, *, again: bool) -> Verdict:
    try:
        return (guard.check_again if again else guard.check)(proposed, kind)
    except Exception as exc:  # noqa: BLE001 - whatever it is
        rule = f"{guard.name}.failed"
        return Verdict(
            guard.name,
            BLOCK,
            rule,
            f"Guard {guard.name} failed, so the action is blocked: {exc!r}",
            cause="guard_error",
        )


def conflict(known: Decision) -> Verdict:
    """Return the block of a proposal whose id was already used for other content."""
    reason = f"Id {known.id} was used for another proposal at {known.at:%H:%M:%S}Z. Use a new id"
    return Verdict(
        "recall",
        BLOCK,
        "recall.conflict",
        reason,
        cause="conflict",
        remedy="with a new id",
    )


def decided(
    proposed: Proposed, kind: Kind, verdicts: tuple[Verdict, ...], *, first: bool
) -> Decided:
    """Return the `Decided` event with the strictest decision. Secrets are masked."""
    proposal = proposed.proposal
    if verdicts and any(verdict.masks_text for verdict in verdicts):
        proposal = msgspec.structs.replace(proposal, text=masked(proposal.text))
    return Decided(
        at=proposed.at,
        t=proposed.t,
        agent=proposed.agent,
        proposal=proposal,
        digest=proposed.digest,
        decision=strictest(verdicts).decision if verdicts else ALLOW,
        type=kind.type,
        tier=kind.tier,
        reversibility=kind.reversibility,
        risk=kind.risk,
        keyless=proposed.keyless,
        priced_nano=proposed.priced_nano,
        verdicts=verdicts,
        first=first,
        resolved=proposed.resolved,
        changed=proposed.changed,
        host=proposed.host,
    )


def proposed_again(asked: Decided, at: datetime, t: float) -> Proposed:
    """Return the proposal of a request as if it were proposed now."""
    return Proposed(
        at=at,
        t=t,
        agent=asked.agent,
        proposal=asked.proposal,
        digest=asked.digest,
        keyless=asked.keyless,
        priced_nano=asked.priced_nano,
        resolved=asked.resolved,
        changed=asked.changed,
        permission=asked.permission,
        host=asked.host,
    )
