"""The systemd unit of the daemon, made from the shipped one.

The shipped unit is for the whole system and a program in /opt/safetyd. A
unit for one user has the same directives, except those that only the system's manager can apply.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from safetyd.console.failure import WrongUsage
from safetyd.console.shipped_files import SERVICE, shipped

Scope = Literal["user", "system"]

UNIT: Final = "safetyd.service"
SHIPPED_PROGRAM: Final = "/opt/safetyd/bin/safetyd"
SYSTEM_CONFIG: Final = Path("/etc/safetyd/safetyd.toml")
SYSTEM_DATA: Final = Path("/var/lib/safetyd")
# The system's unit hides these folders from the service.
HIDDEN: Final = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))  # noqa: S108

# Directives of the shipped unit that a user's own manager can apply without any privilege.
_FOR_USERS: Final = frozenset(
    {
        *("Description", "StartLimitIntervalSec", "Type", "NotifyAccess"),
        *("ExecStart", "ExecReload", "Environment"),
        *("TimeoutStartSec", "WatchdogSec", "WatchdogSignal", "Restart", "RestartSec"),
        *("KillMode", "TimeoutStopSec", "MemoryMax", "TasksMax", "LimitNOFILE", "LimitCORE"),
        *("RestrictAddressFamilies", "NoNewPrivileges", "LockPersonality"),
        *("MemoryDenyWriteExecute", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID"),
        *("SystemCallArchitectures", "SystemCallErrorNumber", "SystemCallFilter", "WantedBy"),
    }
)
_STATE: Final = re.compile(r"^StateDirectory=.*\nStateDirectoryMode=.*$", re.MULTILINE)
_START: Final = re.compile(r"^ExecStart=.*$", re.MULTILINE)
_is_plain = re.compile(r"[\w@:,./+=-]+\Z").match


class DaemonCommand(NamedTuple):
    """The command line of the daemon. Without a path, the daemon uses its default."""

    program: Sequence[str]
    config: Path | None
    data_dir: Path | None

    @property
    def words(self) -> list[str]:
        options = {"--config": self.config, "--data-dir": self.data_dir}
        named = [(option, str(path)) for option, path in options.items() if path]
        return [*self.program, "run", *(word for pair in named for word in pair)]


def with_program(unit: str, program: str) -> str:
    """Return a shipped unit that starts a program somewhere else."""
    return unit.replace(SHIPPED_PROGRAM, program)


def unit_text(scope: Scope, command: DaemonCommand) -> str:
    """Return the unit that runs a daemon for one user, or for the whole system."""
    text = shipped(SERVICE).read_text()
    edit = "systemctl edit"
    if scope == "user":
        text = _without_privileges(text).replace(edit, "systemctl --user edit")
        text = text.replace("WantedBy=multi-user.target", "WantedBy=default.target")
    elif command.data_dir:
        text = _STATE.sub(lambda _: f"ReadWritePaths={_quoted(str(command.data_dir))}", text)
    program, *words = command.words
    # systemd replaces variables in arguments, and not in the path of the program.
    start = " ".join((_quoted(program), *(_quoted(word.replace("$", "$$")) for word in words)))
    rest = _START.sub(lambda _: f"ExecStart={start}", text.partition("\n")[2])
    undo = f"safetyd uninstall-service --{scope}"
    return f"# Written by `safetyd install-service --{scope}`. To undo that: `{undo}`.\n{rest}"


def _without_privileges(text: str) -> str:
    """Return a unit without the directives that a user's manager cannot apply."""
    paragraphs = ("\n".join(_for_users(one.splitlines())) for one in text.strip().split("\n\n"))
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _for_users(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines to use. A comment belongs to the directive that follows it."""
    comment: list[str] = []
    for line in lines:
        if line.startswith("#"):
            comment.append(line)
            continue
        if line.startswith("[") or line.partition("=")[0] in _FOR_USERS:
            yield from (*comment, line)
        comment = []
    yield from comment


def _quoted(word: str) -> str:
    """Return a word as systemd must read it."""
    if not word.isprintable():
        raise WrongUsage(f"{word!r} has a control character, which a unit cannot contain")
    word = word.replace("%", "%%")
    if _is_plain(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
