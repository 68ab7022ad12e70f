"""Judges action types by the type table and the operator's rules.

It counts memory operations per session, and unknown types.
"""

import functools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.events.decision_events import Decided, Proposed, SessionClosed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.facts.contacted_addresses import FETCHING
from safetyd.core.facts.fact_finder import FactFinder, ProposalFacts
from safetyd.core.guards.classify import rule_verdicts
from safetyd.core.guards.classify.missing_folder import unplaced_path
from safetyd.core.guards.classify.rule_sets import (
    MAX_SESSIONS,
    MEMORY,
    NONE,
    RuleSet,
)
from safetyd.core.guards.projects import ByProject, ProjectConfig, Sides, sides
from safetyd.core.guards.rule_layers import Layer, Setting
from safetyd.core.guards.rules import ProjectRules, RulesConfig
from safetyd.core.messages.host_folder import OWN_FOLDER, repository
from safetyd.core.messages.verdict import ALLOW, ALLOWED, Verdict, together
from safetyd.core.text.proposal_patches import may_patch

MAX_UNKNOWN: Final = 256
COMMAND: Final = "run_shell"  # the type whose whole action is the command in its text
MAX_REPOSITORIES: Final = 64  # of hosts, whose rule sets are cached


class RuleSets:
    """The rule sets that apply to an agent. `plain` has the types that no set can restrict."""

    def __init__(
        self, sets: Sequence[RuleSet], root: str = "", broken: Verdict | None = None
    ) -> None:
        self._sets = sets
        self._root = root
        self._broken = () if broken is None else (broken,)
        every = frozenset.intersection(*(rule_set.plain for rule_set in sets))
        self.plain = every if broken is None else frozenset()

    def well_placed(self, proposed: Proposed, facts: ProposalFacts) -> bool:
        """Return whether no path needs approval in any rule set."""
        placed = unplaced_path(proposed.proposal, self._root) is None
        return placed and all(rule_set.well_placed(proposed, facts) for rule_set in self._sets)

    def judge(
        self,
        proposed: Proposed,
        facts: ProposalFacts,
        memory_used: float,
        lifted: AbstractSet[str] = NONE,
        unclear: Sequence[Verdict] = (),
    ) -> Verdict:
        """Return the strictest verdict of all sets, with the other rules that matched.

        `unclear` are the verdicts on a proposal that lacks what the sets need to judge it.
        """
        each = (rule_set.judge(proposed, facts, memory_used, lifted) for rule_set in self._sets)
        found = [*unclear, *(verdict for verdicts in each for verdict in verdicts), *self._broken]
        if (path := unplaced_path(proposed.proposal, self._root)) is not None:
            found.append(rule_verdicts.no_folder(path, proposed.proposal.cwd))
        return together(found, masks_text=False) if found else ALLOWED


def benches(name: str, project: ProjectConfig, base: RuleSet) -> Sides[RuleSets]:
    """Return the rule sets of a project. If its file is broken, everything needs approval."""
    broken = None
    if project.file_broken:
        broken = rule_verdicts.broken_file(name, project.file, project.file_broken)
    return sides(
        project,
        base,
        lambda rule_set, settings: rule_set.within(settings.rules, project.root),
        lambda sets: RuleSets(sets, project.root, broken),
    )


class _Benches:
    """The rule sets for all agents, and those of each project."""

    def __init__(
        self,
        rules: RulesConfig,
        projects: Mapping[str, ProjectConfig],
        setting: Setting,
        default_project: str,
    ) -> None:
        base = RuleSet(rules, (Layer(rules, setting),), setting)
        self._base = RuleSets((base,))
        self._in_repository = functools.lru_cache(MAX_REPOSITORIES)(
            lambda root: RuleSets((base.within(ProjectRules(), root),), root)
        )
        named = {name: benches(name, projects[name], base) for name in projects}
        self._projects = ByProject[Sides[RuleSets] | None](named, None, default_project)

    def of(self, proposed: Proposed) -> RuleSets:
        if proposed.host and proposed.proposal.project == OWN_FOLDER:
            return self._in_repository(repository(proposed.proposal))
        project = self._projects.of(proposed.proposal.project)
        return self._base if project is None else project.of(proposed.agent)


class ClassifyState(msgspec.Struct):
    # Allowed memory operations in live sessions, by agent and session.
    memory: dict[str, dict[str, int]] = {}
    unknown: dict[str, int] = {}  # unknown types, and how often each was proposed


