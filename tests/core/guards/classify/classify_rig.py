"""A classify guard for tests."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from safetyd.core.action_types import Kinds, TypeConfig
from safetyd.core.events.decision_events import Proposed, SessionClosed
from safetyd.core.guards.classify.classify import Classify
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rule_layers import Setting
from safetyd.core.guards.rules import CustomRule, RulesConfig, When
from safetyd.core.messages.verdict import Severity, Verdict
from safetyd.core.shell.command_reader import CheckedProject, CommandReader, ShellConfig
from tests.core.guards.guard_rig import decided
from tests.story import at, propose


class ClassifyRig:
    """A classify guard that agents propose to."""

    def __init__(  # noqa: PLR0913 - each is another part of the policy
        self,
        rules: RulesConfig | None = None,
        projects: Mapping[str, ProjectConfig] | None = None,
        *,
        types: Mapping[str, TypeConfig] | None = None,
        mode: str = "production",
        profile: str = "strict",
        timezone: tzinfo = UTC,
        default: str = "",
    ) -> None:
        self.kinds = Kinds(types or {}, profile)
        given = projects or {}
        checked = {name: CheckedProject(project.root) for name, project in given.items()}
        setting = Setting(
            kinds=self.kinds,
            mode=mode,
            timezone=timezone,
            coding=profile == "coding",
            reader=CommandReader(self.kinds, ShellConfig(), checked, default=default),
        )
        self.guard = Classify(rules or RulesConfig(), given, setting, default)

    def looks(self, type: str = "read_file", agent: str = "code", **fields: object) -> Verdict:  # noqa: A002
        """Return the verdict without deciding."""
        return self.judges(propose(0, agent, type=type, **fields))  # type: ignore[arg-type]

    def judges(self, proposed: Proposed) -> Verdict:
        return self.guard.check(proposed, self.kinds.of(proposed.proposal))

    def asks(self, type: str = "read_file", agent: str = "code", **fields: object) -> Verdict:  # noqa: A002
        """Propose, and observe the decision."""
        proposed = propose(0, agent, type=type, **fields)  # type: ignore[arg-type]
        verdict = self.judges(proposed)
        assert self.guard.observe(decided(proposed, verdict, kinds=self.kinds)) == ()
        return verdict


def closed(agent: str = "code", session: str = "") -> SessionClosed:
    return SessionClosed(at=at(0), t=0.0, agent=agent, session=session, why="idle")


def custom(then: Severity, name: str = "mine", reason: str = "", **when: object) -> RulesConfig:
    """Return rules with one custom rule."""
    return RulesConfig(custom=(rule(then, name, reason, **when),))


def rule(then: Severity, name: str = "mine", reason: str = "", **when: object) -> CustomRule:
    return CustomRule(name=name, when=When(**when), then=then, reason=reason)  # type: ignore[arg-type]


def at_time(rig: ClassifyRig, when: datetime, **fields: object) -> Verdict:
    proposed = propose(0, **fields)  # type: ignore[arg-type]
    proposed.at = when
    return rig.judges(proposed)
