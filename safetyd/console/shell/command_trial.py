"""Decides shell commands without a daemon.

Only the guards that check the command itself are used: classify and gate.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from safetyd.clock import Clock
from safetyd.core.action_types import Kinds
from safetyd.core.engine.evaluation import decided, restricting
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.facts.fact_finder import FactFinder
from safetyd.core.guards.guard_chain import Readers, chain
from safetyd.core.guards.keys import Ties
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import Severity, Verdict, strictest
from safetyd.core.policy import Policy
from safetyd.core.sessions import Sessions
from safetyd.core.shell.command_reader import CommandReader, ShellConfig
from safetyd.core.shell.judge import Reading
from safetyd.core.shell.reading import HOLE, Effect, Finding
from safetyd.operators.explain import decision_explained

TYPE: Final = "run_shell"
NOBODY: Final = "unknown"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command would run."""

    project: str | None = None
    cwd: str | None = None


class TouchRead(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    access: str


class PartRead(msgspec.Struct, frozen=True, kw_only=True):
    """The analysis of a part of a command. `verdict` is for this part alone."""

    shown: str
    way: tuple[str, ...]
    start: int  # in bytes
    end: int
    program: str
    effect: Effect
    why: tuple[str, ...]
    verdict: Severity
    touches: tuple[TouchRead, ...]


class CommandRead(msgspec.Struct, frozen=True, kw_only=True):
    """The analysis of a command, and the decision. `remedy` completes "It would be allowed ..."."""

    command: str
    decision: Severity
    rules: tuple[str, ...]
    reason: str
    remedy: str
    read: bool  # False: not analysed, because `gate.shell` is "patterns"
    parts: tuple[PartRead, ...]


class _PartReader(CommandReader):
    """Analyses commands. While `part` is set, every analysis consists of only that part."""

    def __init__(self, policy: Policy, kinds: Kinds) -> None:
        how = policy.gate.shell or "judge"
        super().__init__(kinds, policy.shell or ShellConfig(), {}, how)
        self._whole = policy.reader(kinds)
        self.part: Finding | None = None

    def reading(self, proposal: Proposal) -> Reading:
        return self._whole.reading(proposal) if self.part is None else Reading((self.part,))


class CommandTrial:
    """Decides commands with the guards of `policy`."""

    def __init__(self, policy: Policy) -> None:
        kinds = Kinds(policy.types, policy.profile)
        self._policy = policy
        self._reader = _PartReader(policy, kinds)
        nobody = Ties(lambda _name: False, lambda _name: False)
        readers = Readers(self._reader, self._reader, FactFinder(self._reader))
        guards = chain(policy, readers, Sessions(policy.sessions), nobody)
        self._guards = guards.classify, guards.gate
        self._clock = Clock()

    def decide(self, command: str, place: Place) -> Severity:
        return self._judge(_proposal(command, place)).decision

    def read(self, command: str, place: Place) -> CommandRead:
        """Return the analysis of a command, and the decision about it."""
        proposal = _proposal(command, place)
        told = decision_explained(self._judge(proposal), {})
        read = self._reader.reads(self._reader.kinds.of(proposal), proposal)
        restricted = [guard for guard in told.guards if guard.restricted]
        rules = (rule for guard in restricted for rule in (guard.rule, *(guard.also or ())))
        return CommandRead(
            command=command,
            decision=told.decision,
            rules=tuple(str(rule) for rule in rules),
            reason=told.reason,
            remedy=told.remedy if restricted else "",
            read=read,
            parts=tuple(self._parts(proposal)) if read else (),
        )

    def _judge(self, proposal: Proposal) -> Decided:
        now = self._clock.now()
        project = self._policy.project_of(proposal.project)
        agent = project.agents[0] if project and project.agents else NOBODY
        proposed = Proposed(at=now.at, t=now.t, agent=agent, proposal=proposal, digest="")
        kind = self._reader.kind(proposal, self._reader.kinds.of(proposal))
        verdicts = restricting(self._guards, proposed, kind)
        return decided(proposed, kind, tuple(verdicts), first=True)

    def _parts(self, proposal: Proposal) -> Iterator[PartRead]:
        findings = self._reader.reading(proposal).findings
        for _, same in groupby(findings, lambda f: (f.way, f.start, f.end, f.shown)):
            yield self._part(proposal, list(same))

    def _part(self, proposal: Proposal, found: Sequence[Finding]) -> PartRead:
        first = max(found, key=lambda finding: (finding.blocks, finding.effect.rank))
        verdict = strictest(self._alone(proposal, each) for each in found)
        touches = dict.fromkeys(touch for finding in found for touch in finding.touches)
        return PartRead(
            shown=first.shown,
            way=first.way,
            start=first.start,
            end=first.end,
            program=first.program,
            effect=first.effect,
            why=tuple(_reasons(found, first, verdict)),
            verdict=verdict.decision,
            touches=tuple(
                TouchRead(path=touch.path.replace(HOLE, "$"), access=str(touch.access))
                for touch in touches
            ),
        )

    def _alone(self, proposal: Proposal, finding: Finding) -> Verdict:
        """Return the verdict about one part alone."""
        self._reader.part = finding
        try:
            judged = self._judge(msgspec.structs.replace(proposal, text=finding.shown))
            return strictest(judged.verdicts)
        finally:
            self._reader.part = None


def _proposal(command: str, place: Place) -> Proposal:
    return Proposal(type=TYPE, id="command", text=command, project=place.project, cwd=place.cwd)


def _reasons(found: Sequence[Finding], first: Finding, verdict: Verdict) -> Iterator[str]:
    """Yield the effects of a part, the strictest first.

    If a rule restricts a part that is harmless in itself, also yield the reason of the rule.
    """
    yield first.why
    others = (finding.why for finding in found if not finding.passes)
    yield from (why for why in dict.fromkeys(others) if why != first.why)
    if first.passes and verdict.decision is not Severity.ALLOW:
        yield verdict.reason
