"""The verdict of the type table on a proposal, and how the operator's rules change it.

The first rule that applies replaces the verdict of the table, in this order: a custom rule that
blocks, `require_permission`, a custom rule that asks or allows, `allow_push_to`,
`allow_without_permission`. If the agent rated an action higher than its type, no rule loosens the
verdict. A project's rules come before the global ones, but global rules that block always apply.
Paths and the limit on memory operations can then require approval.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
from msgspec.structs import replace

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Proposed
from safetyd.core.facts.fact_finder import ProposalFacts
from safetyd.core.guards.classify import rule_verdicts
from safetyd.core.guards.classify.free_places import is_free, is_stream, is_temporary
from safetyd.core.guards.classify.patch_rules import PatchRules
from safetyd.core.guards.rule_layers import Layer, Setting, prohibited
from safetyd.core.guards.rules import ProjectRules, RuleCase, RuleLists, RulesConfig
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, all_of, strictest
from safetyd.core.shell.command_reader import READ
from safetyd.core.shell.places import DISK, HOME, OUTSIDE, SYSTEM, TEMPORARY, Project, project_of
from safetyd.core.shell.places import place as command_place
from safetyd.core.shell.reading import HOLE, Access
from safetyd.core.text.patches import NO_PATCH
from safetyd.core.text.path_globs import (
    EXCEPT,
    UNFOLLOWED,
    Globs,
    PathTarget,
    from_folder,
    is_pattern,
    likely,
    path_words,
    place,
    reached,
)

NONE: Final[AbstractSet[str]] = frozenset()
MEMORY: Final = "memory_"
_AWAY: Final = frozenset({OUTSIDE, SYSTEM, HOME, DISK})
# Active sessions of one agent whose memory operations are counted.
MAX_SESSIONS: Final = 65
MAX_REMEMBERED: Final = 256  # cached verdicts on unknown types


class RuleSet:
    """One set of rules. `plain` has the types that no rule here can restrict."""

    def __init__(
        self, config: RulesConfig, layers: Sequence[Layer], setting: Setting, root: str = ""
    ) -> None:
        self._config = config
        self._layers = layers
        self._setting = setting
        self._root = root
        self._sensitive = _globs(config.sensitive_paths)
        self._protected = _globs(config.protected_paths)
        either = (*config.sensitive_paths, *config.protected_paths)
        self._either = _globs(tuple(g for g in either if not g.startswith(EXCEPT)))
        self._patches = PatchRules(
            self._sensitive, self._protected, self._either, root, free=setting.coding
        )
        self._unknown: dict[str, Verdict] = {}
        self.plain = frozenset(_plain(setting.kinds.known, layers))

    def within(self, rules: ProjectRules, root: str) -> "RuleSet":
        """Return this rule set with the `rules` and root of a project."""
        layers = (Layer(rules, self._setting), *self._layers)
        return RuleSet(_over(self._config, rules), layers, self._setting, root)

    def well_placed(self, proposed: Proposed, facts: ProposalFacts) -> bool:
        """Return whether no path needs approval. Paths in the text of a command are included."""
        proposal, kind = proposed.proposal, facts.kind
        plain = facts.patch is NO_PATCH and proposal.context is None
        if not plain and any(self._patches.judge(facts)):
            return False
        given = [from_folder(path, proposal.cwd) for path in proposal.paths]
        given += facts.fetched
        changes_there = bool(proposal.cwd) and not kind.read_only
        paths, sure = given, not (self._root or proposed.changed or changes_there)
        if proposal.text and kind.commands:
            named = [where for where, _ in self._said(facts)]
            paths = [*given, *(where.path for where in named)]
            sure = sure and not any(where.pattern for where in named)
        if proposed.resolved:
            paths = [*paths, *proposed.resolved]
        sure = sure and not (kind.read_only and any(map(is_pattern, given)))
        if sure and self._either.miss(paths):
            return True
        return not any(self._misplaced(proposed, facts))

    def judge(
        self, proposed: Proposed, facts: ProposalFacts, memory_used: float, lifted: AbstractSet[str]
    ) -> Iterator[Verdict]:
        """Yield all verdicts, those of rules first. `lifted` rules are skipped."""
        kind = facts.kind
        if kind.raised or kind.type not in self.plain or not _passes(kind):
            patched = self._patches.places(facts)
            places = (*self._places(proposed, facts), *patched)
            verdict = self._ruled(RuleCase(proposed, kind, places, self._setting.reader), lifted)
            if verdict is not ALLOWED:
                yield verdict
        yield from self._misplaced(proposed, facts)
        yield from self._patches.judge(facts)
        cap = self._config.memory_per_session
        if kind.type.startswith(MEMORY) and memory_used >= cap:
            yield rule_verdicts.memory_cap(proposed.agent, memory_used, cap, MAX_SESSIONS)

    def _ruled(self, case: RuleCase, lifted: AbstractSet[str]) -> Verdict:
        ruling, table = self._ruling(case, lifted), self._table(case)
        if table.rule in lifted:
            table = ALLOWED
        if ruling is None:
            verdict = table
        elif case.kind.raised:
            verdict = strictest((ruling, table))
        else:
            verdict = ruling
        if verdict is not ALLOWED:
            return self._with_remedy(verdict, case)
        if case.kind.human and not self._may_speak(case):
            return rule_verdicts.human(case, self._config)
        return verdict

    def _with_remedy(self, verdict: Verdict, case: RuleCase) -> Verdict:
        """Add the remedy to a verdict."""
        own = self._setting.kinds.named(case.kind.type)
        ways = (
            verdict.remedy,
            rule_verdicts.TAMER if case.kind.raised else "",
            "" if self._deletes_at_home(case) else _permitted(own),
            rule_verdicts.speaking(case, self._config),
        )
        return msgspec.structs.replace(verdict, remedy=all_of(filter(None, ways)))

    def _ruling(self, case: RuleCase, lifted: AbstractSet[str]) -> Verdict | None:
        for layer in self._layers:
            for rule in layer.blocking:
                if rule.verdict.rule not in lifted and rule.matches(case):
                    return rule.verdict
        rulings = (layer.ruling(case) for layer in self._layers)
        return next((ruling for ruling in rulings if ruling is not None), None)

    def _table(self, case: RuleCase) -> Verdict:
        kind = case.kind
        if prohibited(kind):
            by_type = prohibited(self._setting.kinds.named(kind.type))
            means = Severity(self._config.prohibited_means)
            return rule_verdicts.prohibited(kind, means, by_type=by_type)
        if not kind.known:
            return self._unknown.get(kind.type) or self._word_unknown(kind)
        if _passes(kind) or self._deletes_at_home(case):
            return ALLOWED
        return rule_verdicts.high(kind)

    def _word_unknown(self, kind: Kind) -> Verdict:
        verdict = rule_verdicts.unknown(kind, self._setting.kinds)
        if len(self._unknown) < MAX_REMEMBERED:
            self._unknown[kind.type] = verdict
        return verdict

    def _deletes_at_home(self, case: RuleCase) -> bool:
        """Return whether a coding agent deletes only files of the project, or temporary ones."""
        if not self._setting.coding or case.kind.type != "delete_file" or case.kind.raised:
            return False
        return bool(case.places) and all(
            p.local not in {None, "."} or is_temporary(p) for p in case.places
        )

    def _may_speak(self, case: RuleCase) -> bool:
        config = self._config
        if not config.allow_human_communication or not config.known_contacts:
            return config.allow_human_communication
        target = case.proposal.target
        return target is not None and target.name in config.known_contacts

    def _left(self, where: PathTarget, proposal: Proposal, *, changes: bool) -> str:
        """Return the root of the project that a path is outside of, or an empty string.

        Without a configured root, the folder of the proposal counts as the project for changes.
        """
        if where.local is not None:
            return ""
        root = self._root
        if not root and changes and proposal.cwd and not where.opaque:
            project = project_of("", proposal.cwd)
            away = command_place(where.path, project.cwd, project).kind in _AWAY
            root = project.root if away else ""
        if not root or is_stream(where.path):
            return ""
        return "" if self._setting.coding and is_free(where, changes=changes) else root

    def _places(self, proposed: Proposed, facts: ProposalFacts) -> tuple[PathTarget, ...]:
        root, proposal, kind = self._root, proposed.proposal, facts.kind
        given = [place(path, root, proposal.cwd) for path in (*proposal.paths, *facts.fetched)]
        if kind.read_only:  # a search names its files by patterns
            given = [replace(p, pattern=True) if is_pattern(p.given) else p for p in given]
        if kind.type in READ:  # `_reached` judges them by what the command does there
            return tuple(given)
        return (*given, *(reached(path, root) for path in proposed.resolved if path))

    def _misplaced(self, proposed: Proposed, facts: ProposalFacts) -> Iterator[Verdict]:
        kind = facts.kind
        if UNFOLLOWED in proposed.resolved:
            yield rule_verdicts.unfollowed()
        changes = not kind.read_only
        for where in self._places(proposed, facts):
            if root := self._left(where, proposed.proposal, changes=changes):
                named = rule_verdicts.in_paths(where)
                yield rule_verdicts.outside(named, root, surely=not where.opaque)
            if glob := self._sensitive.find(where):
                yield rule_verdicts.sensitive(rule_verdicts.in_paths(where), glob)
            elif changes and (glob := self._protected.find(where)):
                yield rule_verdicts.protected(rule_verdicts.in_paths(where), glob)
        if kind.type in READ:
            yield from self._reached(proposed)
        yield from self._named(facts)

    def _reached(self, proposed: Proposed) -> Iterator[Verdict]:
        """Yield verdicts on the targets of links in a command, by the rules for commands."""
        project = project_of(self._root, proposed.proposal.cwd or "")
        for path in filter(None, proposed.resolved):
            where, changes = reached(path, self._root), path in proposed.changed
            named = rule_verdicts.in_paths(where)
            root = project.root if changes else self._root
            if root and self._is_away(path, project, changes=changes):
                yield rule_verdicts.outside(named, root)
            if glob := self._sensitive.find(where):
                yield rule_verdicts.sensitive(named, glob)
            elif changes and (glob := self._protected.find(where)):
                yield rule_verdicts.protected(named, glob)

    def _is_away(self, path: str, project: Project, *, changes: bool) -> bool:
        """Return whether a path of a command is outside its project, and not free for all tools."""
        kind, where = command_place(path, None, project).kind, place(path, self._root)
        if kind not in _AWAY and kind != TEMPORARY:
            return False
        return not (self._setting.coding and is_free(where, changes=changes))

    def _read_outside(self, facts: ProposalFacts) -> Iterator[Verdict]:
        """Yield verdicts on what a command reads outside the project. The gate judges changes."""
        project = project_of(self._root, facts.proposal.cwd or "")
        for touch in facts.touches:
            if touch.access is not Access.READ or place(touch.path, self._root).local is not None:
                continue
            if self._is_away(touch.path, project, changes=False):
                named = rule_verdicts.in_text(_seen(touch.given or touch.path))
                yield rule_verdicts.outside(named, self._root)

    def _named(self, facts: ProposalFacts) -> Iterator[Verdict]:
        """Yield verdicts on the paths that a command names."""
        said, kind = self._said(facts), facts.kind
        if self._root and kind.type in READ:
            yield from self._read_outside(facts)
        if not said or (
            not self._root
            and not any(where.pattern for where, _ in said)
            and self._either.miss((where.path for where, _ in said), resolved=True)
        ):
            return
        for where, changes in said:
            # Typed text may itself be a secret.
            named = rule_verdicts.in_text("" if kind.type == "type" else where.given)
            if glob := self._sensitive.find(where):
                yield rule_verdicts.sensitive(named, glob)
            elif changes and (glob := self._protected.find(where)):
                yield rule_verdicts.protected(named, glob)

    def _said(self, facts: ProposalFacts) -> list[tuple[PathTarget, bool]]:
        """Return the paths that the text of a command names, and whether it may change them."""
        proposal, kind = facts.proposal, facts.kind
        if not proposal.text or not kind.commands:
            return []
        if facts.findings is not None:
            return [
                (
                    replace(where, given=_seen(t.given or t.path), pattern=t.pattern),
                    t.access is not Access.READ,
                )
                for t in facts.touches
                for where in likely(t.path.replace(HOLE, "$"), self._root)
            ]
        words = dict.fromkeys(path_words(proposal.text))
        return [(where, True) for word in words for where in likely(word, self._root, proposal.cwd)]


def _seen(word: str) -> str:
    return word.replace(HOLE, "...")


# Most projects use the same globs, and compiling takes milliseconds.
@functools.lru_cache(maxsize=64)
def _globs(globs: tuple[str, ...]) -> Globs:
    return Globs(globs, ignore_case=True)


def _over(base: RulesConfig, rules: ProjectRules) -> RulesConfig:
    """Return the settings of `base` with a project's overrides."""
    changes = {
        name: value
        for name in RulesConfig.__struct_fields__
        if name not in RuleLists.__struct_fields__ and (value := getattr(rules, name)) is not None
    }
    return msgspec.structs.replace(base, **changes)


def _plain(known: Mapping[str, Kind], layers: Sequence[Layer]) -> Iterator[str]:
    for name, kind in known.items():
        passes = _passes(kind) and not kind.human and not name.startswith(MEMORY)
        if passes and not any(layer.restricts(name) for layer in layers):
            yield name


def _permitted(kind: Kind) -> str:
    """Return the setting that would allow a type. Empty if the type is allowed."""
    if _passes(kind):
        return ""
    return (
        rule_verdicts.typed(kind)
        if prohibited(kind) or not kind.known
        else rule_verdicts.listed(kind)
    )


def _passes(kind: Kind) -> bool:
    """Return whether risk and tier both allow a type. An operator can set them separately."""
    return kind.tier == "auto_allowed" and kind.risk in {"low", "medium"}
