"""Places outside a project that every tool may use in the coding profile.

These are temporary files, and system files that everybody may read. Files with secrets and files
that other programs obey have their own rules, which also apply there.
"""

import re
from typing import Final

from safetyd.core.shell.places import STREAM, TEMPORARY, Project, is_all_temporary
from safetyd.core.shell.places import place as command_place
from safetyd.core.text.path_globs import PathTarget

_NO_PROJECT: Final = Project()
_SYSTEM: Final = (
    *("/bin/", "/boot/", "/etc/", "/lib/", "/lib32/", "/lib64/", "/opt/", "/nix/", "/sbin/"),
    *("/snap/", "/sys/", "/usr/", "/var/cache/", "/var/lib/dpkg/", "/var/log/", "/proc/sys/"),
    *("/Applications/", "/Library/", "/System/"),
)
_of_kernel = re.compile(r"/(?:proc(?:/\w+)?)?\Z").match  # /proc/cpuinfo, but no process


def is_temporary(where: PathTarget) -> bool:
    """Return True for a temporary file, but not for the folder of all of them."""
    path = where.path
    if not path.startswith("/") or is_all_temporary(path):
        return False
    return command_place(path, None, _NO_PROJECT).kind == TEMPORARY


def is_free(where: PathTarget, *, changes: bool) -> bool:
    """Return True if a path may be read, or changed, although it is outside the project."""
    path = where.path
    if where.opaque or not path.startswith("/"):
        return False
    if changes:
        return is_temporary(where) or is_stream(path)
    readable = f"{path}/".startswith(_SYSTEM) or _of_kernel(path) is not None
    return readable or command_place(path, None, _NO_PROJECT).kind in {TEMPORARY, STREAM}


def is_stream(path: str) -> bool:
    """Return True for a terminal, standard input or /dev/null."""
    return path.startswith("/dev/") and command_place(path, None, _NO_PROJECT).kind == STREAM
