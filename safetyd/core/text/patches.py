"""Parses patches: finds the files that they touch, and what happens to each file.

It supports unified and context diffs, git headers, and `*** Begin Patch`. Programs that apply
patches differ, so a file counts if any of them would touch it. Everything takes linear time.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal

import msgspec

from safetyd.core.text.patch_names import NOWHERE, both_names, exact_name, header_name, readings

Deed = Literal["changes", "creates", "deletes", "moves", "copies"]

MAX_FILES: Final = 1000  # the same limit as for paths of a proposal

_LOST: Final = 3  # maximum blank context lines missing at the end of a stripped text
_SHOWN_CHARS: Final = 40
_EXECUTABLE: Final = 0o111
_LINK: Final = 0o120000
# How many lines of the old and the new file a hunk line with this sign stands for.
_TAKES: Final = {" ": (1, 1), "\t": (1, 1), "-": (1, 0), "+": (0, 1), "\\": (0, 0)}
_DEEDS: Final[Mapping[str, Deed]] = {"add": "creates", "update": "changes", "delete": "deletes"}

# The last matching group is the kind of header.
_header = re.compile(
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
_has_counts = re.compile(r"@@ -\d").match
_is_mode = re.compile(r"[0-7]{6}\Z").match
# A text that starts like this is a patch, even if incomplete.
_is_patch = re.compile(
    r"(?:\s*```.*\n)?\s*"
    r"(?:diff --|--- |\*\*\* ?(?:begin|add|update|delete) |Index:|From [0-9a-f]{7,64} )",
    re.IGNORECASE,
).match


class Traits(msgspec.Struct, frozen=True):
    """What happens to a file."""

    deed: Deed = "changes"
    executable: bool = False  # it becomes executable
    link: bool = False  # it becomes a symbolic link, or changes its target


class PatchedFile(Traits, frozen=True, kw_only=True, gc=False):
    """A file that a patch touches."""

    readings: tuple[str, ...]  # possible paths, most likely first

    @property
    def path(self) -> str:
        return self.readings[0]


class Patch(msgspec.Struct, frozen=True, gc=False):
    files: tuple[PatchedFile, ...] = ()
    problem: str = ""  # why the patch cannot be parsed completely


NO_PATCH: Final = Patch()


def read_patch(text: str) -> Patch:
    """Return the files that the patches in a text touch, and what happens to them."""
    # Every patch contains one of these.
    if "+++ " in text or "@@ -" in text or "***" in text or "diff --" in text or "Index:" in text:
        return _read(text)
    return NO_PATCH


@functools.lru_cache(maxsize=8)  # several guards need the same text
def _read(text: str) -> Patch:
    reader = _Reader([line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")])
    reader.read()
    files, problem = tuple(reader.files.values()), reader.unknown
    if len(files) > MAX_FILES:
        files, problem = files[:MAX_FILES], f"it touches more than {MAX_FILES} files"
    # A patch inside another text, such as a manual, may be incomplete.
    if not problem and _is_patch(text):
        problem = reader.wrong
    return Patch(files, problem) if files or problem else NO_PATCH


class _Section(msgspec.Struct):
    """The headers of one file."""

    line: int = 0
    git: bool = False
    first: tuple[str, str] | None = None  # the names in the first line of a git patch
    names: list[tuple[str, str]] = []  # names in other headers, as written
    kinds: set[str] = set()  # the kinds of these headers
    moved: list[tuple[str, Deed]] = []
    hunks: bool = False
    paired: bool = False  # the new name directly follows the old one
    modes: list[tuple[str, int]] = []
    said: bool = False  # another header follows the first line


class _Reader:
    """Parses the lines in one pass. It records errors and continues."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._next = 0
        self._section = _Section()
        self._on: dict[str, Callable[[re.Match[str]], None]] = {
            "git": self._begin_git,
            "merged": self._begin_merged,
            "begin": self._envelope,
            "file": self._stray,
            "move": self._stray,
            "starred": lambda found: self._name("starred", found["starred"]),
            "old": self._old,
            "new": self._new,
            "index": lambda found: self._name("index", found["index"]),
            "context": lambda _: self._confirm({"new"}),
            "underline": lambda _: self._confirm({"index"}),
            "normal": lambda _: self._confirm({"index", "old", "new"}),
            "hunk": self._hunk,
            "binary": self._binary,
            "mode": self._mode,
            "kept": lambda found: self._section.modes.append(("kept", int(found["kept"], 8))),
            "moved": self._moved,
        }
        # File names that some programs use for the next hunk.
        self._spare: list[tuple[str, str]] = []
        self.files: dict[str, PatchedFile] = {}
        self.unknown = ""
        self.wrong = ""

    def read(self) -> None:
        while (line := self._line()) is not None:
            found = _header(line)
            if found is None:
                continue
            kind = found.lastgroup or ""
            if kind in self._on:
                self._on[kind](found)
            self._section.said |= kind not in {"git", "merged"}
        self._end_section()

    def _line(self) -> str | None:
        if self._next == len(self._lines):
            return None
        self._next += 1
        return self._lines[self._next - 1]

    def _ahead(self, sign: str, by: int = 0) -> bool:
        """Return True if a following line starts with `sign`."""
        at = self._next + by
        return at < len(self._lines) and self._lines[at].lstrip().startswith(sign)

    def _unknown(self, why: str) -> None:
        """Record that a file with an unknown name may be touched."""
        self.unknown = self.unknown or why

    def _wrong(self, why: str) -> None:
        """Record an error in a patch."""
        self.wrong = self.wrong or why

    def _begin(self, section: _Section) -> None:
        self._end_section()
        section.line = self._next
        self._section = section

    def _begin_git(self, found: re.Match[str]) -> None:
        self._begin(_Section(git=True, first=both_names(found["git"])))

    def _begin_merged(self, found: re.Match[str]) -> None:
        name = exact_name(found["merged"]) or ""
        self._begin(_Section(git=True, first=(name, name)))

    def _name(self, kind: str, written: str) -> None:
        if self._section.hunks:
            self._begin(_Section())
        self._section.names.append((kind, written))
        self._section.kinds.add(kind)

    def _old(self, found: re.Match[str]) -> None:
        # In a context diff these signs precede the new name.
        names = self._section.names
        after_stars = names and names[-1][0] == "starred" and self._ahead("*" * 15)
        self._name("new" if after_stars else "old", found["old"])

    def _new(self, found: re.Match[str]) -> None:
        self._name("new", found["new"])
        before = self._lines[self._next - 2].lstrip() if self._next > 1 else ""
        self._section.paired |= before.startswith("--- ")

    def _confirm(self, kinds: AbstractSet[str]) -> None:
        """Accept names as those of a patch, because the next line can only be in a patch."""
        self._section.hunks |= not kinds.isdisjoint(self._section.kinds)

    def _binary(self, _: re.Match[str]) -> None:
        self._section.hunks |= self._section.git

    def _mode(self, found: re.Match[str]) -> None:
        mode = found["mode"].strip()
        if not self._section.git or self._section.hunks:
            return
        if not _is_mode(mode):
            self._unknown(f"{mode[:_SHOWN_CHARS]!r} is not a file mode")
            return
        self._section.modes.append((found["state"].lower(), int(mode, 8)))

    def _moved(self, found: re.Match[str]) -> None:
        if not self._section.git or self._section.hunks:
            return
        name = exact_name(found["moved"])
        if not name:
            self._unknown(f"line {self._next} has an unclosed quote")
            return
        how, _, end = found["way"].lower().partition(" ")
        source: Deed = "moves" if how == "rename" else "copies"
        self._section.moved.append((name, source if end in {"from", "old"} else "creates"))

    def _hunk(self, found: re.Match[str]) -> None:
        section, head = self._section, found["hunk"]
        if not (section.git or section.names or self._spare):
            return  # no file name precedes this line
        section.hunks = True
        self._take_spare()
        indent, counts = found.start("hunk"), hunk_counts(head)
        if counts:
            old, new = (1 if count is None else int(count) for count in counts.groups())
            self._counted(old, new, indent)
        elif _has_counts(head):
            self._wrong(f"the hunk at line {self._next} has no length")
        else:
            self._uncounted(indent)

    def _counted(self, old: int, new: int, indent: int) -> None:
        begun = self._next
        while old > 0 or new > 0:
            line = self._line()
            if line is None:
                if old != new or old > _LOST:
                    self._wrong(f"it ends inside the hunk at line {begun}")
                return
            sign = line[indent : indent + 1] or " "
            if sign not in _TAKES:
                self._wrong(f"line {self._next} does not belong to the hunk at line {begun}")
                self._next -= 1
                return
            old, new = old - _TAKES[sign][0], new - _TAKES[sign][1]
            self._look_within(line[indent:])
        if old or new or self._goes_on(indent):
            self._wrong(f"the hunk at line {begun} is longer than its header says")

    def _goes_on(self, indent: int) -> bool:
        """Return True if a changed line follows a hunk that should have ended."""
        if self._next == len(self._lines):
            return False
        line = self._lines[self._next][indent:]
        # A line "--" begins the signature of a mail.
        ends = line.startswith(("--- ", "+++ ")) or line.rstrip() == "--"
        return line[:1] in {"+", "-"} and not ends

    def _uncounted(self, indent: int) -> None:
        """Skip a hunk that ends at the next header."""
        while (line := self._line()) is not None:
            sign = line[indent : indent + 1] or " "
            heads = line[indent:].startswith("--- ") and self._ahead("+++ ")
            if heads or sign not in _TAKES:
                self._next -= 1
                return

    def _look_within(self, line: str) -> None:
        """Accept file names inside a hunk, because some programs do not count lines."""
        if line.startswith("--- ") and self._ahead("+++ ") and self._ahead("@@", 1):
            name = self._lines[self._next].lstrip()[len("+++ ") :]
            self._pair(header_name(line[len("--- ") :]), header_name(name), Traits())

    def _envelope(self, _: re.Match[str]) -> None:
        self._begin(_Section())
        last = ""
        while (line := self._line()) is not None:
            found = _header(line)
            kind = found.lastgroup if found else ""
            if found and kind == "end":
                return
            if found and kind in {"file", "move"}:
                last = self._directive(found, last)
            elif line.startswith("***") and kind != "mark":
                self._unknown(f"line {self._next} has an unknown instruction")
            elif line and line[0] not in _TAKES and line[0] != "@":
                self._wrong(f"line {self._next} is not part of a hunk")
        self._wrong("*** End Patch is missing")

    def _stray(self, found: re.Match[str]) -> None:
        self._wrong(f"line {self._next} is outside *** Begin Patch")
        self._directive(found, "")

    def _directive(self, found: re.Match[str], last: str) -> str:
        """Accept a file of `*** Begin Patch`. Return its name, because the file may be moved."""
        if found.lastgroup == "move":
            self._add((found["move"].strip(),), Traits("creates"))
            if last:
                self._add((last,), Traits("moves"))
            return ""
        name = found["file"].strip()
        self._add((name,), Traits(_DEEDS[found["deed"].lower()]))
        return name

    def _end_section(self) -> None:
        section, self._section = self._section, _Section()
        if section.git:
            self._end_git(section)
        elif section.hunks or section.paired:
            self._take_names(section, Traits())
        else:
            self._spare += section.names
        at_end = self._next == len(self._lines)
        cut = at_end and not section.said if section.git else at_end and section.paired
        if not section.hunks and (cut or (section.git and section.names)):
            self._wrong(f"the file header at line {section.line} has no hunk")

    def _end_git(self, section: _Section) -> None:
        self._take_spare()
        traits = _traits_of(section.modes)
        for name, deed in section.moved:
            target = msgspec.structs.replace(traits, deed=deed)
            self._add((name,), target if deed == "creates" else Traits(deed))
        self._take_names(section, Traits() if section.moved else traits)
        if section.first:
            self._pair(*section.first, Traits() if section.moved else traits)
        elif not (section.moved or section.names):
            self._unknown(f"the two file names in line {section.line} are ambiguous")

    def _take_spare(self) -> None:
        self._take_names(_Section(names=self._spare), Traits())
        self._spare = []

    def _take_names(self, section: _Section, traits: Traits) -> None:
        old: str | None = None
        for kind, written in section.names:
            name = header_name(written)
            if name is None:
                self._unknown(f"a file name after line {section.line} has an unclosed quote")
            if kind == "new":
                self._pair(old, name, traits, section.first or (None, None))
                old = None
                continue
            self._pair(old, None, traits)
            old = name
        self._pair(old, None, traits)

    def _pair(
        self,
        old: str | None,
        new: str | None,
        traits: Traits,
        first: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """Accept the old and new name of a file. `first` are the names in a git header."""
        if new and old == NOWHERE:
            old, traits = None, msgspec.structs.replace(traits, deed="creates")
        elif old and new == NOWHERE:
            new, traits = None, msgspec.structs.replace(traits, deed="deletes")
        for name, other in ((old, new or first[1]), (new, old or first[0])):
            if name and name != NOWHERE:
                self._add(readings(name, other), traits)

    def _add(self, ways: tuple[str, ...], traits: Traits) -> None:
        known = self.files.get(ways[0], PatchedFile(readings=ways, deed=traits.deed))
        self.files[ways[0]] = PatchedFile(
            readings=tuple(dict.fromkeys((*known.readings, *ways))),
            deed=traits.deed if known.deed == "changes" else known.deed,
            executable=known.executable or traits.executable,
            link=known.link or traits.link,
        )


def _traits_of(modes: Sequence[tuple[str, int]]) -> Traits:
    """Return what the modes in git headers do to a file."""
    gained = [mode for state, mode in modes if state in {"new", "new file"}]
    states = {state for state, _ in modes}
    deed: Deed = "creates" if "new file" in states else "changes"
    return Traits(
        "deletes" if "deleted file" in states else deed,
        # The old mode in a patch may be wrong.
        executable=any(mode & _EXECUTABLE for mode in gained),
        link=_LINK in gained or ("kept", _LINK) in modes,
    )
