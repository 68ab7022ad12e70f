"""What the analysis of a command reports: effects, files, positions and reasons."""

import enum
import re
from typing import Final, NamedTuple, TypeVar

import msgspec

from safetyd.core.messages.proposal import Reversibility

OWN_PROGRAM: Final = "safetyd"
HOLE: Final = "\0"  # in a word: a part that is only known at run time
T = TypeVar("T")

_holes = re.compile(f"{HOLE}+").sub


def one_hole(text: str) -> str:
    """Replace several holes in a row by one."""
    return _holes(HOLE, text)


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, for tables of names and options."""
    return frozenset(text.split())


def each(value: T, names: str) -> dict[str, T]:
    """Return a table in which every word of `names` has the same value."""
    return dict.fromkeys(names.split(), value)


class Effect(enum.StrEnum):
    """What a part of a command does, from harmless to severe."""

    READ = "read"  # changes nothing
    WORK = "work"  # changes in the project that git or a build can restore
    UNKNOWN = "unknown"  # cannot be determined
    INSTALLS = "installs"
    LEAVES = "leaves"  # data leaves the machine
    IRREVERSIBLE = "irreversible"
    PRIVILEGED = "privileged"  # acts as another user, or changes the system
    SECRETS = "secrets"

    __hash__ = str.__hash__

    def __init__(self, name: str) -> None:
        self.passes = name in {"read", "work"}
        self.rank = len(type(self).__members__)  # by order of definition


WHY: Final = {
    Effect.READ: "only reads",
    Effect.WORK: "works inside the project",
    Effect.UNKNOWN: "is not in the table with these arguments, so it may do anything",
    Effect.INSTALLS: "installs something new",
    Effect.LEAVES: "reaches another machine",
    Effect.IRREVERSIBLE: "cannot be undone",
    Effect.PRIVILEGED: "needs the rights of another user",
    Effect.SECRETS: "exposes secrets",
}
REVERSIBILITY: Final[dict[Effect, Reversibility]] = {
    Effect.READ: "read_only",
    Effect.WORK: "reversible",
    Effect.UNKNOWN: "unknown",
    Effect.INSTALLS: "reversible",
    Effect.LEAVES: "irreversible",
    Effect.IRREVERSIBLE: "irreversible",
    Effect.PRIVILEGED: "irreversible",
    Effect.SECRETS: "irreversible",
}


class Access(enum.StrEnum):
    """What a command does to a file."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"


class Touch(NamedTuple):
    """A file in a command, and what happens to it."""

    path: str  # as it would be opened: without quotes, with `~` for the home folder
    access: Access
    given: str = ""  # as written in the command


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One thing that a part of a command does."""

    effect: Effect
    why: str  # completes "`rm -rf ~/music` ...": "deletes ~/music, which is outside the project"
    program: str = ""  # with its verb, such as "git push"
    blocks: bool = False
    type: str = ""  # the equivalent action type
    touches: tuple[Touch, ...] = ()
    remote: str | None = None
    remedy: str = ""  # completes "allowed ...": "as `git push --dry-run`"
    shown: str = ""  # this part of the command, shortened
    start: int = 0  # its position in the command, in bytes
    end: int = 0
    way: tuple[str, ...] = ()  # what runs it, outermost first: ("sh -c", "xargs")
    said: str = ""  # its words after expansion, without quoted sentences

    @property
    def passes(self) -> bool:
        return self.effect.passes and not self.blocks


class Blank(NamedTuple):
    """A part of a command, in bytes, that may vary between similar commands."""

    start: int
    end: int
    kind: str


class Code(NamedTuple):
    """What a piece of code in another language would do, as far as its text shows."""

    findings: tuple[tuple[Effect, str], ...] = ()  # what needs approval, and why
    touches: tuple[Touch, ...] = ()  # files that it opens; `HOLE` for an unknown name
    shell: tuple[str, ...] = ()  # scripts that it passes to a shell
    commands: tuple[tuple[str, ...], ...] = ()  # programs that it runs, with their arguments
