"""Grants: what a person permits for a while, so that nobody is asked about it each time."""

import heapq
from collections.abc import Container, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor, hearing, later, on
from safetyd.core.approvals.lifting import Grant, Look, affords, all_match, cost, lifted, words
from safetyd.core.events.decision_events import ClockStepped, Decided, Event, Proposed, Ticked
from safetyd.core.events.event import steady, wall
from safetyd.core.events.request_events import Granted, GrantEnded, GrantRevoked, GrantUsed
from safetyd.core.messages.binding import Seen, binding
from safetyd.core.messages.verdict import ALLOW, ALLOWED, Verdict
from safetyd.core.text.path_globs import Globs
from safetyd.core.text.patterns import PatternSet

MAX_GRANTS: Final = 1_000
MAX_PER_TICK: Final = 64


class GrantsState(msgspec.Struct):
    grants: dict[str, Grant] = {}  # live ones, oldest first


class Lifted(NamedTuple):
    """What still restricts, and the grants without which more would."""

    verdicts: tuple[Verdict, ...]
    grants: tuple[str, ...] = ()


class Patterns(NamedTuple):
    text: PatternSet | None
    paths: Globs | None


class Grants(Actor):
    """The live grants. They are bounded: whoever makes one asks first whether it is `full`."""

    name = "grants"
    _state: GrantsState

    def __init__(self) -> None:
        self._state = GrantsState()
        self._index()
        self.hears = hearing(
            on(Granted, self._granted),
            on(GrantUsed, self._used),
            on(GrantRevoked, self._revoked),
            on(GrantEnded, self._ended),
            on(ClockStepped, self._stepped),
            later(self.uses),
            on(Ticked, self._due),
        )

    @property
    def full(self) -> bool:
        return len(self._state.grants) >= MAX_GRANTS

    def live(self) -> list[Grant]:
        """Return every grant that is left, oldest first."""
        return list(self._state.grants.values())

    @property
    def wide(self) -> list[str]:
        """The grants by which any words of an agent pass, oldest first."""
        return [id_ for id_, grant in self._state.grants.items() if grant.made.wide]

    def find(self, id_: str) -> Grant | None:
        return self._state.grants.get(id_)

    def lift(
        self,
        proposed: Proposed,
        kind: Kind,
        verdicts: tuple[Verdict, ...],
        look: Look,
        only: Container[str] | None = None,
    ) -> Lifted:
        """Set aside what grants cover, or `only` some of them.

        A block may hide what the same guard would say without it, so `look` asks again.
        """
        mine = self._of_agent.get(proposed.agent)
        if not mine or kind.human:
            return Lifted(verdicts)
        some = (grant for id_, grant in mine.items() if only is None or id_ in only)
        covering = [grant for grant in some if self._covers(grant, proposed, kind)]
        left, used = list[Verdict](), dict[str, None]()
        for verdict in verdicts:
            rest, grants = lifted(verdict, kind, covering, look)
            used.update(dict.fromkeys(grants))
            if rest is not ALLOWED:
                left.append(rest)
        return Lifted(tuple(left), tuple(used))

    def uses(self, event: Decided) -> Sequence[Event]:
        """Return how an allow uses up grants."""
        if event.decision is not ALLOW:
            return ()
        known = (self._state.grants.get(id_) for id_ in event.grants)
        return [
            GrantUsed(
                at=event.at,
                t=event.t,
                grant=grant.made.id,
                agent=event.agent,
                id=event.id,
                left=grant.left - 1,
                cost_nano=cost(event) or 0,
            )
            for grant in known
            if grant is not None
        ]

    def load(self, saved: bytes) -> None:
        super().load(saved)
        self._index()

    def _covers(self, grant: Grant, proposed: Proposed, kind: Kind) -> bool:
        made = grant.made
        # Whoever takes a name whose key was revoked does not take what was granted to it.
        another = (made.keyed and proposed.keyless) or made.type not in {None, kind.type}
        if another or grant.over(proposed.at, proposed.t):
            return False
        if made.request_id and made.project != proposed.proposal.project:
            return False
        if made.seen is not None and not _again(made.seen, proposed, kind):
            return False
        text, paths = self._patterns[made.id]
        if text is not None and not all(text.find((word,)) for word in words(proposed.proposal)):
            return False
        if paths is not None and not all_match(paths, proposed):
            return False
        return made.max_usd is None or affords(grant, made.max_usd, cost(proposed))

    def _granted(self, event: Granted) -> None:
        grant = Grant(event, ends_t=steady(event.until, event))
        self._state.grants[event.id] = grant
        self._open(grant)

    def _used(self, event: GrantUsed) -> None:
        grant = self._state.grants.get(event.grant)
        if grant is None:
            return
        grant.used += 1
        grant.spent_nano += event.cost_nano
        if grant.left <= 0:
            self._close(event.grant)

    def _revoked(self, event: GrantRevoked) -> None:
        self._close(event.grant)

    def _ended(self, event: GrantEnded) -> None:
        for id_ in event.grants:
            self._close(id_)

    def _stepped(self, event: ClockStepped) -> None:
        """Let no grant last longer because the wall clock was put back."""
        for id_, grant in self._state.grants.items():
            if grant.ends_t is None or wall(grant.ends_t, event) >= grant.made.until:
                continue
            grant.made = msgspec.structs.replace(grant.made, until=wall(grant.ends_t, event))
            heapq.heappush(self._ends, (grant.made.until, id_))

    def _due(self, tick: Ticked) -> Sequence[Event]:
        """Say whose time is over, the earliest first; the heap may hold what is gone."""
        over: list[str] = []
        while self._ends and self._ends[0][0] <= tick.at and len(over) < MAX_PER_TICK:
            _, id_ = heapq.heappop(self._ends)
            if id_ in self._state.grants:
                over.append(id_)
        return (GrantEnded(at=tick.at, t=tick.t, grants=tuple(over)),) if over else ()

    def _open(self, grant: Grant) -> None:
        made = grant.made
        self._of_agent.setdefault(made.agent, {})[made.id] = grant
        self._patterns[made.id] = Patterns(
            None if made.text is None else PatternSet((made.text,)),
            Globs(made.paths) if made.paths else None,
        )
        heapq.heappush(self._ends, (made.until, made.id))

    def _close(self, id_: str) -> None:
        grant = self._state.grants.pop(id_, None)
        if grant is None:
            return
        del self._patterns[id_]
        mine = self._of_agent[grant.made.agent]
        del mine[id_]
        if not mine:
            del self._of_agent[grant.made.agent]

    def _index(self) -> None:
        self._of_agent: dict[str, dict[str, Grant]] = {}
        self._patterns: dict[str, Patterns] = {}
        self._ends: list[tuple[datetime, str]] = []
        for grant in self._state.grants.values():
            self._open(grant)


def _again(seen: Seen, proposed: Proposed, kind: Kind) -> bool:
    proposal = proposed.proposal
    action = binding(proposed.agent, kind.type, proposal, proposed.resolved)
    return seen.covers(action, proposal)
