"""Readers of programs that a row of the table cannot describe: a function for each.

A reader is given an `Invocation` and says what it found. Rows name them in `reader`.
"""

from typing import Final

from safetyd.core.shell.commands import Reader
from safetyd.core.shell.readers.deletions import read_rm
from safetyd.core.shell.readers.git_commands import read_git
from safetyd.core.shell.readers.interpreters import read_interpreter
from safetyd.core.shell.readers.package_runners import read_package_runner
from safetyd.core.shell.readers.packages import read_forge, read_goals, read_pip
from safetyd.core.shell.readers.shell_builtins import (
    read_alias,
    read_cat,
    read_cd,
    read_command,
    read_echo,
    read_eval,
    read_mktemp,
    read_source,
    read_trap,
)
from safetyd.core.shell.readers.shells import read_shell

READERS: Final[dict[str, Reader]] = {
    "alias": read_alias,
    "cat": read_cat,
    "cd": read_cd,
    "command": read_command,
    "echo": read_echo,
    "eval": read_eval,
    "forge": read_forge,
    "git": read_git,
    "goals": read_goals,
    "interpreter": read_interpreter,
    "mktemp": read_mktemp,
    "package_runner": read_package_runner,
    "pip": read_pip,
    "rm": read_rm,
    "shell": read_shell,
    "source": read_source,
    "trap": read_trap,
}
