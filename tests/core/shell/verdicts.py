"""What becomes of a command: it passes, is asked about, or is blocked."""

from safetyd.core.shell import judge, programs
from safetyd.core.shell.judge import NOWHERE
from safetyd.core.shell.places import Project

TABLE = programs.shipped()


def verdict(command: str, project: Project = NOWHERE) -> str:
    stopping = judge.read(command, TABLE, project).stopping
    if not stopping:
        return "pass"
    return "block" if stopping[0].blocks else "ask"
