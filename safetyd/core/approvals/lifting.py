"""What a grant lifts.

It is read narrowly, since agents choose their words: all of a proposal's words and paths must
match, and what its own words raised is not covered. A grant that names a rule lifts that rule
alone, also where it blocks; no other lifts a block.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.request_events import Granted
from safetyd.core.messages.money import nano
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOWED, ASK, BLOCK, Verdict
from safetyd.core.text.path_globs import Globs, place

# What these think of a proposal can be granted; limits, budgets and all that holds agents cannot.
LIFTABLE: Final = frozenset({"classify", "gate", "scores"})
# About single paths: who grants must have named paths.
PLACED: Final = frozenset(
    {
        *("classify.sensitive_path", "classify.protected_path", "classify.outside_project"),
        *("classify.unfollowed_paths", "gate.own_above"),
    }
)

Look = Callable[[str, frozenset[str]], Verdict]  # what a guard says if some rules were not there


class Grant(msgspec.Struct):
    made: Granted
    used: int = 0
    spent_nano: int = 0
    ends_t: float | None = None  # the steady second at which its time is over

    def over(self, at: datetime, t: float) -> bool:
        """Say whether its time is over, by either clock: the wall clock can be put back."""
        return at >= self.made.until or (self.ends_t is not None and t >= self.ends_t)

    @property
    def left(self) -> int:
        return self.made.uses - self.used

    @property
    def named(self) -> bool:
        """Whether it was made for one rule, which it lifts even where that blocks."""
        return bool(self.made.rules) and not self.made.request_id


def words(proposal: Proposal) -> tuple[str, ...]:
    """Return all that a text pattern must match; a proposal without words has an empty one."""
    target = proposal.target
    named = () if target is None else (target.label, target.name)
    return tuple(filter(None, (proposal.text, *named))) or ("",)


def lifted(
    verdict: Verdict, kind: Kind, grants: Sequence[Grant], look: Look
) -> tuple[Verdict, list[str]]:
    """Return what is left of a verdict, and the grants that lifted the rest."""
    if verdict.guard not in LIFTABLE:
        return verdict, []
    used, gone, rest = list[str](), frozenset[str](), verdict
    while rest.decision is BLOCK:
        grant = next((g for g in grants if g.named and rest.rule in {*g.made.rules} - gone), None)
        if grant is None:
            return rest, used
        used.append(grant.made.id)
        gone |= {rest.rule}
        rest = look(verdict.guard, gone)
    if rest.decision is not ASK:
        return rest, used
    answers = list(_answers(rest, kind, grants))
    return (ALLOWED, [*used, *answers]) if all(answers) else (rest, used)


def _answers(verdict: Verdict, kind: Kind, grants: Sequence[Grant]) -> Iterator[str]:
    """Yield the grant that answers each rule that asks, or an empty string."""
    for rule in (verdict.rule, *verdict.also):
        found = (g.made.id for g in grants if _lifts(g, verdict.guard, rule, kind))
        yield next(found, "")


def _lifts(grant: Grant, guard: str, rule: str, kind: Kind) -> bool:
    made = grant.made
    if grant.named:
        return rule in made.rules
    if kind.raised or "prohibited" in {kind.risk, kind.tier}:
        return False
    if made.request_id:
        return rule in made.rules
    return guard == "classify" and (rule not in PLACED or bool(made.paths))


def all_match(globs: Globs, proposed: Proposed) -> bool:
    """Say whether globs match every path, and where each leads."""
    places = [place(path, "") for path in (*proposed.proposal.paths, *proposed.resolved)]
    return bool(places) and all(not p.opaque and globs.find(p) is not None for p in places)


def affords(grant: Grant, max_usd: float, cost_nano: int | None) -> bool:
    """Say whether it costs little enough; what does not say its cost may cost anything."""
    return cost_nano is not None and grant.spent_nano + cost_nano <= nano(max_usd)


def cost(event: Proposed | Decided) -> int | None:
    said = event.proposal.cost_usd
    known = [nano(said)] if said is not None else []
    known += [] if event.priced_nano is None else [event.priced_nano]
    return max(known, default=None)
