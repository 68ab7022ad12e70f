"""The command line that a host runs as its hook."""

import shlex
from typing import Final, NamedTuple

from safetyd.hosts.hook_event import Dialect, HookKind

# Part of every command of safetyd, and of no other command.
MARK: Final = "safetyd/hook.py"
PATIENCE_S: Final = 600
TIMEOUT_S: Final = PATIENCE_S + 60  # hosts run the call if a hook takes longer
# Follows the command that asks, and turns every other exit code into code 2 with a text.
TAIL_BEGIN: Final = "; s=$?; "  # of all versions
TAIL: Final = (
    f"{TAIL_BEGIN}[ $s = 0 ] || {{ "
    'echo "safetyd: the hook exited with code $s, so this call is blocked. If safetyd was removed '
    "or moved, every call is blocked: tell the user to install it again and to run safetyd "
    "unprotect, or to delete the hooks with safetyd/hook.py from the settings of this agent."
    '" >&2; exit 2; }'
)


class HookCommand(NamedTuple):
    """What the command lines of all hosts have in common."""

    python: str
    script: str
    socket: str
    agent: str
    token_file: str = ""
    lock: str = ""  # the key that unlocks calls of Gemini CLI

    def ask(self, dialect: Dialect) -> str:
        """Return the command that asks. If it fails in any way, it exits with code 2 and a text.

        Some hosts run the call after any other exit code, or after code 2 without a text.
        """
        return self._words(dialect) + TAIL

    def report(self, dialect: Dialect, kind: HookKind) -> str:
        return f"{self._words(dialect)} --event {kind}"

    def _words(self, dialect: Dialect) -> str:
        options = ["--socket", self.socket, "--agent", self.agent]
        if self.token_file:
            options += ["--token-file", self.token_file]
        if self.lock:
            options += ["--lock", self.lock]
        # Without -I and -S, Python would run files of the project and of the environment.
        return shlex.join([self.python, "-I", "-S", self.script, dialect, *options])


def is_ours(hook: object) -> bool:
    """Return whether a hook, or a group of hooks, runs our command."""
    match hook:
        case {"hooks": list(hooks)}:
            return any(map(is_ours, hooks))
        case {"command": str(command)} | {"bash": str(command)}:
            return MARK in command
    return False
