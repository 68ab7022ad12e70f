"""The version of an installed host, which the program itself prints."""

import re
import shutil
import subprocess
from typing import Final

VERSION_S: Final = 30.0
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")


def version_of(program: str) -> str:
    """Run `PROGRAM --version`; return an empty text if it is not installed or prints none."""
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        ran = subprocess.run(  # noqa: S603 - the user's own program
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _VERSION.search(ran.stdout.decode(errors="replace"))
    return found[0] if found else ""


def is_older(version: str, than: str) -> bool:
    """Return whether a known version is older than another."""
    return bool(version and than) and _numbers(version) < _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
