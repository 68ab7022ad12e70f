"""Checks that no other user can change the data directory and the keys.

A user who can add a key file can become an operator. A user who can rename a parent directory can
replace the keys. So all these paths must belong to the daemon's user or root, and nobody else may
be able to write to them.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from safetyd.host import user_name

_STATE: Final = ("nats", "audit", "checkpoints")
_ROOT: Final = 0
_EVERY_UID: Final = 2**32 - 1
_OVERFLOW_UID: Final = 65534  # in a user namespace, owners outside of it have this uid
_ELSEWHERE: Final = "or choose another directory with --data-dir"


class Foreign(Exception):
    """Other users could change files that the daemon trusts. Each line of the text has a fix."""


def problems(data_dir: Path, uid: int) -> list[str]:
    """Return the paths that users other than `uid` and root could change, each with a fix."""
    found = list(_above(data_dir, uid))
    found += _judged(data_dir, uid, _chown(data_dir, uid))
    for path in (data_dir / name for name in _STATE):
        own = _chown(path, uid, option="-R ")
        found += _judged(path, uid, f"`mv {_q(path)} {_q(path)}.foreign`, or {own} if it is yours")
    keys = data_dir / "keys"
    for path in (keys, *sorted(keys.rglob("*"))):
        own = _chown(path, uid)
        is_key = not path.is_dir() or path.is_symlink()
        found += _judged(path, uid, f"`rm {_q(path)}`, or {own} if you trust it" if is_key else own)
    return found


def check_owners(data_dir: Path) -> None:
    """Raise `Foreign` if other users could change the data directory or the keys."""
    if found := problems(data_dir, os.geteuid()):
        raise Foreign("\n".join(found))


def _above(data_dir: Path, uid: int) -> Iterator[str]:
    """Check the parent directories, in which another user could replace the data directory."""
    named, real = Path(os.path.abspath(data_dir)), data_dir.resolve()  # noqa: PTH100 - links too
    trusted = {uid, _ROOT, _unmapped()}
    upwards = [(path, *path.parents) for path in (named, real)]
    inside = {parent: child for path in upwards for child, parent in pairwise(path)}
    for parent, child in inside.items():
        seen = parent.stat()
        if seen.st_uid not in trusted:
            said = f"{parent} belongs to {user_name(seen.st_uid)}, who can replace {child}"
            yield f"{said}: {_chown(parent, uid)}, {_ELSEWHERE}"
        if _others_write(seen, uid) and not seen.st_mode & stat.S_ISVTX:
            said = f"{parent} allows other users to replace {child} ({_mode(seen)})"
            yield f"{said}: `chmod go-w {_q(parent)}`, {_ELSEWHERE}"


def _judged(path: Path, uid: int, fix: str) -> Iterator[str]:
    """Check a path if it exists, and its target if it is a link."""
    if not os.path.lexists(path):
        return
    seen = path.lstat()
    if seen.st_uid not in {uid, _ROOT}:
        yield f"{path} belongs to {user_name(seen.st_uid)}: {fix}"
        return
    if stat.S_ISLNK(seen.st_mode):
        if path.exists():
            yield from _judged(path.resolve(), uid, fix)
        return
    if _others_write(seen, uid):
        yield f"other users can write to {path} ({_mode(seen)}): `chmod go-w {_q(path)}`"


def _others_write(seen: os.stat_result, uid: int) -> bool:
    if seen.st_mode & stat.S_IWOTH:
        return True
    return bool(seen.st_mode & stat.S_IWGRP) and not _only_ours(seen.st_gid, uid)


def _only_ours(gid: int, uid: int) -> bool:
    """Return True if the group has no other members, as with per-user groups."""
    try:
        named = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        return False
    named |= {user.pw_name for user in pwd.getpwall() if user.pw_gid == gid}
    return named <= {user_name(uid), user_name(_ROOT)}


def _unmapped() -> int:
    """Return the uid of root's directories. In a user namespace it is not 0."""
    first, _, count = Path("/proc/self/uid_map").read_text().split()[:3]
    return _ROOT if (int(first), int(count)) == (0, _EVERY_UID) else _OVERFLOW_UID


def _chown(path: Path, uid: int, option: str = "") -> str:
    return f"`chown {option}{user_name(uid)} {_q(path)}`"


def _mode(seen: os.stat_result) -> str:
    return f"mode {stat.S_IMODE(seen.st_mode):04o}"


def _q(path: Path) -> str:
    return shlex.quote(str(path))
