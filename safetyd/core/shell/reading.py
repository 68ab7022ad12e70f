"""What the reader finds in a command: effects, where they stand, and why."""

import enum
import re
from typing import Final, NamedTuple, TypeVar

import msgspec

from safetyd.core.messages.proposal import Reversibility

OWN_PROGRAM: Final = "safetyd"
HOLE: Final = "\0"  # in a word: a stretch that nobody knows before it runs
T = TypeVar("T")

_holes = re.compile(f"{HOLE}+").sub


def one_hole(text: str) -> str:
    """Return a text with one hole for several in a row."""
    return _holes(HOLE, text)


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, for tables of names and options."""
    return frozenset(text.split())


def each(value: T, names: str) -> dict[str, T]:
    """Return a table in which every word of `names` has the same value."""
    return dict.fromkeys(names.split(), value)


class Effect(enum.StrEnum):
    """What a part of a command does, mildest first."""

    READ = "read"  # it only looks
    WORK = "work"  # changes in the project that git or a build brings back
    UNKNOWN = "unknown"  # nobody can say
    INSTALLS = "installs"
    LEAVES = "leaves"  # the machine
    IRREVERSIBLE = "irreversible"
    PRIVILEGED = "privileged"  # another user, or the system
    SECRETS = "secrets"

    __hash__ = str.__hash__

    def __init__(self, name: str) -> None:
        self.passes = name in {"read", "work"}
        self.rank = len(type(self).__members__)  # of those before it


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
    """What happens to a file that a command names."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"


class Touch(NamedTuple):
    """A file that a command names, and what happens to it."""

    path: str  # as it would be opened: without quotes, with `~` for the home folder
    access: Access
    given: str = ""  # as the command has it


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One thing that a part of a command does."""

    effect: Effect
    why: str  # completes "`rm -rf ~/music` ...": "deletes ~/music, which is outside the project"
    program: str = ""  # with its verb: "git push"
    blocks: bool = False
    type: str = ""  # of the action that it amounts to, by the table of types
    touches: tuple[Touch, ...] = ()
    remote: str | None = None
    remedy: str = ""  # completes "allowed ...": "as `git push --dry-run`"
    shown: str = ""  # the part as it stands, or as it comes out inside
    start: int = 0  # where the part, or what holds it, stands in the text
    end: int = 0
    way: tuple[str, ...] = ()  # what it is inside of, outermost first: ("sh -c", "xargs")
    said: str = ""  # its words as they come out, without what is only text

    @property
    def passes(self) -> bool:
        return self.effect.passes and not self.blocks


class Blank(NamedTuple):
    """A stretch of a text, in bytes, that may be otherwise the next time."""

    start: int
    end: int
    kind: str


class Code(NamedTuple):
    """What a piece of code in another language would do, as far as its text shows."""

    findings: tuple[tuple[Effect, str], ...] = ()  # what does not pass, and why
    touches: tuple[Touch, ...] = ()  # files that it opens; `HOLE` where a name is not known
    shell: tuple[str, ...] = ()  # texts that it hands to a shell
    commands: tuple[tuple[str, ...], ...] = ()  # programs that it runs, with their arguments
