"""Resolves the symbolic links in paths.

File systems that may hang (network mounts, FUSE) are not accessed, and other folders may be hidden
from the daemon. The sender of a proposal may see what the daemon cannot.
"""

import errno
import functools
import os
import posixpath
import re
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from safetyd.core.text.path_globs import UNFOLLOWED, place

MOUNTS: Final = "/proc/self/mountinfo"
MAX_LINKS: Final = 40  # links in one path; the kernel has the same limit
MAX_LOOKS: Final = 1500  # lookups per proposal; enough for a thousand files and their folders
MAX_CHARS: Final = 16 * 1024  # total length of the paths that are recorded
MAX_PATH: Final = 4096

# File systems that the local kernel serves. All others may hang.
_LOCAL: Final = frozenset(
    {
        *("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "reiserfs", "xfs", "zfs"),
        *("erofs", "exfat", "hfsplus", "iso9660", "ntfs3", "squashfs", "vfat"),
        *("devtmpfs", "overlay", "proc", "ramfs", "sysfs", "tmpfs"),
    }
)
# Folders that systemd hides from a service (ProtectHome=, PrivateTmp=).
_HOMES: Final = frozenset({"/home", "/root", "/run/user"})
_TEMPORARY: Final = frozenset({"/tmp", "/var/tmp"})  # noqa: S108 - compared, not used
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


class Mounts:
    """Finds the mount points that must not be accessed."""

    def __init__(self) -> None:
        self._file = os.open(MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._news = select.poll()
        self._news.register(self._file, select.POLLERR | select.POLLPRI)
        self._foreign = frozenset[str]()
        self._veiled = frozenset[str]()
        self._read()

    def foreign(self) -> frozenset[str]:
        """Return the mount points that must not be accessed now."""
        if self._news.poll(0):
            self._read()
        return self._foreign

    def veiled(self) -> frozenset[str]:
        """Return the mount points that may hide what others see there, as of the last look."""
        return self._veiled

    def _read(self) -> None:
        os.lseek(self._file, 0, os.SEEK_SET)
        lines = b"".join(iter(lambda: os.read(self._file, 1 << 16), b"")).splitlines()
        self._foreign = frozenset(_foreign(lines))
        self._veiled = frozenset(_veiled(lines))


def _foreign(lines: Sequence[bytes]) -> Iterator[str]:
    for line in lines:
        mounted, _, kept = line.partition(b" - ")
        point = _ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), mounted.split(b" ")[4])
        # The root file system is accessed in any case: the daemon runs from it.
        if kept.partition(b" ")[0].decode() not in _LOCAL and point != b"/":
            yield os.fsdecode(point)


def _veiled(lines: Sequence[bytes]) -> Iterator[str]:
    """Yield the folders over which systemd mounts another one for its services."""
    for line in lines:
        fields = line.partition(b" - ")[0].split(b" ")
        kind = line.partition(b" - ")[2].partition(b" ")[0]
        point = fields[4].decode("utf-8", "replace")
        if point in _HOMES and (kind == b"tmpfs" or b"/systemd/" in fields[3]):
            yield point
        if point in _TEMPORARY and b"systemd-private-" in fields[3]:
            yield point


@functools.cache
def _mounts() -> Mounts | None:
    try:
        return Mounts()
    except OSError:
        return None  # the kernel has no list of mounts, so nothing is resolved


class Found(NamedTuple):
    """The targets of paths that contain a link, and the paths that could not be followed."""

    targets: dict[str, str]  # by path as it was given
    hidden: tuple[str, ...] = ()  # the daemon cannot see them; somebody else may
    weary: bool = False  # there was too much to follow

    @property
    def resolved(self) -> tuple[str, ...]:
        """The targets, and `UNFOLLOWED` at the end if there are others."""
        ends = tuple(dict.fromkeys(self.targets.values()))
        return (*ends, UNFOLLOWED) if self.hidden or self.weary else ends


