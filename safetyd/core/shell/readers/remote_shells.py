"""Remote shells, remote copies and raw connections."""

import re
from typing import Final

from safetyd.core.shell import rows
from safetyd.core.shell.addresses import is_local, is_remote
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.readers.deletions import delete
from safetyd.core.shell.reading import Effect
from safetyd.core.shell.words import DOWNLOADED, Word, as_one

_FORGES: Final = frozenset(
    {"git@github.com", "git@gitlab.com", "git@bitbucket.org", "git@codeberg.org"}
)
_RUNNING: Final = ("proxycommand", "localcommand", "knownhostscommand")
_DELETING: Final = (
    *("--delete", "--delete-before", "--delete-during", "--del", "--delete-delay"),
    *("--delete-after", "--delete-excluded", "--remove-source-files"),
)
_PLAIN_SSH: Final = re.compile(r"(/usr/bin/)?ssh( -p ?\d+| -i \S+| -[46qCT]+| -l \S+)*")
_RUNS_PROGRAM: Final = re.compile(r"(exec|system|shell)(:|$)", re.IGNORECASE)
_LISTENS: Final = re.compile(r"[a-z0-9]+-(listen|recv\w*)(:|$)|ssl-l:|vsock-l", re.IGNORECASE)
_CONNECTS: Final = re.compile(
    r"(tcp|tcp4|tcp6|udp|udp4|udp6|openssl|ssl|sctp)(-connect)?:([^,]+)", re.IGNORECASE
)
_ENDING: Final = frozenset(
    {"flush_all", "flushall", "flushdb", "shutdown", "delete", "del", "drop", "kill", "quit_all"}
)
_PRINTS: Final = re.compile(r"(-|stdio|stdin|stdout|stderr)(,.*)?", re.IGNORECASE)


def read_ssh(inv: Invocation) -> None:
    """Analyse `ssh` and the command that it runs on another machine."""
    call = inv.call
    if (not call.arguments and call.has_surely("-Q")) or (
        call.has_surely("-G") and len(call.arguments) == 1 and not call.values("-o", "-F")
    ):
        inv.found_help()
        return
    _ssh_options(inv)
    words = list(_after_options(inv))
    target, command = words[:1], words[1:]
    inv.output = DOWNLOADED
    if target and target[0].text in _FORGES and not command:
        inv.found(Effect.READ, "checks the login for a Git host")
        return
    where = visible(target[0].text) if target else "another machine"
    if not command:
        inv.found(Effect.LEAVES, f"opens a shell on {where}", traits=("open_input",))
    else:
        inv.found(Effect.LEAVES, f"runs a command on {where}")
        inv.scope = inv.scope.copy(elsewhere=True)
        inv.shell(as_one(command), call.name, inv.stdin)


def _after_options(inv: Invocation) -> list[Word]:
    """Return the words after the options: the host, and the command to run there."""
    words, valued = list(inv.call.words), inv.call.program.valued
    while words and words[0].text.startswith("-"):
        text = words.pop(0).text
        if text == "--":
            break
        if text in valued or (len(text) > 2 and f"-{text[-1]}" in valued and text[1:2] != "o"):  # noqa: PLR2004
            takes = not any(f"-{letter}" in valued for letter in text[1:-1])
            words = words[1:] if takes else words
    return words


def _ssh_options(inv: Invocation) -> None:
    """Record options that make ssh, scp and sftp run programs, write files or open ports."""
    call = inv.call
    for value in call.values("-o"):
        name, _, command = value.text.replace("=", " ", 1).strip().partition(" ")
        if name.lower() in _RUNNING and command.strip() != "none":
            inv.shell(value.with_text(command), f"{call.name} -o {name}")
        elif name.lower() in {"permitlocalcommand", "include", "proxyusefdpass"}:
            inv.found(Effect.UNKNOWN, f"sets {name}, which can make {call.name} run programs")
    for value in call.values("-S") if call.name != "ssh" else ():
        inv.shell(value, f"{call.name} -S")
    for value in call.values("-E") if call.name == "ssh" else ():
        inv.writes(value)
    if call.name == "ssh" and call.has("-L", "-R", "-D"):
        inv.found(Effect.LEAVES, "forwards a port to or from another machine", type="open_port")
    inv.reads(*call.values("-i", "-F"))


def read_copy(inv: Invocation) -> None:
    """Analyse `scp` and `sftp`."""
    call = inv.call
    _ssh_options(inv)
    remote = [word for word in call.arguments if is_remote(word)]
    if remote or call.name == "sftp" or not call.arguments:
        where = visible(remote[0].text) if remote else "another machine"
        inv.found(Effect.LEAVES, f"copies to or from {where}")
    _copied(inv, call.arguments)


