"""Rules about shell commands of coding agents.

A force push can be blocked. Codex does not ask before it types into a running program, so a program
that reads commands from its input needs approval there.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec.structs import replace

from safetyd.core.host_rules import HostRules
from safetyd.core.messages.verdict import ASK, Verdict
from safetyd.core.shell.reading import Finding

OPEN_INPUT: Final = "hosts.open_input"
_TYPES_UNASKED: Final = frozenset({"codex"})  # hosts that type into programs without asking


class HostCommands:
    """Applies the settings of `[hosts]` to the findings in a command."""

    def __init__(self, rules: HostRules) -> None:
        self._blocks_force = rules.force_push == "block"

    def stricter(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return the findings. Let those that rewrite a remote block, if so configured."""
        if not self._blocks_force:
            return findings
        return [_blocking(f) if "rewrites_remote" in f.traits else f for f in findings]

    def open_input(
        self, host: str, findings: Sequence[Finding], lifted: AbstractSet[str]
    ) -> Sequence[Verdict]:
        """Return a verdict if this host could type commands into the program without asking."""
        if host not in _TYPES_UNASKED or OPEN_INPUT in lifted:
            return ()
        found = next((f for f in findings if "open_input" in f.traits), None)
        if found is None:
            return ()
        reason = f"`{found.shown}` reads commands from its input, which safetyd cannot check"
        return (
            Verdict(
                "gate", ASK, OPEN_INPUT, reason, remedy="with a script or command as an argument"
            ),
        )


def _blocking(finding: Finding) -> Finding:
    remedy = f'{finding.remedy}, or with force_push = "ask" in [hosts]'
    return replace(finding, blocks=True, remedy=remedy)
