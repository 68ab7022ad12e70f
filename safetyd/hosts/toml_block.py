"""Adds one marked block to the end of a TOML file, and removes it."""

import re
import tomllib
from typing import Final

BEGIN: Final = "# >>> safetyd: written by `safetyd protect`, removed by `safetyd unprotect`"
END: Final = "# <<< safetyd"

_BLOCK: Final = re.compile(rf"\n?{re.escape(BEGIN)}\r?\n.*?{re.escape(END)}\r?\n", re.DOTALL)


class NotToml(Exception):
    """The file is not TOML, or a block cannot be added to it; the message says why."""


def added(text: str, block: str) -> str:
    """Return the text with the block at its end; replace an earlier block."""
    bare = removed(text)
    _check(bare, "the file is not valid TOML")
    gap = "" if not bare or bare.endswith("\n") else "\n"
    whole = f"{bare}{gap}\n{BEGIN}\n{block.strip()}\n{END}\n"
    _check(whole, "the file defines `hooks` or `features` in a way that cannot be extended")
    return whole


def removed(text: str) -> str:
    return _BLOCK.sub("", text)


def content(text: str) -> str:
    """Return the content of the block; empty if there is none."""
    found = _BLOCK.search(text)
    return "" if found is None else found[0].partition(BEGIN)[2].rpartition(END)[0].strip()


def _check(text: str, problem: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise NotToml(f"{problem}: {exc}") from exc