def read_rsync(inv: Invocation) -> None:
    """Analyse `rsync`, which can also delete files."""
    call = inv.call
    _rsync_options(inv)
    if any(call.has_surely(option) for option in ("-n", "--dry-run", "--list-only")):
        inv.found(Effect.READ, "only lists what it would copy")
        return
    remote = [word for word in call.arguments if is_remote(word)]
    if remote:
        why = f"copies to or from {visible(remote[0].text)}"
        inv.found(Effect.LEAVES, why, remedy="as `rsync --dry-run`")
    for word in call.values(*call.program.row.writes):
        inv.writes(word)
    _copied(inv, call.arguments)
    if call.has("--remove-source-files"):
        for word in call.arguments[:-1]:
            delete(inv, word, recursive=True)
    elif call.has(*_DELETING) and call.arguments and not is_remote(call.arguments[-1]):
        delete(inv, call.arguments[-1], recursive=True)


def _rsync_options(inv: Invocation) -> None:
    """Record options that make rsync run programs, read files or serve them."""
    call = inv.call
    for shell in call.values("-e", "--rsh"):
        if not _PLAIN_SSH.fullmatch(shell.text):
            inv.shell(shell, "rsync -e")
    for program in call.values("--rsync-path"):
        inv.found(Effect.LEAVES, f"runs `{visible(program.text)}` on the other machine")
        inv.shell(program, "rsync --rsync-path")
    if call.has("--daemon", "--config"):
        inv.found(Effect.LEAVES, "serves files to other machines", type="open_port")
    inv.reads(*call.values(*call.program.row.reads))


def _copied(inv: Invocation, words: list[Word]) -> None:
    inv.reads(*(word for word in words[:-1] if not is_remote(word)))
    if len(words) > 1 and not is_remote(words[-1]):
        inv.writes(words[-1])
    elif len(words) == 1:
        inv.found(Effect.READ, "lists files")


def read_nc(inv: Invocation) -> None:
    """Analyse `nc` and similar programs: a raw connection, possibly to a program."""
    call = inv.call
    inv.output = DOWNLOADED
    if call.has("-e", "--exec", "-c", "--sh-exec", "--lua-exec"):
        inv.found(Effect.UNKNOWN, "gives another machine a shell on this machine", blocks=True)
    elif call.has("-l", "--listen"):
        inv.found(Effect.LEAVES, "opens a port to other machines", type="open_port")
    elif call.has("-U", "--unixsock"):
        inv.found(Effect.UNKNOWN, "connects to a local service through its socket")
    elif call.has_surely("-z"):
        inv.found(Effect.READ, "checks whether a port is open")
    else:
        _connects(inv, call.arguments[0].text if call.arguments else "")


def read_telnet(inv: Invocation) -> None:
    """Analyse `telnet`."""
    inv.output = DOWNLOADED
    _connects(inv, inv.call.arguments[0].text if inv.call.arguments else "")


def _connects(inv: Invocation, address: str) -> None:
    said = (inv.stdin.text or "").lower().split() if inv.stdin is not None else []
    if is_local(address) and not inv.call.has("-x", "--proxy"):
        inv.found(Effect.WORK, "connects to a local service")
        if not _ENDING.isdisjoint(said):
            inv.found(Effect.IRREVERSIBLE, "deletes data of a local service")
    else:
        where = visible(address) or "another machine"
        inv.found(Effect.LEAVES, f"opens a connection to {where}")


def read_socat(inv: Invocation) -> None:
    """Analyse `socat`, which connects two addresses. One of them may be a program."""
    call = inv.call
    inv.output = DOWNLOADED
    for word in call.arguments:
        connects = _CONNECTS.match(word.text)
        if _RUNS_PROGRAM.match(word.text):
            inv.found(Effect.UNKNOWN, "gives another machine a shell on this machine", blocks=True)
        elif _LISTENS.match(word.text):
            inv.found(Effect.LEAVES, "opens a port to other machines", type="open_port")
        elif connects:
            _connects(inv, connects[3])
        elif _PRINTS.fullmatch(word.text):
            inv.found(Effect.READ, "passes on its input")
        else:
            inv.found(Effect.UNKNOWN, f"connects {visible(word.text)}, an unknown kind of address")


def read_load(inv: Invocation) -> None:
    """Analyse load generators and monitors. Local targets are allowed."""
    rows.apply(inv)
    call = inv.call
    addresses = [*call.arguments, *call.values("-H", "--host", "-c", "--client", "-u", "--url")]
    named = [word for word in addresses if not word.text.isdecimal()]
    if not any(is_local(word.text) for word in named) or any(
        "://" in word.text and not is_local(word.text) for word in named
    ):
        inv.found(
            Effect.LEAVES, "sends many requests to another machine", remedy="against localhost"
        )
