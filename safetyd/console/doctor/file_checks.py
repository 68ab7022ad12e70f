"""Checks of the files of a data directory and of projects."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from safetyd.bus.keyring import (
    LOCAL_OPERATOR,
    OLD,
    ROLES,
    KeyUnusable,
    is_public_key,
    old_keys_in,
    seed_in,
)
from safetyd.client.discovery import start_command
from safetyd.console.failure import Failure
from safetyd.console.locations import look_into
from safetyd.console.render.layout import when
from safetyd.console.subcommands.overview import nats_server_version
from safetyd.console.subcommands.read_records import gaps, verified
from safetyd.console.terminal_text import several
from safetyd.core.policy import Policy
from safetyd.daemon.file_ownership import problems
from safetyd.daemon.project_files import with_files
from safetyd.host import user_name

Level = Literal["ok", "note", "wrong"]
OTHERS: Final = 0o077
# The unit lets the group of the daemon look for the bus. Keys and records have their own modes.
NOT_THE_GROUP: Final = 0o027
_FIX: Final = "fix or delete it, or every start and reload will fail"


class Finding(msgspec.Struct, frozen=True):
    check: str
    level: Level
    text: str
    code: str = ""  # of a problem that has one


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def note(check: str, text: str) -> Finding:
    return Finding(check, "note", text)


def wrong(check: str, text: str) -> Finding:
    return Finding(check, "wrong", text)


def data_dir(path: Path) -> Iterator[Finding]:
    try:
        found = path.stat()
        look_into(path)
    except FileNotFoundError:
        yield wrong("data dir", f"{path} does not exist; `{start_command(path)}` creates it")
    except OSError as exc:
        yield wrong("data dir", f"cannot read {path}: {exc.strerror}")
    except Failure as exc:
        yield wrong("data dir", f"{exc.message}. Run this as the daemon's user")
    else:
        yield _private(path, found.st_mode)
        yield from _owners(path)


def _private(path: Path, mode: int) -> Finding:
    if mode & NOT_THE_GROUP:
        said = f"{path} has mode {stat.S_IMODE(mode):04o}: other users can read it"
        return wrong("data dir", f"{said}. Run: chmod 700 {path}")
    shared = ", and its group can find the bus" if mode & OTHERS else ""
    return ok("data dir", f"{path} is private{shared}")


def _owners(path: Path) -> Iterator[Finding]:
    """Yield files that other users could change.

    If root runs this, the owner of the data directory is assumed to be the daemon's user.
    """
    owner = path.stat().st_uid
    uid = os.geteuid() or owner
    try:
        for problem in problems(path, uid):
            yield wrong("owners", problem)
    except OSError as exc:
        yield wrong("owners", f"cannot read {exc.filename}: {exc.strerror}")
    if uid != os.geteuid():
        name = user_name(owner)
        yield note("owners", f"{path} belongs to {name}: only {name} can start a daemon with it")


def operators(directory: Path, now: datetime) -> Iterator[Finding]:
    """Yield every operator key, so that the user notices an unexpected one."""
    named = {directory / "operator.pub": LOCAL_OPERATOR}
    with suppress(Failure):  # `keys` reports it
        paths = look_into(directory / "operators")
        named |= {path: path.stem for path in paths if path.suffix == ".pub"}
    for path, name in named.items():
        try:
            seen = path.stat()
        except OSError:
            continue
        made = datetime.fromtimestamp(seen.st_mtime, UTC)
        age = several(max(0, (now - made).days), "day")
        said = f"operator {name}: {path}, created {age} ago ({when(made)})"
        yield note("operators", f"{said}, owned by {user_name(seen.st_uid)}")
        with suppress(OSError, KeyUnusable):
            for key in old_keys_in(path):
                if key.until > now:
                    until = f"until {key.until:%Y-%m-%d %H:%M}Z"
                    yield note("operators", f"an old key of operator {name} is still valid {until}")


def keys(directory: Path) -> Iterator[Finding]:
    try:
        paths = [path for location in _key_places(directory) for path in look_into(location)]
        faults = [fault for path in paths if (fault := _fault(path))]
    except Failure as exc:
        yield wrong("keys", exc.message)
        return
    secrets = [path for path in paths if path.suffix in {".nk", ".token"}]
    for fault in faults:
        yield wrong("keys", fault)
    if not secrets:
        start = start_command(directory.parent)
        yield note("keys", f"no keys in {directory}; `{start}` creates them")
    elif not faults:
        yield ok("keys", f"{several(len(secrets), 'secret file')}, all private")


def _key_places(directory: Path) -> tuple[Path, ...]:
    return (directory, *(directory / role for role in ROLES))


def _fault(path: Path) -> str:
    """Return the problem of a key file, or an empty string."""
    try:
        if path.suffix in {".nk", ".token"} and path.stat().st_mode & OTHERS:
            return f"other users can read {path}. Run: chmod 600 {path}"
        if path.suffix == ".nk":
            seed_in(path)
        if path.name.endswith(OLD):
            old_keys_in(path.with_name(path.name.removesuffix(OLD)))
        if path.suffix == ".pub" and not is_public_key(path.read_text(errors="replace").strip()):
            return f"{path} does not contain a public key (56 characters, starting with U); {_FIX}"
    except OSError as exc:
        return f"cannot read {path}: {exc.strerror}"
    except KeyUnusable as exc:
        return f"{exc}; {_FIX}"
    return ""


def nats_server() -> Finding:
    found = nats_server_version()
    return wrong("nats-server", found) if found.startswith("missing") else ok("nats-server", found)


def audit(directory: Path) -> Iterator[Finding]:
    try:
        found = verified(directory)
    except Failure as exc:
        yield _unverified(directory, exc)
        return
    yield ok("audit", f"the hash chain of {several(found.records, 'record')} is intact")
    for gap in gaps(found):
        yield note("audit", gap)


def _unverified(directory: Path, exc: Failure) -> Finding:
    if exc.code != "not_found":
        return wrong("audit", exc.message)
    if os.access(directory.parent / "nats", os.F_OK):
        return wrong("audit", f"{exc.message}, but there is a journal. Restore them from a backup")
    return note("audit", f"{exc.message}; `{start_command(directory.parent)}` creates one")


def checkpoints(directory: Path) -> Iterator[Finding]:
    try:
        paths = [path for path in look_into(directory) if path.suffix == ".msgpack"]
        for path in paths:
            path.open("rb").close()
    except Failure as exc:
        yield wrong("checkpoints", exc.message)
    except OSError as exc:
        yield wrong("checkpoints", f"cannot read {exc.filename}: {exc.strerror}")
    else:
        yield ok("checkpoints", several(len(paths), "readable checkpoint"))


def project_files(policy: Policy) -> Iterator[Finding]:
    """Yield the projects whose file is invalid."""
    for name, project in with_files(policy).projects.items():
        if project.file_broken:
            why = f"{project.file}: {project.file_broken}"
            what = f"Until then every action in project {name} needs approval"
            yield wrong("project", f"{why}. Fix it, then run `safetyd reload`. {what}")


def separation(key: Path) -> Finding:
    try:
        uid = key.stat().st_uid
    except OSError:
        uid = os.getuid()
    return note(
        "separation",
        f"an agent that runs as Unix user {user_name(uid)} can read {key} and act as an operator. "
        "Run agents as another user, and give each only its own key: run `safetyd agent add NAME`, "
        "then move keys/agents/NAME.nk to that user's home directory.",
    )
