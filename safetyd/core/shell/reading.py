"""What the analysis of a command reports: effects, files, positions and reasons."""

import enum
import re
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from safetyd.core.messages.proposal import Reversibility

OWN_PROGRAM: Final = "safetyd"
HOLE: Final = "\0"  # stands for a part of a word that is only known at run time
T = TypeVar("T")

_holes = re.compile(f"{HOLE}+").sub


def one_hole(text: str) -> str:
    """Replace adjacent holes by a single one."""
    return _holes(HOLE, text)


def word_set(text: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split())


def each(value: T, names: str) -> dict[str, T]:
    """Return a dictionary that maps every word of `names` to the same value."""
    return dict.fromkeys(names.split(), value)


class Effect(enum.StrEnum):
    """What a part of a command does, from harmless to severe."""

    READ = "read"  # changes nothing
    WORK = "work"  # changes the project in a way that git or a build can restore
    UNKNOWN = "unknown"  # cannot be determined
    INSTALLS = "installs"
    LEAVES = "leaves"  # data leaves the machine
    IRREVERSIBLE = "irreversible"
    PRIVILEGED = "privileged"  # acts as another user, or changes the system
    SECRETS = "secrets"

    __hash__ = str.__hash__

    def __init__(self, name: str) -> None:
        self.passes = name in {"read", "work"}
        self.rank = len(type(self).__members__)  # effects are ranked in the order of definition


WHY: Final = {
    Effect.READ: "only reads",
    Effect.WORK: "works inside the project",
    Effect.UNKNOWN: "has an unknown effect: the table does not list these arguments",
    Effect.INSTALLS: "installs new software",
    Effect.LEAVES: "contacts another machine",
    Effect.IRREVERSIBLE: "cannot be undone",
    Effect.PRIVILEGED: "needs another user's permissions",
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
    pattern: bool = False  # a file name pattern


# Facts that some rules look for: a command overwrites or deletes something on a remote, it reads
# commands from its input, its program is not in the table, or it runs a file, which may change.
Trait = Literal["rewrites_remote", "open_input", "unlisted", "runs_file"]
RUNS_FILE: Final[tuple[Trait, ...]] = ("runs_file",)


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One thing that a part of a command does."""

    effect: Effect
    why: str  # completes "`rm -rf ~/music` ...": "deletes ~/music, which is outside the project"
    program: str = ""  # the program with its verb, such as "git push"
    blocks: bool = False
    type: str = ""  # the equivalent action type
    touches: tuple[Touch, ...] = ()
    remote: str | None = None
    remedy: str = ""  # completes "allowed ...": "as `git push --dry-run`"
    shown: str = ""  # this part of the command, shortened
    start: int = 0  # position of this part in the command, in bytes
    end: int = 0
    way: tuple[str, ...] = ()  # programs that run it, outermost first: ("sh -c", "xargs")
    traits: tuple[Trait, ...] = ()
    said: str = ""  # its words after expansion, except quoted texts with spaces
    words: tuple[str, ...] = ()  # all words after the name of a program that is not in the table

    @property
    def passes(self) -> bool:
        return self.effect.passes and not self.blocks


class Blank(NamedTuple):
    """A part of a command, in bytes, that may vary between similar commands."""

    start: int
    end: int
    kind: str


class Code(NamedTuple):
    """What code in another language would do, judging by its text."""

    findings: tuple[tuple[Effect, str], ...] = ()  # effects that need approval, and reasons
    touches: tuple[Touch, ...] = ()  # files that the code opens; `HOLE` is an unknown name
    shell: tuple[str, ...] = ()  # scripts that the code passes to a shell
    commands: tuple[tuple[str, ...], ...] = ()  # programs that the code runs, with their arguments
