"""The headers of a patch: how each is recognised, and what those of one file say together."""

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Deed = Literal["changes", "creates", "deletes", "moves", "copies"]

_EXECUTABLE: Final = 0o111
_LINK: Final = 0o120000

# The last group that takes part says which header it is.
header = re.compile(
    r"""[\s\ufeff]*(?:
      diff\ --git\ (?P<git>.+)
    | diff\ --(?:cc|combined)\ (?P<merged>.+)
    | \*\*\*[ ]?begin\ patch[ \t]*\Z(?P<begin>)
    | \*\*\*[ ]?end\ patch[ \t]*\Z(?P<end>)
    | \*\*\*[ ]?end\ of\ file[ \t]*\Z(?P<mark>)
    | \*\*\*[ ]?(?P<deed>add|update|delete)\ file:(?P<file>.+)
    | \*\*\*[ ]?move\ to:(?P<move>.+)
    | \*{15}(?P<context>)
    | (?:\*\*\*|---)\ [\d,]+\ (?P<span>\*{4}|-{4})\Z
    | \*\*\*\ (?P<starred>.+)
    | ---\ (?P<old>.+)
    | \+\+\+\ (?P<new>.+)
    | Index:(?P<index>.+)
    | ={10,}\Z(?P<underline>)
    | (?P<hunk>@@.*)
    | \d[\d,]*[acd][\d,]*\Z(?P<normal>)
    | (?P<state>old|new|new\ file|deleted\ file)\ mode\ (?P<mode>.+)
    | index\ [0-9a-f]+\.\.[0-9a-f]+\ (?P<kept>[0-7]{6})\Z
    | (?P<way>(?:rename|copy)\ (?:from|to|old|new))\ (?P<moved>.+)
    | (?P<binary>GIT\ binary\ patch|Binary\ files)
    )""",
    re.VERBOSE | re.IGNORECASE,
).match
hunk_counts = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@").match
has_counts = re.compile(r"@@ -\d").match
is_mode = re.compile(r"[0-7]{6}\Z").match


class Traits(msgspec.Struct, frozen=True):
    """What happens to a file, whatever its name."""

    deed: Deed = "changes"
    executable: bool = False
    link: bool = False


class Section(msgspec.Struct):
    """What is said about one file, up to the next."""

    line: int = 0
    git: bool = False
    first: tuple[str, str] | None = None  # the names in the first line of git
    names: list[tuple[str, str]] = []  # in other headers, as they are written
    kinds: set[str] = set()  # of these headers
    moved: list[tuple[str, Deed]] = []
    hunks: bool = False
    paired: bool = False  # an old and a new name follow each other
    modes: list[tuple[str, int]] = []
    said: bool = False  # a header followed the first line


def traits_of(modes: Sequence[tuple[str, int]]) -> Traits:
    """Return what the modes in the headers of git make of a file."""
    gained = [mode for state, mode in modes if state in {"new", "new file"}]
    states = {state for state, _ in modes}
    deed: Deed = "creates" if "new file" in states else "changes"
    return Traits(
        "deletes" if "deleted file" in states else deed,
        # What a patch says of the mode before need not be true.
        executable=any(mode & _EXECUTABLE for mode in gained),
        link=_LINK in gained or ("kept", _LINK) in modes,
    )
