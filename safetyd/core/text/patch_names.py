"""File names in the headers of a patch: quotes, prefixes and time stamps.

Programs that apply patches strip different prefixes, so a name may mean more than one path.
"""

import re
from typing import Final

NOWHERE: Final = "/dev/null"  # written instead of a name if the file does not exist

_END: Final = "\0"  # most programs end a name at this character
# Prefixes that git adds to names, and usual names of two compared folders.
_PREFIXES: Final = frozenset({"a", "b", "c", "i", "o", "w", "1", "2", "old", "new", "orig"})
_NAMED: Final = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13}

_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_STAMP: Final = re.compile(r" \d{4}-\d\d-\d\d[ T]\d\d:\d\d")
_quoted = re.compile(r'"((?:[^"\\]|\\.)*)"').match


def exact_name(written: str) -> str | None:
    """Return the name on a line, or None if a quote is not closed."""
    written = written.strip()
    if not written.startswith('"'):
        return written.partition(_END)[0]
    quoted = _quoted(written)
    return _unescaped(quoted[1]) if quoted else None


def header_name(written: str) -> str | None:
    """Return the name before an optional tab and time stamp, or None if a quote is not closed."""
    if written.lstrip().startswith('"'):
        return exact_name(written)
    name = written.lstrip(" ").partition("\t")[0].partition(_END)[0].rstrip()
    return NOWHERE if name.startswith(f"{NOWHERE} ") else name


def both_names(written: str) -> tuple[str, str] | None:
    """Return the old and new name in the first line of a git patch, or None if ambiguous."""
    quoted = _quoted(written)
    if quoted:
        first, rest = _unescaped(quoted[1]), written[quoted.end() :]
    elif written.endswith('"') and ' "' in written:
        first, _, rest = written.partition(' "')
        rest = f'"{rest}'
    else:
        return _halves(written)
    second = exact_name(rest)
    return (first, second) if second else None


def readings(name: str, other: str | None) -> tuple[str, ...]:
    """Return the possible paths of a name in a header, most likely first.

    `other` is the name of the same file before or after the change, if it has one.
    """
    stamp = _STAMP.search(name)
    bare = name[: stamp.start()].rstrip() if stamp else name
    word = name.split(maxsplit=1)[0] if name.strip() else ""
    ways = (way for said in (bare, name, word) if said for way in _with_and_without(said, other))
    return tuple(dict.fromkeys(ways))


def _with_and_without(name: str, other: str | None) -> tuple[str, ...]:
    head, _, rest = name.partition("/")
    if not head or not rest:
        return (name,)
    twin = other is not None and other.partition("/")[0] == head
    return (rest, name) if head in _PREFIXES and not twin else (name, rest)


def _halves(written: str) -> tuple[str, str] | None:
    """Split two unquoted names at the only space, or in the middle if they are equal."""
    first, blank, second = written.rstrip().partition(" ")
    if blank and " " not in second:
        return first, second
    middle = len(written) // 2
    first, second = written[:middle], written[middle + 1 :]
    same = first == second or first.partition("/")[2] == second.partition("/")[2] != ""
    return (first, second) if same and written[middle] == " " else None


def _unescaped(quoted: str) -> str:
    """Decode a quoted name, in which git writes bytes as octal numbers."""
    name = _ESCAPE.sub(_byte, quoted.encode("utf-8", "replace")).decode("utf-8", "replace")
    return name.partition(_END)[0]


def _byte(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    if code.isdigit() and code < b"8":
        return bytes([int(code, 8) & 0xFF])
    return bytes([_NAMED[code]]) if code in _NAMED else code