class Classify(Guard):
    name = "classify"
    _state: ClassifyState

    def __init__(
        self,
        rules: RulesConfig,
        projects: Mapping[str, ProjectConfig],
        setting: Setting,
        default_project: str = "",
        of_hosts: Setting | None = None,
        facts: FactFinder | None = None,
    ) -> None:
        self._facts = facts or FactFinder(setting.reader)
        self._kinds = setting.kinds
        self._known = frozenset(projects)
        self._usual = _Benches(rules, projects, setting, default_project)
        self._of_hosts = (
            self._usual
            if of_hosts is None
            else _Benches(rules, projects, of_hosts, default_project)
        )
        self._state = ClassifyState()
        self.hears = hearing(
            on(Decided, self._count),
            on(SessionClosed, self._closed),
            on(NameForgotten, self._forgotten),
        )

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        proposal = proposed.proposal
        rule_sets = self._rule_sets(proposed)
        unclear = self._unclear(proposed, kind)
        usual = not kind.raised and kind.tier == "auto_allowed"
        plain = kind.type in rule_sets.plain and usual and not unclear
        placed = proposal.paths or (proposal.text and kind.commands)
        placed = placed or proposed.resolved or kind.type in FETCHING
        placed = placed or may_patch(proposal, edits=kind.edits)
        if plain and not placed:
            return ALLOWED
        facts = self._facts.of(proposed, kind)
        if plain and rule_sets.well_placed(proposed, facts):
            return ALLOWED
        memory_used = self._memory_used(proposed)
        return rule_sets.judge(proposed, facts, memory_used, unclear=unclear)

    def check_without(self, proposed: Proposed, kind: Kind, lifted: AbstractSet[str]) -> Verdict:
        """Return the verdict without the `lifted` rules."""
        memory_used = self._memory_used(proposed)
        unclear, facts = self._unclear(proposed, kind), self._facts.of(proposed, kind)
        return self._rule_sets(proposed).judge(proposed, facts, memory_used, lifted, unclear)

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        kind = self._kinds.named(decided.type)
        if not kind.known:
            return f"unknown type {decided.type}"
        return f"{kind.type}: {kind.tier}, {kind.risk}, {kind.reversibility}"

    def unknown_types(self) -> dict[str, int]:
        """Return the unknown types that were proposed, and how often."""
        return self._state.unknown.copy()

    def load(self, saved: bytes) -> None:
        super().load(saved)
        # A new configuration may define some of them.
        unknown = self._state.unknown
        self._state.unknown = {name: n for name, n in unknown.items() if not self._knows(name)}

    def _knows(self, name: str) -> bool:
        # A type in an older journal may be an alias now.
        return name in self._kinds.known or self._kinds.named(name).known

    def _rule_sets(self, proposed: Proposed) -> RuleSets:
        return (self._of_hosts if proposed.host else self._usual).of(proposed)

    def _unclear(self, proposed: Proposed, kind: Kind) -> list[Verdict]:
        """Return verdicts on an unknown project, and on a command without its text.

        If no project is configured, a project name selects nothing and is only a label.
        """
        proposal, found = proposed.proposal, []
        known = proposal.project in self._known
        known |= bool(proposed.host) and proposal.project == OWN_FOLDER
        if proposal.project and self._known and not known:
            found.append(rule_verdicts.unknown_project(proposal.project, self._known))
        if kind.type == COMMAND and not proposal.text.strip():
            found.append(rule_verdicts.no_command(kind))
        return found

    def _memory_used(self, proposed: Proposed) -> float:
        mine = self._state.memory.get(proposed.agent, {})
        full = len(mine) >= MAX_SESSIONS
        return mine.get(proposed.proposal.session or "", float("inf") if full else 0)

    def _closed(self, event: SessionClosed) -> None:
        mine = self._state.memory.get(event.agent, {})
        mine.pop(event.session, None)
        if not mine:
            self._state.memory.pop(event.agent, None)

    def _forgotten(self, event: NameForgotten) -> None:
        self._state.memory.pop(event.agent, None)

    def _count(self, event: Decided) -> None:
        if not self._knows(event.type) and not event.stranger:
            unknown = self._state.unknown
            if event.type in unknown or len(unknown) < MAX_UNKNOWN:
                unknown[event.type] = unknown.get(event.type, 0) + 1
        if event.type.startswith(MEMORY) and event.decision is ALLOW:
            mine = self._state.memory.setdefault(event.agent, {})
            session = event.proposal.session or ""
            if session in mine or len(mine) < MAX_SESSIONS:
                mine[session] = mine.get(session, 0) + 1
