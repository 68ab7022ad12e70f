"""Where a path of a command leads, by its words alone: into the project or out of it."""

import posixpath
import re
from typing import Final, NamedTuple

from safetyd.core.shell.reading import HOLE, word_set

# Kinds of places.
INSIDE: Final = "inside"  # the project
TEMPORARY: Final = "temporary"
STREAM: Final = "stream"  # no file: a terminal, or nothing
OUTSIDE: Final = "outside"
SYSTEM: Final = "system"  # what a machine does not start without
HOME: Final = "home"  # the home folder itself, or all of them
DISK: Final = "disk"
SOCKET: Final = "socket"
UNKNOWN: Final = "unknown"

_STREAMS: Final = word_set("""
    /dev/null /dev/stdin /dev/stdout /dev/stderr /dev/tty /dev/zero /dev/random /dev/urandom
    /dev/full
""")
_DISKS: Final = (
    *("/dev/sd", "/dev/hd", "/dev/vd", "/dev/xvd", "/dev/nvme", "/dev/mmcblk", "/dev/disk"),
    *("/dev/dm-", "/dev/mapper/", "/dev/md", "/dev/loop", "/dev/mem", "/dev/kmem", "/dev/port"),
    *("/dev/block/", "/dev/rdisk"),
)
_TEMPORARY: Final = ("/tmp/", "/var/tmp/", "/private/tmp/", "/dev/shm/")  # noqa: S108 - where it leads
_SYSTEM: Final = word_set("""
    / /bin /boot /dev /etc /home /lib /lib32 /lib64 /mnt /opt /proc /root /run /sbin /srv /sys
    /usr /usr/bin /usr/lib /usr/local /usr/local/bin /usr/sbin /usr/share /var /var/lib /var/log
    /Applications /Library /System /Users /private /nix /snap /media
""")
_PROGRAMS: Final = (
    *("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/"),
    *("/opt/homebrew/bin/", "/usr/games/", "/snap/bin/", "~/.local/bin/", "~/.cargo/bin/"),
    *("~/bin/", "~/go/bin/", "~/.bun/bin/", "~/.deno/bin/", "/usr/local/go/bin/"),
    "~/.pyenv/shims/",
    *("~/.nvm/", "~/.rbenv/shims/", "~/.asdf/shims/", "/home/linuxbrew/.linuxbrew/bin/"),
)
_SYSTEM_BELOW: Final = (
    *("/bin/", "/boot/", "/dev/", "/etc/", "/lib", "/proc/", "/run/", "/sbin/", "/sys/", "/usr/"),
    *("/var/", "/Library/", "/System/", "/Applications/"),
)
# Where a project keeps programs that others wrote.
_INSTALLED: Final = ("/.bin/", "/.venv/bin/", "/venv/bin/", "/env/bin/", "/vendor/bin/")

# Programs that a project brings along, by the names that they always have.
_BROUGHT: Final = frozenset(
    {"gradlew", "mvnw", "manage.py", "rails", "rake", "artisan", "configure", "pants", "bazelw"}
)

_stands_for_all = re.compile(r"(\[[^\]]*\]|[*?.{},])+").fullmatch


class Project(NamedTuple):
    """Where a command runs. `root` is absolute, or empty if nobody knows it."""

    root: str = ""
    cwd: str = ""  # absolute, or empty: the root


def project_of(root: str, cwd: str) -> Project:
    """Return where a command runs; its folder stands for the project if nobody configured one.

    The folder is the agent's word: one of the system's, or a whole home, is no project.
    """
    if root or not cwd.startswith("/"):
        return Project(root, place(cwd, root, Project(root)).path if cwd and root else root)
    folder = posixpath.normpath(cwd)
    if _kind(folder, Project()) in {SYSTEM, HOME} or folder.startswith(_SYSTEM_BELOW):
        return Project("", folder)
    return Project(folder, folder)


class Place(NamedTuple):
    path: str  # absolute where that can be known, with `~` for the home folder
    kind: str


