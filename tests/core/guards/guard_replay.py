"""A story told to one guard, and told again from its journal."""

from collections.abc import Callable, Iterable

import msgspec
from hypothesis import strategies as st

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, strictest
from tests.core.guards.gate.gate_rig import decided, kinds
from tests.story import at

OTHER_ASKS = Verdict("other", Severity.ASK, "other.asks", "another guard asks")
OTHER_BLOCKS = Verdict("other", Severity.BLOCK, "other.blocks", "another guard blocks")

others = st.sampled_from([ALLOWED, ALLOWED, OTHER_ASKS, OTHER_BLOCKS])
gaps = st.sampled_from([0.0, 0.25, 1.0, 4.75, 30.0, 60.0, 61.0])

# How long after the one before, what happened, what another guard thinks, and whether it is new.
Step = tuple[float, Event, Verdict, bool]


def stories(events: st.SearchStrategy[Event], most: int = 40) -> st.SearchStrategy[list[Step]]:
    new = st.sampled_from([True, True, True, False])
    return st.lists(st.tuples(gaps, events, others, new), max_size=most)


def tell(guard: Guard, story: Iterable[Step]) -> list[Event]:
    """Return what was journalled."""
    t, journal = 0.0, list[Event]()
    for gap, event, other, first in story:
        t += gap
        happened = moved(event, t)
        if isinstance(happened, Proposed):
            happened = ruled(happened, look(guard, happened), other, first=first)
        journal += [happened, *guard.observe(happened)]
    return journal


def propose_to(guard: Guard, proposed: Proposed) -> Verdict:
    """Propose to one guard alone and be decided about."""
    verdict = look(guard, proposed)
    assert guard.observe(decided(proposed, verdict)) == ()
    return verdict


def look(guard: Guard, proposed: Proposed) -> Verdict:
    return guard.check(proposed, kind_of(proposed))


def kind_of(proposed: Proposed) -> Kind:
    return kinds().of(proposed.proposal)


def ruled(proposed: Proposed, *verdicts: Verdict, first: bool = True) -> Decided:
    return decided(proposed, strictest(verdicts), first=first)


def moved(event: Event, t: float) -> Event:
    return msgspec.structs.replace(event, at=at(t), t=t)


def assert_retold(make: Callable[[], Guard], story: list[Step], last: Proposed) -> None:
    """A guard that heard only the journal, and one that was loaded, know and say the same."""
    live, replayed, loaded = make(), make(), make()
    lines = [encode(event) for event in tell(live, story)]
    for line in lines:
        replayed.observe(decode(line))
    loaded.load(live.save()())

    assert replayed.save()() == loaded.save()() == live.save()()
    t = sum(gap for gap, *_ in story)
    for later in (0.0, 1.0, 30.0, 60.0):
        asked = msgspec.structs.replace(last, t=t + later, at=at(t + later))
        assert look(replayed, asked) == look(loaded, asked) == look(live, asked)
