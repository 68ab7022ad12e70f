"""The command line that a host runs as its hook."""

import shlex
from typing import Final, NamedTuple

from safetyd.hosts.hook_event import Dialect, HookKind

# In every command of ours, and in nobody else's.
MARK: Final = "safetyd/hook.py"
PATIENCE_S: Final = 600
TIMEOUT_S: Final = PATIENCE_S + 60  # hosts run the call when a hook takes longer
# Behind the command that asks: what else ends it becomes exit code 2 and words.
TAIL: Final = (
    "; s=$?; [ $s = 0 ] || [ $s = 2 ] || "
    'echo "safetyd: the hook ended with $s, so nothing may run" >&2; [ $s = 0 ] || exit 2'
)


class HookCommand(NamedTuple):
    """What the command lines of all hosts have in common."""

    python: str
    script: str
    socket: str
    agent: str
    token_file: str = ""

    def ask(self, dialect: Dialect) -> str:
        """Return the command that asks. Whatever else ends it, the host sees exit code 2 and words.

        Some hosts run the call after any other exit code, or after code 2 without words.
        """
        return self._words(dialect) + TAIL

    def report(self, dialect: Dialect, kind: HookKind) -> str:
        return f"{self._words(dialect)} --event {kind}"

    def _words(self, dialect: Dialect) -> str:
        options = ["--socket", self.socket, "--agent", self.agent]
        if self.token_file:
            options += ["--token-file", self.token_file]
        # Without -I and -S, files of the project and of the environment would run here.
        return shlex.join([self.python, "-I", "-S", self.script, dialect, *options])


def is_ours(hook: object) -> bool:
    """Return whether a hook, or a group of hooks, runs our command."""
    match hook:
        case {"hooks": list(hooks)}:
            return any(map(is_ours, hooks))
        case {"command": str(command)} | {"bash": str(command)}:
            return MARK in command
    return False
