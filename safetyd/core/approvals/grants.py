"""Grants: actions that an operator approves in advance, for a limited time.

Agents choose their words, so grants are strict. All texts and paths of a proposal must match. An
action that the agent itself rated higher than its type is not covered. A grant that names a rule
lifts only that rule, even if the rule blocks. Other grants never lift a block.
"""

import heapq
import re
from collections.abc import Callable, Container, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor, hearing, later, on
from safetyd.core.approvals.host_calls import is_command_alone, project_folder
from safetyd.core.approvals.shown_calls import are_like, shown_words
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event, Ticked, steady, wall
from safetyd.core.events.request_events import Granted, GrantEnded, GrantRevoked, GrantUsed
from safetyd.core.messages.binding import Seen, binding
from safetyd.core.messages.money import nano
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOW, ALLOWED, ASK, BLOCK, Verdict
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.reading import HOLE, Effect, Finding
from safetyd.core.text.path_globs import Globs, place
from safetyd.core.text.patterns import PatternSet
from safetyd.core.text.proposal_patches import patch_of

# Grants can lift verdicts of these guards, but no limits, budgets, stops or pauses.
TABLE: Final = "classify.high"
LIFTABLE: Final = frozenset({"classify", "gate", "scores"})

# Rules about single paths: only a grant with paths lifts them.
PLACED: Final = frozenset(
    {
        *("classify.sensitive_path", "classify.protected_path", "classify.outside_project"),
        *("classify.unfollowed_paths", "classify.unreadable_patch", "gate.own_above"),
        *("classify.executable_bit", "classify.no_folder", "classify.symlink"),
    }
)

Look = Callable[[str, frozenset[str]], Verdict]  # returns a guard's verdict without some rules
MAX_GRANTS: Final = 1_000
MAX_PER_TICK: Final = 64


class Grant(msgspec.Struct):
    made: Granted
    used: int = 0
    spent_nano: int = 0
    ends_t: float | None = None  # when it ends, by the steady clock

    def over(self, at: datetime, t: float) -> bool:
        """Return whether the grant has ended by the wall clock or by the steady clock.

        Both are checked, because the wall clock can be set back.
        """
        return at >= self.made.until or (self.ends_t is not None and t >= self.ends_t)

    @property
    def left(self) -> int:
        return self.made.uses - self.used

    @property
    def named(self) -> bool:
        """True if the grant names a rule, which it lifts even if the rule blocks."""
        return bool(self.made.rules) and not self.made.request_id


def words(proposal: Proposal) -> tuple[str, ...]:
    """Return the texts that a pattern must match, or one empty text if there are none."""
    target = proposal.target
    named = () if target is None else (target.label, target.name)
    return tuple(filter(None, (proposal.text, *named))) or ("",)


def lifted(
    verdict: Verdict, kind: Kind, grants: Sequence[Grant], look: Look
) -> tuple[Verdict, list[str]]:
    """Return the rest of a verdict that no grant lifts, and the grants that lifted parts of it."""
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
    """Yield, for each rule of a verdict, the id of a grant that lifts it, or an empty string."""
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


def all_match(globs: Globs, proposed: Proposed, kind: Kind, root: str) -> bool:
    """Return whether globs match every path, resolved path and patched file."""
    proposal = proposed.proposal
    patch = patch_of(proposal, edits=kind.edits)
    touched = (*proposal.paths, *proposed.resolved, *(file.path for file in patch.files))
    places = [place(path, root, proposal.cwd) for path in touched]
    # The targets of links in a command are not all that it touches.
    known = bool(proposal.paths or patch.files) and not patch.problem
    return known and all(not p.opaque and globs.find(p) is not None for p in places)


def affords(grant: Grant, max_usd: float, cost_nano: int | None) -> bool:
    """Return whether a grant has enough money left for a cost. An unknown cost is never covered."""
    return cost_nano is not None and grant.spent_nano + cost_nano <= nano(max_usd)


def cost(event: Proposed | Decided) -> int | None:
    said = event.proposal.cost_usd
    known = [nano(said)] if said is not None else []
    known += [] if event.priced_nano is None else [event.priced_nano]
    return max(known, default=None)


def _begins(finding: Finding, program: str, text: str) -> bool:
    """Return whether a command begins with a program, or enters a folder of the project before.

    Nothing else before it can change what it means. Its arguments must not contain the output of
    another command.
    """
    entered = _ENTERS.match(text)
    start = 0 if entered is None else entered.end()
    plain = finding.start == start and not finding.way and HOLE not in finding.said
    return plain and f"{text[start:]} ".startswith(f"{program} ")


_ENTERS: Final = re.compile(r"cd (?![-/])(?!\S*\.\.)[A-Za-z0-9._/-]+ && ")


