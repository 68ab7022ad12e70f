"""The verdict on a command: it passes, needs approval or is blocked."""

from safetyd.core.shell import judge, programs
from safetyd.core.shell.judge import NOWHERE
from safetyd.core.shell.places import Project

TABLE = programs.shipped()


def verdict(command: str, project: Project = NOWHERE, table: programs.Table = TABLE) -> str:
    stopping = judge.read(command, table, project).stopping
    if not stopping:
        return "pass"
    return "block" if stopping[0].blocks else "ask"
