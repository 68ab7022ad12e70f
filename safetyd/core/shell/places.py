"""Classifies paths in commands: in the project, outside, a device. No file is opened."""

import posixpath
import re
from typing import Final, NamedTuple

from safetyd.core.shell.reading import HOLE, word_set

# Kinds of locations.
INSIDE: Final = "inside"  # the project
TEMPORARY: Final = "temporary"
STREAM: Final = "stream"  # a terminal, standard input or /dev/null
OUTSIDE: Final = "outside"
SYSTEM: Final = "system"  # folders that the operating system needs
HOME: Final = "home"  # a home folder itself, or the folder of all home folders
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
# Folders in which a project has installed programs.
_INSTALLED: Final = ("/.bin/", "/.venv/bin/", "/venv/bin/", "/env/bin/", "/vendor/bin/")

# Well-known programs that are part of a project.
_BROUGHT: Final = frozenset(
    {"gradlew", "mvnw", "manage.py", "rails", "rake", "artisan", "configure", "pants", "bazelw"}
)

_matches_everything = re.compile(r"(\[[^\]]*\]|[*?.{},])+").fullmatch


class Project(NamedTuple):
    """The project and folder in which a command runs. `root` is absolute, or empty if unknown."""

    root: str = ""
    cwd: str = ""  # empty for the root; not absolute if only the shell can resolve it


def project_of(root: str, cwd: str) -> Project:
    """Return the project and folder of a command. Without a configured root, `cwd` is the project.

    The agent chooses `cwd`, so a system folder or a home folder does not count as a project.
    """
    if root or not cwd.startswith("/"):
        return Project(root, place(cwd, root, Project(root)).path if cwd else root)
    folder = posixpath.normpath(cwd)
    if _kind(folder, Project()) in {SYSTEM, HOME} or folder.startswith(_SYSTEM_BELOW):
        return Project("", folder)
    return Project(folder, folder)


class Place(NamedTuple):
    path: str  # absolute if possible, with `~` for the home folder
    kind: str


def place(word: str, cwd: str | None, project: Project) -> Place:
    """Return the absolute path of a word, and its kind. `cwd` is None if it is not known."""
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


def is_inside(path: str, project: Project) -> bool:
    """Return True if a path is inside the project."""
    if not path or path == "-" or path.startswith(HOLE):
        return False
    return _kind(path, project) == INSIDE


def _normal(path: str) -> str:
    """Normalise a path. A path such as `~/../x` becomes absolute."""
    normal = posixpath.normpath(path)
    if path[:1] != "~" or normal[:1] == "~":
        return normal
    return posixpath.normpath(posixpath.join("/home/somebody", path.partition("/")[2]))


def below_root(path: str, project: Project) -> str:
    """Return a path relative to the project's root. Return other paths unchanged."""
    inside = _root_below_home(project.root)
    root = f"~/{inside}" if path[:1] == "~" and inside else project.root
    return path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path


def _kind(path: str, project: Project) -> str:
    if path[0] == "~":
        return _kind_below_home(path, project)
    if path[0] != "/":
        return _relative(path)
    below = project.root and path.startswith(project.root.rstrip("/") + "/")
    if below or path == project.root:
        return UNKNOWN if _may_lead_up(path) else INSIDE
    if special := _device(path) or (TEMPORARY if f"{path}/".startswith(_TEMPORARY) else ""):
        return special
    bare = _bare(path)
    if _is_home(bare):
        return HOME
    return SYSTEM if bare in _SYSTEM else OUTSIDE


def _device(path: str) -> str:
    """Return the kind of a device file, or an empty string for ordinary files."""
    if path in _STREAMS or path.startswith(("/dev/fd/", "/dev/pts/", "/proc/self/fd/")):
        return STREAM
    if path.startswith(_DISKS):
        return DISK
    return SOCKET if path.startswith(("/dev/tcp/", "/dev/udp/")) else ""


def _relative(path: str) -> str:
    """Return the kind of a relative path without a root: inside, unless it starts with `..`."""
    if path == ".." or path.startswith("../"):
        return OUTSIDE
    return UNKNOWN if _may_lead_up(path) else INSIDE


def _may_lead_up(path: str) -> bool:
    """Return True if an unknown part is followed by `..`, so that the path may leave the folder."""
    at = path.find(HOLE)
    return at >= 0 and "/" in path[at:] and path[at - 1 : at] == "/" and "../" in path[at:]


def _kind_below_home(path: str, project: Project) -> str:
    if "/" not in _bare(path):
        return HOME
    below = path.partition("/")[2]
    inside = _root_below_home(project.root)
    return INSIDE if inside and f"{below}/".startswith(f"{inside}/") else OUTSIDE


def holds_homes(path: str) -> bool:
    """Return True if a path covers all home folders, or the settings of a user or the system."""
    return _bare(path) in {"/", "/home", "/Users", "/etc", "~/.config", "~/.local/share"}


def is_all_temporary(path: str) -> bool:
    """Return True if a path covers all temporary files of the machine."""
    return f"{_bare(path)}/" in _TEMPORARY


def _bare(path: str) -> str:
    """Return a path without trailing patterns that match everything."""
    folder, slash, last = path.rpartition("/")
    while slash and _matches_everything(last):
        path = folder or "/"
        folder, slash, last = folder.rpartition("/")
    return path


def _root_below_home(root: str) -> str:
    """Return a root relative to its home folder, or an empty string if it is elsewhere."""
    parts = root.split("/")
    if root.startswith(("/home/", "/Users/")) and len(parts) > 3:  # noqa: PLR2004 - "", home, user
        return "/".join(parts[3:])
    return root.removeprefix("/root/") if root.startswith("/root/") else ""


def _is_home(path: str) -> bool:
    parts = path.split("/")
    return path == "/root" or (len(parts) == 3 and parts[1] in {"home", "Users"})  # noqa: PLR2004


def program_name(word: str) -> str:
    """Return the program's name in the table, or an empty string if its folder is not trusted."""
    if "/" not in word:
        return word
    folder, _, name = word.rpartition("/")
    brought = name in _BROUGHT and word[0] not in "/~"
    installed = brought or f"/{folder}/".endswith(_INSTALLED) or f"{folder}/".startswith(_PROGRAMS)
    return name if installed else ""
