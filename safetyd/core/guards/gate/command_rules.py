"""Verdicts on analysed shell commands: their findings, and the operator's rules about them.

A finding that corresponds to an action type is judged by the rules for that type. So
`allow_push_to` applies to `git push` as it does to a proposal of type push.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from safetyd.core.events.decision_events import Proposed
from safetyd.core.guards.gate.host_commands import HostCommands
from safetyd.core.guards.rule_layers import Layer, Setting
from safetyd.core.guards.rules import ProjectRules, RuleCase
from safetyd.core.messages.verdict import ALLOWED, ASK, BLOCK, CommandPart, Verdict
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.reading import HOLE, OWN_PROGRAM, Finding
from safetyd.core.text.path_globs import place

MAX_PARTS: Final = 20  # maximum number of command parts in a verdict
MAX_PROGRAMS: Final = 8
NONE: Final[AbstractSet[str]] = frozenset()
EFFECT: Final = "gate.shell:"
PROGRAM: Final = "shell."


class CommandRules:
    """Judge the findings in a command."""

    def __init__(
        self,
        reader: CommandReader,
        setting: Setting,
        layers: Sequence[Layer],
        hosts: HostCommands | None = None,
    ) -> None:
        self._hosts = hosts  # None for agents that are not coding agents
        self._setting = setting
        self._layers = layers
        self.reader = reader

    def within(self, rules: ProjectRules) -> "CommandRules":
        """Return these rules with the rules of a project before them."""
        if rules == ProjectRules():
            return self
        layers = (Layer(rules, self._setting), *self._layers)
        return CommandRules(self.reader, self._setting, layers, self._hosts)

    def judge(
        self,
        proposed: Proposed,
        findings: Sequence[Finding],
        lifted: AbstractSet[str] = NONE,
    ) -> list[Verdict]:
        """Return the verdicts of the operator's rules, and one verdict on the other findings."""
        ruled: list[Verdict] = []
        left: list[Finding] = []
        if self._hosts is not None:
            ruled += self._hosts.open_input(proposed.host, findings, lifted)
            findings = self._hosts.stricter(findings)
        for finding in findings:
            if finding.type and (ruling := self._ruling(finding, proposed)) is not None:
                if ruling is not ALLOWED:
                    ruled.append(msgspec.structs.replace(ruling, guard="gate"))
                    continue
                if not finding.blocks:
                    continue
            # gate.own judges safetyd itself.
            own = finding.program.partition(" ")[0] == OWN_PROGRAM
            if not finding.passes and not own and lifted.isdisjoint(rules_of(finding)):
                left.append(finding)
        return [*ruled, *([_verdict(left)] if left else [])]

    def _ruling(self, finding: Finding, proposed: Proposed) -> Verdict | None:
        """Return the verdict of the operator's rules for this type of action, if any."""
        kind = self._setting.kinds.named(finding.type)
        paths = tuple(touch.path.replace(HOLE, "$") for touch in finding.touches)
        proposal = msgspec.structs.replace(
            proposed.proposal,
            type=finding.type,
            text=finding.shown,
            paths=paths,
            remote=finding.remote,
        )
        asked = msgspec.structs.replace(proposed, proposal=proposal)
        case = RuleCase(asked, kind, tuple(place(path, "") for path in paths))
        rulings = (layer.rules(case) for layer in self._layers)
        ruling = next((ruling for ruling in rulings if ruling is not None), None)
        return None if ruling is ALLOWED and kind.human else ruling


def rules_of(finding: Finding) -> tuple[str, str]:
    """Return the rule ids of a finding: its effect, and its program with the subcommand."""
    return f"{EFFECT}{finding.effect}", f"{PROGRAM}{finding.program.replace(' ', '_')}"


def _verdict(left: list[Finding]) -> Verdict:
    left.sort(key=lambda finding: (finding.blocks, finding.effect.rank), reverse=True)
    first = left[0]
    said = dict.fromkeys((finding.shown, finding.why) for finding in left)
    more = f", and {len(said) - 1} more" if len(said) > 1 else ""
    rule, _ = rules_of(first)
    return Verdict(
        "gate",
        BLOCK if first.blocks else ASK,
        rule,
        f"`{first.shown}` {first.why}{more}",
        also=tuple(r for r in dict.fromkeys(_also(left)) if r != rule),
        remedy=_remedy(left),
        parts=tuple(map(_part, left[:MAX_PARTS])),
    )


def _also(left: Sequence[Finding]) -> Iterator[str]:
    for finding in left:
        yield rules_of(finding)[0]
    programs = dict.fromkeys(rules_of(finding)[1] for finding in left if finding.program)
    yield from list(programs)[:MAX_PROGRAMS]


def _remedy(left: Sequence[Finding]) -> str:
    remedies = dict.fromkeys(finding.remedy for finding in left)
    return "; and ".join(remedies) if all(remedies) else ""


def _part(finding: Finding) -> CommandPart:
    return CommandPart(
        str(finding.effect),
        finding.program,
        finding.why,
        finding.shown,
        finding.start,
        finding.end,
        finding.way,
    )
