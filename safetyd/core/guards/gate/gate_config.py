"""`[gate]` and `[confidence]`: patterns and required confidence."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.core.guards.gate import default_patterns
from safetyd.core.guards.gate.loops import LoopCounts
from safetyd.core.guards.projects import ProjectGate, Share
from safetyd.core.messages.proposal import Risk
from safetyd.core.shell.command_reader import ShellReading
from safetyd.core.text import patterns
from safetyd.core.text.patterns import AnyPattern


class ConfidenceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The required confidence by risk. GUI types use `gate.confidence_threshold`."""

    required_for: tuple[Risk, ...] = ()
    low: Share = 0.5
    medium: Share = 0.7
    high: Share = 0.9
    default: Share = 0.7  # for unknown types


class GateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    blocklist_patterns: tuple[AnyPattern, ...] = default_patterns.BLOCKLIST
    irreversible_patterns: tuple[AnyPattern, ...] = default_patterns.IRREVERSIBLE
    confidence_threshold: Share = 0.7
    loop_threshold: Annotated[int, Meta(ge=1)] = 3
    loop_counts: LoopCounts = "repeats"
    credential_patterns: tuple[AnyPattern, ...] = default_patterns.CREDENTIALS
    credential_allowlist: tuple[AnyPattern, ...] = ()
    expected_app: str | None = None
    expected_window_pattern: str | None = None
    shell_patterns: tuple[AnyPattern, ...] = default_patterns.SHELL
    # `judge` analyses commands, `patterns` searches them for patterns. Unset in older journals.
    shell: ShellReading | msgspec.UnsetType = msgspec.UNSET


def problems(config: GateConfig | ProjectGate) -> list[tuple[str, str]]:
    """Return the key of each invalid setting, such as `blocklist_patterns[3]`, and the reason."""
    lists: dict[str, Sequence[AnyPattern] | None] = {
        "blocklist_patterns": config.blocklist_patterns,
        "irreversible_patterns": config.irreversible_patterns,
        "credential_patterns": config.credential_patterns,
        "credential_allowlist": config.credential_allowlist,
        "shell_patterns": config.shell_patterns,
    }
    given = {key: listed for key, listed in lists.items() if listed is not None}
    wrong = [(key + place, why) for key in given for place, why in patterns.problems(given[key])]
    window = config.expected_window_pattern
    expected = patterns.problems((window,) if window else ())
    return wrong + [("expected_window_pattern", why) for _, why in expected]
