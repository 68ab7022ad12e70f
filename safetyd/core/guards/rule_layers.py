"""The lists of a `[rules]` table. A project's lists come before the global ones."""

from datetime import tzinfo

import msgspec

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.guards.rules import Rule, RuleCase, RuleLists
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from safetyd.core.shell.command_reader import CommandReader


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that all rules are evaluated with."""

    kinds: Kinds
    mode: str
    timezone: tzinfo
    coding: bool
    reader: CommandReader


class Layer:
    """The lists of one `[rules]` table."""

    def __init__(self, lists: RuleLists, setting: Setting) -> None:
        kinds = setting.kinds
        rules = [Rule(each, kinds, setting.mode, setting.timezone) for each in lists.custom]
        self.blocking = [rule for rule in rules if rule.verdict.decision is Severity.BLOCK]
        self.milder = [rule for rule in rules if rule.verdict.decision is not Severity.BLOCK]
        self._required = frozenset(kinds.named(name).type for name in lists.require_permission)
        allowed = map(kinds.named, lists.allow_without_permission)
        self._allowed = frozenset(kind.type for kind in allowed if not prohibited(kind))
        self._push_to = frozenset(lists.allow_push_to)

    def ruling(self, case: RuleCase) -> Verdict | None:
        """Return the verdict that replaces the verdict of the type table, if any."""
        kind = case.kind
        if kind.type in self._required:
            return _required(kind)
        for rule in self.milder:
            # A rule loosens a prohibited type only if it names the type.
            if (not prohibited(kind) or kind.type in rule.types) and rule.matches(case):
                return rule.verdict
        return ALLOWED if kind.type in self._allowed or self._may_push(case) else None

    def _may_push(self, case: RuleCase) -> bool:
        pushes = bool(self._push_to) and case.kind.type == "push"
        return pushes and self._push_to.issuperset(case.remotes)

    def rules(self, case: RuleCase) -> Verdict | None:
        """Return the verdict on a part of a command: blocking rules first, then the others."""
        blocking = (rule.verdict for rule in self.blocking if rule.matches(case))
        return next(blocking, None) or self.ruling(case)

    def restricts(self, type_: str) -> bool:
        """Return whether any rule here can restrict a type."""
        rules = [*self.blocking, *(rule for rule in self.milder if rule.verdict is not ALLOWED)]
        return type_ in self._required or any(not r.types or type_ in r.types for r in rules)


def prohibited(kind: Kind) -> bool:
    return "prohibited" in {kind.risk, kind.tier}


def _required(kind: Kind) -> Verdict:
    reason = f"{kind.type} is listed in require_permission, so it needs approval"
    remedy = f"without {kind.type} in require_permission"
    return Verdict("classify", Severity.ASK, "rules.require_permission", reason, remedy=remedy)
