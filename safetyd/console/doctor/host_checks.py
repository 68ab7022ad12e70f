"""Checks of coding agents: the problems that `safetyd protect --status` shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from safetyd.console.doctor.file_checks import Finding, Level, ok
from safetyd.console.hosts.protected_hosts import ProtectedHosts
from safetyd.hosts.host_catalog import HOSTS

CHECK: Final = "agent hosts"
SAID_BEFORE: Final = frozenset({"daemon_away", "key_readable"})  # by other checks


def hosts(data_dir: Path) -> Iterator[Finding]:
    """Yield the state of each coding agent that is installed or protected."""
    for state in ProtectedHosts(scope="user", data_dir=data_dir).states([*HOSTS.values()]):
        title = f"{HOSTS[state.host].title} {state.version}".strip()
        if state.state == "protected":
            yield ok(CHECK, f"{title} asks safetyd as {state.agent}")
        for problem in state.problems:
            if problem.code not in SAID_BEFORE:
                level: Level = "wrong" if problem.breaks else "note"
                yield Finding(CHECK, level, f"{problem.message}. {problem.fix}", problem.code)
