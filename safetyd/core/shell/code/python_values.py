"""Possible values of Python expressions. An unknown value is None, or a hole in a text."""

import shlex
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from safetyd.core.shell.reading import HOLE, one_hole, word_set

MAX_TEXT: Final = 4096
MAX_CHOICES: Final = 16
MAX_ITEMS: Final = 64
MAX_NAME: Final = 120


class Dotted(msgspec.Struct, frozen=True):
    """The result of an import or a call: `os.system`, `requests.get().text`."""

    name: str


class Place(msgspec.Struct, frozen=True):
    """A pathlib path."""

    path: str


class Content(msgspec.Struct, frozen=True):
    """The content of a file."""

    path: str


class Items(msgspec.Struct, frozen=True):
    """A list or a tuple."""

    values: "tuple[Value, ...]"


class AnyOf(msgspec.Struct, frozen=True):
    """One of several values."""

    values: "tuple[Value, ...]"


Value = str | Dotted | Place | Content | Items | AnyOf | None

_ALIASES: Final[tuple[tuple[str, str], ...]] = (
    ("builtins.", ""),
    ("__builtins__.", ""),
    ("posix.", "os."),
    ("posixpath.", "os.path."),
    ("io.open", "open"),
)


# Modules that many other modules import, so that code can reach them there: `glob.os.remove`.
_REACHED: Final = word_set("""
    os sys subprocess shutil builtins posix importlib pty ctypes socket distutils pathlib
""")


def choices(value: Value) -> "tuple[Value, ...]":
    return value.values if isinstance(value, AnyOf) else (value,)


def either(values: Iterable[Value]) -> Value:
    """Combine possible values. If there are too many, keep only functions."""
    known = list(dict.fromkeys(one for value in values for one in choices(value)))
    if len(known) > MAX_CHOICES:
        known = [*[value for value in known if isinstance(value, Dotted)][:MAX_CHOICES], None]
    return known[0] if len(known) == 1 else AnyOf(tuple(known)) if known else None


def items(values: "tuple[Value, ...]") -> Items:
    """Return a list. Of a long list, only the beginning is known."""
    return Items(values if len(values) <= MAX_ITEMS else (*values[:MAX_ITEMS], None))


def flat(value: Value) -> Value:
    """Return a value that may be stored in a list. Return None if it contains lists itself."""
    if isinstance(value, Items | AnyOf):
        nested = any(isinstance(one, Items | AnyOf) for one in value.values)
        return None if nested else value
    return value


def text(value: Value) -> str:
    """Return the text of a value, or a hole if it is unknown."""
    match value:
        case str():
            return value
        case Place(path=path):
            return path
        case Dotted(name="sys.executable"):
            return "python3"
        case _:
            return HOLE


def bounded(known: str) -> str:
    known = one_hole(known)
    return known if len(known) <= MAX_TEXT else HOLE


def dotted(name: str) -> Value:
    if HOLE in name:
        return None
    name = _reached(name)
    for alias, plain in _ALIASES:
        if name.startswith(alias):
            name = plain + name[len(alias) :]
    return Dotted(name[:MAX_NAME])


def _reached(name: str) -> str:
    """Return a name as if its module had been imported directly."""
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        module = parts[at].lstrip("_")
        # `asyncio.subprocess` and `socket.socket` do not lead to the modules of these names.
        if module in _REACHED and parts[at - 1] not in {"asyncio", module}:
            return ".".join((module, *parts[at + 1 :]))
    return name


def result(name: str) -> Value:
    if name.startswith("open:"):  # a method of a file
        return Content(name[len("open:") :].rpartition(".")[0])
    return Dotted(f"{name}()"[:MAX_NAME])


def attribute(owner: Value, attr: str) -> Value:
    match owner:
        case Dotted(name=name):
            return dotted(f"{name.removesuffix('.__dict__')}.{attr}")
        case Place(path=path):
            return _of_path(path, attr)
        case _:
            return None


def _of_path(path: str, attr: str) -> Value:
    match attr:
        case "parent":
            return Place(parent(path))
        case "name":
            return path.rpartition("/")[2]
        case "stem" | "suffix" | "parts" | "parents":
            return None
        case _:
            return Place(path)  # a method


def added(left: Value, right: Value) -> Value:
    match left, right:
        case Items(values=one), Items(values=other):
            return items((*one, *other))
        case Items(values=one), _:
            return items((*one, None))
        case _, Items(values=other):
            return items((None, *other))
        case _:
            return bounded(text(left) + text(right))


def below(left: Value, right: Value) -> Value:
    if isinstance(left, Place) or isinstance(right, Place | str):
        return Place(joined([left, right]))
    return None


def joined(parts: list[Value]) -> str:
    whole = ""
    for part in map(text, parts):
        whole = part if part.startswith(("/", "~")) or not whole else f"{whole.rstrip('/')}/{part}"
    return bounded(whole)


def parent(path: str) -> str:
    head, slash, tail = path.rpartition("/")
    if tail in {".", "..", "~", "", HOLE}:
        return HOLE
    return head or ("/" if slash else ".")


def filled(template: str, mark: str) -> str:
    """Replace the fields of a template by holes."""
    ends: Callable[[str], bool] = str.isalpha if mark == "%" else "}".__eq__
    filled, rest = [], template
    while mark in rest:
        before, _, after = rest.partition(mark)
        end = next((at for at, char in enumerate(after) if ends(char)), len(after))
        filled += [before, HOLE]
        rest = after[end + 1 :]
    return bounded("".join([*filled, rest]))


def split_words(command: str) -> Value:
    try:
        return items(tuple(shlex.split(command)))
    except ValueError:
        return None
