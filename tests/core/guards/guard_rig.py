"""One guard by itself: what it says and causes, and what a journal would hold of it."""

from collections.abc import Callable
from typing import Generic, TypeVar

from safetyd.core.action_types import Kinds
from safetyd.core.actor import Guard
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Decided, Proposed, Settled
from safetyd.core.events.event import Event
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from tests.story import at, propose

KINDS = Kinds({}, "strict")

AnyGuard = TypeVar("AnyGuard", bound=Guard)


def nobody(*, keyless: bool) -> bool:
    """Say that no other agent with a key is known."""
    return False


def somebody(*, keyless: bool) -> bool:
    """Say that another agent with a key is known."""
    return True


class GuardRig(Generic[AnyGuard]):
    def __init__(self, make: Callable[[], AnyGuard]) -> None:
        self._make = make
        self.guard = make()
        self.journal: list[bytes] = []

    def looks(self, t: float, **fields: object) -> Verdict:
        """Only get an opinion."""
        proposed = propose(t, **fields)  # type: ignore[arg-type]
        return self.guard.check(proposed, KINDS.of(proposed.proposal))

    def asks(self, t: float, **fields: object) -> Verdict:
        """Propose and be decided about."""
        verdict = self.looks(t, **fields)
        self.hears(decided(propose(t, **fields), verdict))  # type: ignore[arg-type]
        return verdict

    def hears(self, *events: Event) -> list[Event]:
        """Return what the events caused, all of which the guard heard as well."""
        todo = list(events)
        for event in todo:
            if event.lasting:
                self.journal.append(encode(event))
            todo += self.guard.observe(event)
        return todo[len(events) :]

    def replayed(self) -> AnyGuard:
        """Return a guard that heard the journal and nothing else."""
        guard = self._make()
        for line in self.journal:
            guard.observe(decode(line))
        return guard

    def restored(self) -> AnyGuard:
        guard = self._make()
        guard.load(self.guard.save()())
        return guard


def decided(
    proposed: Proposed,
    verdict: Verdict = ALLOWED,
    *,
    decision: Severity | None = None,
    first: bool = True,
) -> Decided:
    kind = KINDS.of(proposed.proposal)
    return Decided(
        at=proposed.at,
        t=proposed.t,
        agent=proposed.agent,
        proposal=proposed.proposal,
        digest=proposed.digest,
        decision=decision or verdict.decision,
        type=kind.type,
        tier=kind.tier,
        reversibility=kind.reversibility,
        risk=kind.risk,
        keyless=proposed.keyless,
        verdicts=() if verdict is ALLOWED else (verdict,),
        first=first,
    )


def settled(
    t: float,
    id: str | None = "p1",  # noqa: A002
    agent: str = "code",
    *,
    ok: bool = True,
    **fields: object,
) -> Settled:
    return Settled(
        at=at(t),
        t=float(t),
        agent=agent,
        ok=ok,
        id=id,
        allowed_t=None if id is None else float(t),
        **fields,  # type: ignore[arg-type]
    )