def place(word: str, cwd: str | None, project: Project) -> Place:
    """Say where a path leads from a folder; None: nobody knows the folder."""
    if not word or word == "-":
        return Place(word, STREAM)
    if word.startswith(HOLE):
        return Place(word, UNKNOWN)
    path = _normal(word if word[0] in "/~" or not cwd else f"{cwd}/{word}")
    if path.startswith("//"):
        path = path[1:]
    if cwd is None and word[0] not in "/~":
        return Place(path, UNKNOWN)
    return Place(path, _kind(path, project))


def lies_inside(path: str, project: Project) -> bool:
    """Say whether the path of a place lies in the project."""
    if not path or path == "-" or path.startswith(HOLE):
        return False
    return _kind(path, project) == INSIDE


def _normal(path: str) -> str:
    """Return a path without detours; one that leads up from a home folder begins at the root."""
    normal = posixpath.normpath(path)
    if path[:1] != "~" or normal[:1] == "~":
        return normal
    return posixpath.normpath(posixpath.join("/home/somebody", path.partition("/")[2]))


def below_root(path: str, project: Project) -> str:
    """Return a path inside a project as it is called from the root."""
    inside = _root_below_home(project.root)
    root = f"~/{inside}" if path[:1] == "~" and inside else project.root
    return path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path


def _kind(path: str, project: Project) -> str:
    if path[0] == "~":
        return _homely(path, project)
    if path[0] != "/":
        return _relative(path)
    below = project.root and path.startswith(project.root.rstrip("/") + "/")
    if below or path == project.root:
        return UNKNOWN if _climbs(path) else INSIDE
    if special := _device(path) or (TEMPORARY if f"{path}/".startswith(_TEMPORARY) else ""):
        return special
    bare = _bare(path)
    if _is_home(bare):
        return HOME
    return SYSTEM if bare in _SYSTEM else OUTSIDE


def _device(path: str) -> str:
    """Say what a file stands for that is none; empty if it is one."""
    if path in _STREAMS or path.startswith(("/dev/fd/", "/dev/pts/", "/proc/self/fd/")):
        return STREAM
    if path.startswith(_DISKS):
        return DISK
    return SOCKET if path.startswith(("/dev/tcp/", "/dev/udp/")) else ""


def _relative(path: str) -> str:
    """Without a root a relative path lies inside, unless it leads up."""
    if path == ".." or path.startswith("../"):
        return OUTSIDE
    return UNKNOWN if _climbs(path) else INSIDE


def _climbs(path: str) -> bool:
    """Say whether a hole may lead up and out again."""
    at = path.find(HOLE)
    return at >= 0 and "/" in path[at:] and path[at - 1 : at] == "/" and "../" in path[at:]


def _homely(path: str, project: Project) -> str:
    if "/" not in _bare(path):
        return HOME
    below = path.partition("/")[2]
    inside = _root_below_home(project.root)
    return INSIDE if inside and f"{below}/".startswith(f"{inside}/") else OUTSIDE


def is_all_temporary(path: str) -> bool:
    """Say whether a path stands for everything that is temporary, whose ever it is."""
    return f"{_bare(path)}/" in _TEMPORARY


def _bare(path: str) -> str:
    """Return a path without patterns at its end that stand for all that is there."""
    folder, slash, last = path.rpartition("/")
    while slash and _stands_for_all(last):
        path = folder or "/"
        folder, slash, last = folder.rpartition("/")
    return path


def _root_below_home(root: str) -> str:
    """Return a root from the home folder, if it plainly lies in one."""
    parts = root.split("/")
    if root.startswith(("/home/", "/Users/")) and len(parts) > 3:  # noqa: PLR2004 - "", home, user
        return "/".join(parts[3:])
    return root.removeprefix("/root/") if root.startswith("/root/") else ""


def _is_home(path: str) -> bool:
    parts = path.split("/")
    return path == "/root" or (len(parts) == 3 and parts[1] in {"home", "Users"})  # noqa: PLR2004


def program_name(word: str) -> str:
    """Return by which name the table knows a program, if its folder is one of programs."""
    if "/" not in word:
        return word
    folder, _, name = word.rpartition("/")
    brought = name in _BROUGHT and word[0] not in "/~"
    installed = brought or f"/{folder}/".endswith(_INSTALLED) or f"{folder}/".startswith(_PROGRAMS)
    return name if installed else ""