def unknown_program(asked: Decided) -> str:
    """Return the unknown program of a command, with its subcommand, if there is exactly one."""
    parts = [part for verdict in asked.verdicts for part in verdict.parts]
    programs = {part.program for part in parts}
    if len(programs) != 1 or any(part.effect != Effect.UNKNOWN for part in parts):
        return ""
    return programs.pop() if is_command_alone(asked) else ""


def _belongs(made: Granted, proposal: Proposal) -> bool:
    """Return whether a proposal is in the project and session of a grant."""
    if made.request_id and made.project != proposal.project:
        return False
    return made.session is None or made.session == proposal.session


class GrantsState(msgspec.Struct):
    grants: dict[str, Grant] = {}  # active grants, oldest first


class Lifted(NamedTuple):
    """The remaining verdicts, and the grants that lifted the others."""

    verdicts: tuple[Verdict, ...]
    grants: tuple[str, ...] = ()


class Patterns(NamedTuple):
    text: PatternSet | None
    paths: Globs | None


class Grants(Actor):
    """The active grants. Check `full` before adding one."""

    name = "grants"
    _state: GrantsState

    def __init__(self, reader: CommandReader) -> None:
        self._reader = reader
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
        """Return the active grants, oldest first."""
        return list(self._state.grants.values())

    @property
    def wide(self) -> list[str]:
        """The ids of grants that accept any text, oldest first."""
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
        """Remove the verdicts that grants cover. Use all grants, or `only` some.

        A block may hide other verdicts of the same guard, so `look` asks the guard again.
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
        """Return an event for each grant that an allowed action uses."""
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
        # An anonymous agent does not inherit the grants of a name whose key was revoked.
        another = (made.keyed and proposed.keyless) or made.type not in {None, kind.type}
        graver = made.learned is not None and (
            kind.reversibility == "irreversible" or self._reader.runs_file(proposed.proposal)
        )
        if another or graver or grant.over(proposed.at, proposed.t):
            return False
        if not _belongs(made, proposed.proposal) or not self._worded(made.id, proposed, kind):
            return False
        if made.seen is not None and not self._again(made.seen, proposed, kind):
            return False
        if made.folder and made.folder != project_folder(proposed, self._reader.roots):
            return False
        if made.program and not self._runs_only(made, proposed, kind):
            return False
        return made.max_usd is None or affords(grant, made.max_usd, cost(proposed))

    def _worded(self, id_: str, proposed: Proposed, kind: Kind) -> bool:
        """Return whether all texts and paths of a proposal match the patterns of a grant."""
        text, paths = self._patterns[id_]
        if text is not None and not all(text.find((word,)) for word in words(proposed.proposal)):
            return False
        root = self._reader.root(proposed.proposal)
        return paths is None or all_match(paths, proposed, kind, root)

    def _again(self, seen: Seen, proposed: Proposed, kind: Kind) -> bool:
        proposal = proposed.proposal
        said = self._reader.shaped(proposal) if seen.shape else proposal
        if seen.shown is not None:
            return seen.permits(said, proposed.resolved)
        action = binding(proposed.agent, kind.type, said, proposed.resolved)
        return seen.covers(action, proposal)

    def _runs_only(self, made: Granted, proposed: Proposed, kind: Kind) -> bool:
        """Return whether the granted program is the only part of a command that needs approval."""
        proposal = proposed.proposal
        if not is_command_alone(proposed) or not self._reader.reads(kind, proposal):
            return False
        found = self._reader.reading(proposal).findings
        mine = [f for f in found if f.program == made.program and f.effect is Effect.UNKNOWN]
        if made.folder and not all(_begins(f, made.program, proposal.text) for f in mine):
            return False
        inputs = [f for f in found if not f.program]
        if made.folder and not are_like(shown_words((*mine, *inputs)), made.words, made.folder):
            return False
        others = [f for f in found if not f.passes and f not in mine]
        # Other work in the command was not shown to the operator.
        works = TABLE in made.rules and any(f.effect is Effect.WORK for f in found)
        return bool(mine) and not others and not works and not any(f.blocks for f in mine)

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
        """Keep grants from lasting longer after the wall clock was set back."""
        for id_, grant in self._state.grants.items():
            if grant.ends_t is None or wall(grant.ends_t, event) >= grant.made.until:
                continue
            grant.made = msgspec.structs.replace(grant.made, until=wall(grant.ends_t, event))
            heapq.heappush(self._ends, (grant.made.until, id_))

    def _due(self, tick: Ticked) -> Sequence[Event]:
        """Return an event for the grants that expired. The heap may also contain closed grants."""
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