def follow(
    paths: Iterable[str],
    root: str,
    cwd: str | None = None,
    seen: Mapping[str, str] | None = None,
) -> Found:
    """Follow the links in paths, as far as the daemon can see them.

    Relative paths start at `cwd`, and a relative `cwd` at `root`, as in `place`. If neither is
    absolute, relative paths are skipped. `seen` has the targets of hidden paths that the sender of
    a proposal saw; it is None if the sender cannot look.
    """
    mounts = _mounts()
    if mounts is None:
        return Found({})
    walk = Walk(mounts.foreign(), mounts.veiled())
    base = walk.end(root) if root else ""
    found, hidden, room = dict[str, str](), list[str](), MAX_CHARS
    for given in paths:
        where = place(given, root, cwd)
        named = where.given if where.opaque else posixpath.join(root, where.given)
        if seen and named in seen:
            end = seen[named]
        elif where.opaque or not where.path.startswith("/"):
            if seen is not None and given.startswith("~"):
                hidden.append(named)
            continue
        else:
            walk.hidden = False
            end = walk.end(named)
            if walk.hidden:
                hidden.append(named)
        end = _within(end, base, root)
        if end and end != where.path:
            found[given] = _text(end)
            room -= len(end)
        if room < 0 or walk.weary:
            return Found(found, tuple(hidden), weary=True)
    return Found(found, tuple(hidden))


def resolved(paths: Sequence[str], root: str, cwd: str | None = None) -> tuple[str, ...]:
    """Return the targets of the paths that contain a link.

    If not all of them could be followed, the last item of the result is `UNFOLLOWED`.
    """
    return follow(paths, root, cwd).resolved


def _within(end: str, base: str, root: str) -> str:
    """Return a path below the real root as a path below the configured root."""
    plain = posixpath.normpath(root) if root else ""
    if base != plain and (end == base or end.startswith(f"{base}/")):
        return plain + end[len(base) :]
    return end


def _text(path: str) -> str:
    """Return a path as valid UTF-8, because a link can contain any bytes."""
    return path.encode("utf-8", "replace").decode()


class Walk:
    """Resolves paths one name at a time, and looks up each name only once."""

    def __init__(self, foreign: frozenset[str], veiled: frozenset[str] = frozenset()) -> None:
        self._foreign = foreign
        self._veiled = veiled
        self.hidden = False  # a path led to a place that the daemon cannot see
        self._known: dict[str, str | None] = {}
        self._blind = set[str]()  # names that the daemon cannot look at
        self._looks = MAX_LOOKS

    @property
    def weary(self) -> bool:
        return self._looks <= 0

    def end(self, path: str) -> str:
        """Return the target of an absolute path, as far as it can be resolved.

        Return an empty string if there is a loop or the path is too long.
        """
        ahead, done, links = path.split("/")[::-1], "", 0
        while ahead:
            name = ahead.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{name}"
            target = self._target(here)
            if target is None:
                return posixpath.normpath("/".join((here, *reversed(ahead))))
            if not target:
                done = here
                continue
            links += 1
            if links > MAX_LINKS or len(here) > MAX_PATH:
                return ""
            ahead += target.split("/")[::-1]
            done = "" if target.startswith("/") else done
        return done or "/"

    def _target(self, here: str) -> str | None:
        """Return the target of a link, or an empty string if it is not a link.

        Return None if the link cannot be read.
        """
        if here not in self._known:
            self._known[here] = self._look(here)
        if here in self._blind:
            self.hidden = True
        return self._known[here]

    def _look(self, here: str) -> str | None:
        self._looks -= 1
        if self._looks < 0:
            return None
        if here in self._foreign:
            self._blind.add(here)
            return None
        try:
            return os.readlink(here)  # noqa: PTH115 - a path object takes longer
        except OSError as exc:
            if exc.errno == errno.EINVAL:
                return ""
            if exc.errno in _DENIED or here.rpartition("/")[0] in self._veiled:
                self._blind.add(here)
            return None
        except ValueError:
            return None
