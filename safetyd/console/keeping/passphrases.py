"""A passphrase, from a file that a variable names, or from whoever sits at the terminal."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from safetyd.console.failure import Failure
from safetyd.keeping.age_encryption import MIN_CHARS

VARIABLE: Final = "SAFETYD_PASSPHRASE_FILE"


def new_passphrase() -> str:
    """Return one for a file that is to be written; it is typed twice."""
    found = _from_file() or _typed("Passphrase for the backup", twice=True)
    if len(found) < MIN_CHARS:
        raise Failure(
            f"the passphrase has {len(found)} characters; it needs {MIN_CHARS}", "passphrase"
        )
    return found


def known_passphrase() -> str:
    """Return the one that a file was written with."""
    return _from_file() or _typed("Passphrase of the backup", twice=False)


def _from_file() -> str:
    name = os.environ.get(VARIABLE, "")
    if not name:
        return ""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise Failure(f"{name} of {VARIABLE} cannot be read: {exc}", "passphrase") from exc
    first = text.partition("\n")[0].removesuffix("\r")
    if not first:
        raise Failure(f"{name} of {VARIABLE} has no first line", "passphrase")
    return first


def _typed(prompt: str, *, twice: bool) -> str:
    if not sys.stdin.isatty():
        raise Failure(
            f"a passphrase is needed: type this at a terminal, or name a file in {VARIABLE}",
            "passphrase",
        )
    found: str = click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
    return found
