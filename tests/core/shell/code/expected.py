"""Expected results of the analysis of code."""

from safetyd.core.shell.reading import Access, Code, Effect, Touch


def found(*findings: tuple[Effect, str]) -> Code:
    return Code(findings=findings)


def read(*paths: str) -> Code:
    return Code(touches=tuple(Touch(path, Access.READ) for path in paths))


def written(*paths: str) -> Code:
    return Code(touches=tuple(Touch(path, Access.WRITE) for path in paths))


def deleted(*paths: str) -> Code:
    return Code(touches=tuple(Touch(path, Access.DELETE) for path in paths))


def shell(*texts: str) -> Code:
    return Code(shell=texts)


def runs(*commands: tuple[str, ...]) -> Code:
    return Code(commands=commands)
