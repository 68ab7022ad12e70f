"""The gate: checks the text of a proposal, where it acts, and whether it makes progress.

The steps, in order: safetyd's own resources, blocklist, loop, credential, irreversible, window,
confidence, suspicious Unicode. The strictest match decides. If several are equally strict, the
first one does. All matches are listed, but a block by one of the first two steps skips the rest.
Text rules can be evaded.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.events.decision_events import Decided, Proposed, Reported, SessionClosed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Forgotten, NameForgotten
from safetyd.core.facts.fact_finder import FactFinder
from safetyd.core.guards.gate.command_rules import CommandRules
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.gate.gate_rules import NONE, Joint, Rules
from safetyd.core.guards.gate.loops import Loops, Visit, visit_of
from safetyd.core.guards.gate.own_config import OwnConfig
from safetyd.core.guards.gate.own_resources import OwnResources
from safetyd.core.guards.gate.steps import merged
from safetyd.core.guards.projects import ByProject, ProjectConfig, Sides, sides
from safetyd.core.messages.telemetry import EpisodeEnded, SessionEnded
from safetyd.core.messages.verdict import ALLOWED, BLOCK, Verdict
from safetyd.core.text.folding import masked

NOTHING_OWN: Final = OwnConfig()  # protects only the names that every daemon has


class Gate(Guard):
    """Judge text, targets and confidence. It remembers only visited states."""

    name = "gate"

    def __init__(  # noqa: PLR0913 - each is another part of the policy
        self,
        config: GateConfig,
        confidence: ConfidenceConfig,
        profile: str,
        projects: Mapping[str, ProjectConfig],
        own: OwnConfig = NOTHING_OWN,
        commands: CommandRules | None = None,
        *,
        default_project: str = "",
        host_rules: Rules | None = None,
        facts: FactFinder | None = None,
    ) -> None:
        named = {name: project.root for name, project in projects.items()}
        roots = ByProject(named, "", default_project)
        self._facts = facts or FactFinder(commands.reader if commands else None)
        self._own = OwnResources(own, roots)
        rules = Rules(config, confidence, profile, commands)
        self._usual = _Bindings(rules, projects, default_project)
        self._of_hosts = (
            self._usual if host_rules is None else _Bindings(host_rules, projects, default_project)
        )
        self._loops = Loops(config.loop_counts)
        self.hears = hearing(
            on(Decided, self._decided),
            on(Reported, self._reported),
            on(SessionClosed, self._closed),
            on(Forgotten, self._forgotten),
            on(NameForgotten, lambda event: self._loops.forget(event.agent)),
        )

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        return self._judge(proposed, kind, self._visits(proposed, kind.type))

    def check_again(self, proposed: Proposed, kind: Kind) -> Verdict:
        # The visit was counted when the action was proposed.
        return self._judge(proposed, kind, 0)

    def check_without(
        self, proposed: Proposed, kind: Kind, lifted: AbstractSet[str], *, again: bool
    ) -> Verdict:
        """Return the verdict without the `lifted` rules."""
        visits = 0 if again else self._visits(proposed, kind.type)
        return self._judge(proposed, kind, visits, lifted)

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        return self._binding(decided).now(decided, self._visits(decided, decided.type))

    def _decided(self, event: Decided) -> None:
        visit = self._visit(event, event.type)
        if visit and not (event.verdicts and event.stranger):
            self._loops.add(visit)

    def _reported(self, event: Reported) -> None:
        match event.telemetry:
            case EpisodeEnded(episode=episode):
                self._loops.forget(event.agent, episode=episode)
            case SessionEnded(session=session):
                self._loops.forget(event.agent, session=session)

    def _closed(self, event: SessionClosed) -> None:
        self._loops.close(event.agent, event.session)

    def _forgotten(self, event: Forgotten) -> None:
        self._loops.forget(event.agent, session=event.session, episode=event.episode)

    def save(self) -> Callable[[], bytes]:
        return self._loops.save()

    def load(self, saved: bytes) -> None:
        self._loops.load(saved)

    def _judge(
        self, proposed: Proposed, kind: Kind, visits: int, lifted: AbstractSet[str] = NONE
    ) -> Verdict:
        proposal = proposed.proposal
        rules = self._binding(proposed)
        facts = self._facts.of(proposed, kind)
        own = self._own.judge(proposed, facts, lifted)
        if own.decision is BLOCK:
            secret = rules.takes_secret(kind.type, proposal.target)
            return msgspec.structs.replace(own, masks_text=secret)
        verdict = rules.judge(proposed, facts, visits, lifted)
        if own is ALLOWED or verdict is ALLOWED:
            return own if verdict is ALLOWED else verdict
        return merged((own, verdict))

    def _visits(self, event: Proposed | Decided, kind: str) -> int:
        """Return the number of visits to the state, including this one. 0 if it does not count."""
        visit = self._visit(event, kind)
        return self._loops.visits_with(visit) if visit else 0

    def _binding(self, event: Proposed | Decided) -> "Rules | Joint":
        return (self._of_hosts if event.host else self._usual).of(event)

    def _visit(self, event: Proposed | Decided, kind: str) -> Visit | None:
        proposal = event.proposal
        if proposal.observation is None:
            return None
        # The journal masks secrets, and a replay must see the same text.
        secret = self._binding(event).takes_secret(kind, proposal.target)
        text = masked(proposal.text) if secret else proposal.text
        return visit_of(event.agent, kind, proposal, text)


class _Bindings:
    """The rules of the gate, and those of each project."""

    def __init__(
        self, rules: Rules, projects: Mapping[str, ProjectConfig], default_project: str
    ) -> None:
        self._rules = rules
        named = {name: _sides(projects[name], rules) for name in projects}
        self._projects = ByProject[Sides[Rules | Joint] | None](named, None, default_project)

    def of(self, event: Proposed | Decided) -> "Rules | Joint":
        project = self._projects.of(event.proposal.project)
        return self._rules if project is None else project.of(event.agent)


def _sides(project: ProjectConfig, base: Rules) -> Sides[Rules | Joint]:
    return sides(project, base, Rules.within, _joint)


def _joint(several: tuple[Rules, ...]) -> Rules | Joint:
    return Joint(several) if len(several) > 1 else several[0]
