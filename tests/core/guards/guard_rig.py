"""A single guard: its verdicts and events, and its state rebuilt from a journal."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec
from hypothesis import strategies as st

from safetyd.core.action_types import Kinds
from safetyd.core.actor import Guard
from safetyd.core.engine import evaluation
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Decided, Proposed, Settled
from safetyd.core.events.event import Event
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, strictest
from tests.story import at, propose

KINDS = Kinds({}, "strict")
OTHER_ASKS = Verdict("other", Severity.ASK, "other.asks", "another guard asks")
OTHER_BLOCKS = Verdict("other", Severity.BLOCK, "other.blocks", "another guard blocks")

AnyGuard = TypeVar("AnyGuard", bound=Guard)
# How long after the one before, what happened, what another guard thinks, and whether it is new.
Step = tuple[float, Event, Verdict, bool]


def nobody(*, keyless: bool) -> bool:
    """Pretend that no other agent with a key is known."""
    return False


def somebody(*, keyless: bool) -> bool:
    """Pretend that another agent with a key is known."""
    return True


class GuardRig(Generic[AnyGuard]):
    def __init__(self, make: Callable[[], AnyGuard]) -> None:
        self._make = make
        self.guard = make()
        self.journal: list[bytes] = []

    def looks(self, t: float, **fields: object) -> Verdict:
        """Return the verdict without deciding."""
        return look(self.guard, propose(t, **fields))  # type: ignore[arg-type]

    def asks(self, t: float, **fields: object) -> Verdict:
        """Propose, and observe the decision."""
        verdict = self.looks(t, **fields)
        self.hears(decided(propose(t, **fields), verdict))  # type: ignore[arg-type]
        return verdict

    def hears(self, *events: Event) -> list[Event]:
        """Return the events that were caused. The guard observes them as well."""
        todo = list(events)
        for event in todo:
            if event.lasting:
                self.journal.append(encode(event))
            todo += self.guard.observe(event)
        return todo[len(events) :]

    def assert_rebuilt(self, last: Proposed) -> list[AnyGuard]:
        """Return the guard and those rebuilt from its journal and its checkpoint: all agree."""
        guards = [self.guard, replayed(self._make(), self.journal), self._make()]
        guards[2].load(self.guard.save()())
        assert len({guard.save()() for guard in guards}) == 1
        assert len({look(guard, last) for guard in guards}) == 1
        return guards


def look(guard: Guard, proposed: Proposed, kinds: Kinds = KINDS) -> Verdict:
    return guard.check(proposed, kinds.of(proposed.proposal))


def propose_to(guard: Guard, proposed: Proposed) -> Verdict:
    """Propose to a single guard, and let it observe the decision."""
    verdict = look(guard, proposed)
    assert guard.observe(decided(proposed, verdict)) == ()
    return verdict


def decided(
    proposed: Proposed,
    *verdicts: Verdict,
    decision: Severity | None = None,
    first: bool = True,
    kinds: Kinds = KINDS,
) -> Decided:
    """Return the decision of the strictest verdict."""
    verdict = strictest(verdicts)
    restricting = () if verdict is ALLOWED else (verdict,)
    kind = kinds.of(proposed.proposal)
    event = evaluation.decided(proposed, kind, restricting, first=first)
    event.decision = decision or event.decision
    return event


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


def rules(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.rule, *verdict.also) if verdict.rule else ()


def stories(events: st.SearchStrategy[Event], most: int = 40) -> st.SearchStrategy[list[Step]]:
    gaps = st.sampled_from([0.0, 0.25, 1.0, 4.75, 30.0, 60.0, 61.0])
    others = st.sampled_from([ALLOWED, ALLOWED, OTHER_ASKS, OTHER_BLOCKS])
    new = st.sampled_from([True, True, True, False])
    return st.lists(st.tuples(gaps, events, others, new), max_size=most)


def moved(event: Event, t: float) -> Event:
    return msgspec.structs.replace(event, at=at(t), t=t)


def replayed(guard: AnyGuard, journal: Iterable[bytes]) -> AnyGuard:
    for line in journal:
        guard.observe(decode(line))
    return guard


def assert_retold(
    make: Callable[[], Guard], story: list[Step], last: Proposed, kinds: Kinds = KINDS
) -> None:
    """A guard rebuilt from the journal, and a loaded one, have the same state and verdicts."""
    live, loaded, t = make(), make(), 0.0
    journal: list[bytes] = []
    for gap, event, other, first in story:
        t += gap
        happened = moved(event, t)
        if isinstance(happened, Proposed):
            own = look(live, happened, kinds)
            happened = decided(happened, own, other, first=first, kinds=kinds)
        journal += map(encode, (happened, *live.observe(happened)))
    loaded.load(live.save()())
    again = replayed(make(), journal)

    assert again.save()() == loaded.save()() == live.save()()
    for later in (0.0, 1.0, 30.0, 60.0):
        asked = msgspec.structs.replace(last, t=t + later, at=at(t + later))
        said = look(live, asked, kinds)
        assert look(again, asked, kinds) == look(loaded, asked, kinds) == said
