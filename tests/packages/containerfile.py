"""Reads a Containerfile: the instructions that safetyd's uses, and no others."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

KNOWN: Final = frozenset(
    (
        *("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL"),
        *("RUN", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)
_FLAG: Final = re.compile(r"--([\w-]+)=(\S+)\s+")
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")


class Instruction(NamedTuple):
    name: str
    flags: Mapping[str, str]
    value: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.value)

    @property
    def command(self) -> list[str]:
        """The words of a command that is started without a shell."""
        listed = json.loads(self.value.removeprefix("CMD "))
        assert all(isinstance(word, str) for word in listed)
        return list(listed)


class Stage(NamedTuple):
    base: str
    name: str
    instructions: list[Instruction]

    def every(self, name: str) -> list[Instruction]:
        return [one for one in self.instructions if one.name == name]

    def only(self, name: str) -> Instruction:
        (found,) = self.every(name)
        return found

    @property
    def environment(self) -> dict[str, str]:
        pairs = (word.partition("=") for one in self.every("ENV") for word in one.words)
        return {name: value for name, _, value in pairs}


def stages(path: Path) -> list[Stage]:
    """Return the stages, with the default values of arguments filled in."""
    found: list[Stage] = []
    given: dict[str, str] = {}
    for line in _lines(path.read_text()):
        name, _, rest = line.partition(" ")
        assert name in KNOWN, f"unknown instruction: {line}"
        rest = _VARIABLE.sub(lambda match: given[match[1]], rest.strip())
        flags: dict[str, str] = {}
        while name in {"COPY", "HEALTHCHECK"} and (flag := _FLAG.match(rest)):
            flags[flag[1]], rest = flag[2], rest[flag.end() :]
        if name == "ARG":
            key, _, value = rest.partition("=")
            given[key] = value
        elif name == "FROM":
            base, _, alias = rest.partition(" AS ")
            found.append(Stage(base, alias, []))
        else:
            found[-1].instructions.append(Instruction(name, flags, rest))
    return found


def _lines(text: str) -> Iterator[str]:
    """Yield instructions with their continuation lines joined, without comments."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\s*\\\n\s*", " ", kept).splitlines():
        if line.strip():
            yield line.strip()
