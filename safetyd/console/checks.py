"""What `doctor` looks at: each check says what it found and, if it is wrong, what to do."""

import os
import pwd
import shutil
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from safetyd.bus.accounts import MAX_STORE_BYTES
from safetyd.console.audit import verified
from safetyd.console.failure import Failure
from safetyd.console.person import Reply, query
from safetyd.console.places import Place, endpoint
from safetyd.console.render import names, one_stop
from safetyd.console.version import nats_server_version

WEB_S: Final = 3.0
OTHERS: Final = 0o077

Level = Literal["ok", "note", "wrong"]


class Finding(msgspec.Struct, frozen=True):
    check: str
    level: Level
    text: str


def examine(place: Place) -> Iterator[Finding]:
    """Yield everything worth knowing about a data directory and its daemon."""
    yield from _data_dir(place.data_dir)
    yield from _keys(place.keys)
    yield _disk(place.data_dir)
    yield _nats_server()
    yield _audit(place.data_dir / "audit")
    try:
        status = query(place, "status")
    except Failure as exc:
        yield Finding("daemon", "wrong", exc.message)
        yield from _stop_files(place.data_dir)
    else:
        yield from _daemon(status)
    yield from _web(place.data_dir)
    yield _same_user(place)


def _data_dir(path: Path) -> Iterator[Finding]:
    try:
        found = path.stat()
    except OSError as exc:
        why = f"{path}: {exc.strerror}; `safetyd run` makes it"
        yield Finding("data dir", "wrong", why)
        return
    if found.st_mode & OTHERS:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        others = f"{path} has mode {mode}: others can look into it; `chmod 700 {path}`"
        yield Finding("data dir", "wrong", others)
    else:
        yield Finding("data dir", "ok", f"{path} is its owner's alone")


def _keys(directory: Path) -> Iterator[Finding]:
    try:
        secrets = [*directory.rglob("*.nk"), *directory.glob("*.token")]
        loose = [path for path in secrets if path.stat().st_mode & OTHERS]
    except OSError as exc:
        yield Finding("keys", "wrong", f"{exc.filename} cannot be looked at: {exc.strerror}")
        return
    for path in loose:
        yield Finding("keys", "wrong", f"others can read {path}; `chmod 600 {path}`")
    if not secrets:
        yield Finding("keys", "note", f"there are none in {directory}; `safetyd run` makes them")
    elif not loose:
        yield Finding("keys", "ok", f"{len(secrets)} secret files, each its owner's alone")


def _disk(path: Path) -> Finding:
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    said = f"{free / 1024**3:.1f} GiB free"
    if free < MAX_STORE_BYTES:
        wanted = f"the journal may take {MAX_STORE_BYTES / 1024**3:.0f} GiB"
        why = f"{said} at {there}; {wanted}, and on a full disk nothing is allowed"
        return Finding("disk", "wrong", why)
    return Finding("disk", "ok", said)


def _nats_server() -> Finding:
    found = nats_server_version()
    return Finding("nats-server", "wrong" if found.startswith("missing") else "ok", found)


def _audit(directory: Path) -> Finding:
    try:
        found = verified(directory)
    except Failure as exc:
        level: Level = "note" if exc.code == "not_found" else "wrong"
        return Finding("audit", level, exc.message)
    return Finding("audit", "ok", f"the chain of {found.records} records holds")


def _daemon(status: Reply) -> Iterator[Finding]:
    said = f"pid {status['pid']} answers at {status['bus']}"
    if status["problem"]:
        yield Finding("daemon", "wrong", f"{said}, but: {status['problem']}")
    else:
        yield Finding("daemon", "ok", f"{said} and is healthy")
    stops = status["stop"]["stops"]
    for stop in stops:
        yield Finding("stop", "note", f"active: {one_stop(stop)}; `safetyd resume` ends it")
    if not stops:
        yield Finding("stop", "ok", "nothing is stopped")
    if status["stop"]["silent"]:
        silent = names(status["stop"]["silent"])
        yield Finding("stop", "wrong", f"not acknowledged by {silent}: look after them by hand")
    if status["open_agents"]:
        yield Finding(
            "open agents",
            "note",
            "agents without a key are welcome and have no secrets from one another: each can speak "
            "under any name that has no key; give those that matter one with `safetyd agent add`",
        )


def _stop_files(directory: Path) -> Iterator[Finding]:
    path = directory / "EMERGENCY_STOP"
    if os.path.lexists(path):
        yield Finding("stop", "note", f"{path} is there and will hold from the start")


def _web(directory: Path) -> Iterator[Finding]:
    found = endpoint(directory)
    if found is None:
        return
    try:
        with urllib.request.urlopen(f"{found.web}/readyz", timeout=WEB_S):  # noqa: S310 - our own
            yield Finding("web", "ok", f"{found.web}/readyz says ready")
    except urllib.error.HTTPError as exc:
        said = exc.read(200).decode(errors="replace").strip()
        yield Finding("web", "wrong", f"{found.web}/readyz says {exc.code}: {said}")
    except (OSError, ValueError) as exc:
        yield Finding("web", "wrong", f"{found.web}/readyz does not answer: {exc}")


def _same_user(place: Place) -> Finding:
    key = place.keys / "operator.nk"
    try:
        uid = key.stat().st_uid
    except OSError:
        uid = os.getuid()
    return Finding(
        "separation",
        "note",
        f"an agent that runs as Unix user {_user(uid)} can read {key} and act as the operator: run "
        "agents as another user and hand each only its own key (`safetyd agent add NAME`, then "
        "move keys/agents/NAME.nk to that user)",
    )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
