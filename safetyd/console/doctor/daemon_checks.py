"""Checks a running daemon or, if there is none, whether one could start."""

import errno
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio

from safetyd.agents.emergency_stop import switched_off
from safetyd.console import stop_file
from safetyd.console.doctor.file_checks import Finding, Level, note, ok, project_files, wrong
from safetyd.console.locations import Location, endpoint, running
from safetyd.console.render.layout import names
from safetyd.console.render.request_tables import notified_by
from safetyd.console.stop_file import told_of
from safetyd.console.terminal_text import several
from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.events.disk_words import MAKE_ROOM, fullness
from safetyd.daemon.config import ConfigError, load, load_to_run
from safetyd.daemon.disk_space import DiskConfig, judge
from safetyd.extras.file_history.service.histories import DIRECTORY, history_problems
from safetyd.host import NoSecret, read_secret, room, secret_directories
from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.operators.contract.history_contract import CommitsAnswer
from safetyd.operators.contract.status_contract import HealthAnswer, Standstill, StatusAnswer

WEB_S: Final = 3.0
_LEVELS: Final[dict[str, Level]] = {"good": "ok", "warn": "note", "bad": "wrong"}


def parts(answer: HealthAnswer) -> Iterator[Finding]:
    """Yield the daemon's own health checks."""
    for check in answer.checks:
        fix = f": {check.fix}" if check.fix else ""
        yield Finding(check.name, _LEVELS[check.state], f"{check.says}{fix}")


def daemon(status: StatusAnswer) -> Iterator[Finding]:
    """Yield findings about stops, pending requests, wide grants and anonymous agents."""
    yield from _stops(status.stop)
    waiting = status.requests
    yield note(
        "requests",
        f"{several(waiting.pending, 'pending request')}. "
        f"{notified_by(waiting.channels, waiting.down, status.failing)}",
    )
    if waiting.unnotified:
        missed = several(waiting.unnotified, "request")
        yield wrong("requests", f"nobody was notified of {missed}. See `safetyd notify outbox`")
    if status.wide_grants:
        wide = names(status.wide_grants)
        yield note("grants", f"these grants allow any text: {wide}. See `safetyd grants`")
    if status.open_agents:
        yield note(
            "open agents",
            "anonymous agents are allowed. Each can use any name that has no key, and can read the "
            "answers to other anonymous agents. To protect a name, run `safetyd agent add NAME`",
        )


def _stops(view: Standstill) -> Iterator[Finding]:
    for check, single in (("stop", False), ("agent stop", True)):
        stops = [stop for stop in view.stops if bool(stop.agent) is single]
        for cause, ending in told_of(stops):
            yield note(check, f"{cause}; {ending}")
    if not view.stops:
        yield ok("stop", "no stop is active")
    if view.silent:
        silent = names(view.silent)
        yield wrong("stop", f"not acknowledged by {silent}. Check these agents manually")


def histories(answer: CommitsAnswer, status: StatusAnswer) -> Iterator[Finding]:
    """Yield problems of file history, except those that the health checks already report."""
    missing = [extra.why for extra in status.unavailable]
    for problem in answer.problems:
        if not any(why in problem for why in missing):
            yield wrong("history", problem)


def config_given(path: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    """Check a configuration file, if there is one, and the project files that it names.

    With `data_dir`, also check whether a daemon that runs as this user could store file history,
    and whether the packages of its channels are installed.
    """
    if path is None:
        return
    try:
        config = load(path) if data_dir is None else load_to_run(path)
    except ConfigError as exc:
        for error in exc.errors:
            yield wrong("config", error)
        return
    yield ok("config", f"{path} is valid")
    if not config.gate.blocklist_patterns:
        yield note("config", f"gate.blocklist_patterns is empty in {path}: no text is blocked")
    policy = config.policy()
    yield from project_files(policy)
    if data_dir is None:
        return
    for problem in history_problems(policy.projects, data_dir / DIRECTORY):
        yield wrong("history", problem)


def disk(path: Path | None, data_dir: Path) -> Finding:
    """Judge the disk of a data directory as its daemon would."""
    try:
        config = load(path).disk
    except ConfigError:
        config = DiskConfig()
    there = next(one for one in (data_dir, *data_dir.parents) if os.access(one, os.F_OK))
    found = room(there)
    use = DiskUse(
        level=judge(config, found, "good"),
        disk=str(found.disk),
        free_bytes=found.bytes,
        total_bytes=found.total_bytes,
        free_files=found.files if found.total_files else None,
    )
    if use.level == "good":
        return ok("disk", fullness(use))
    said = f"{fullness(use)}: {MAKE_ROOM}"
    return note("disk", said) if use.level == "warn" else wrong("disk", said)


def channels(path: Path | None, data_dir: Path) -> Iterator[Finding]:
    """Check the settings of each channel with its provider."""
    try:
        settings = load(path).notifications
    except ConfigError:
        return
    directories = secret_directories(data_dir)
    for name, table in settings.channels():
        if not table.usable:
            continue
        try:
            said = anyio.run(table.check, lambda file: read_secret(file, directories))
        except NoSecret as exc:
            yield note("channels", f"{name} was not checked: {exc}")
        except (Misconfigured, Unavailable, Undeliverable) as exc:
            yield wrong("channels", f"{name}: {exc}")
        else:
            yield from [ok("channels", f"{name}: {said}")] if said else []


def start(location: Location, path: Path | None) -> Iterator[Finding]:
    """Check for stops and ports in use that would affect a daemon that starts now."""
    directory = location.data_dir
    stopping = directory / stop_file.NAME
    if stop_file.is_there(stopping):
        yield note("stop", f"{stopping} exists: a daemon would start with all agents stopped")
    if off := switched_off():
        yield note("stop", f"{off} is set: a daemon started from this shell would block all agents")
    if running(directory) is None:
        yield from _port(path)


def _port(path: Path | None) -> Iterator[Finding]:
    try:
        config = load(path).web
    except ConfigError:
        return
    port = config.first_port
    where = f"{config.host}:{port}"
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        with socket.create_server((config.host, port), family=family):
            yield ok("web port", f"{where} is free")
    except OSError as exc:
        if config.port is None and exc.errno == errno.EADDRINUSE:
            yield note("web port", f"{where} is in use; a daemon would use another port")
        else:
            yield wrong("web port", f"cannot listen on {where} ({exc.strerror}): set web.port")


def web(directory: Path) -> Iterator[Finding]:
    found = endpoint(directory)
    if found is None:
        return
    page = f"{found.web}/{'healthz' if found.standby else 'readyz'}"
    try:
        with urllib.request.urlopen(page, timeout=WEB_S):  # noqa: S310 - our own
            yield ok("web", f"{page} is ready{', as a standby' if found.standby else ''}")
    except urllib.error.HTTPError as exc:
        said = exc.read(200).decode(errors="replace").strip()
        yield wrong("web", f"{page} returned {exc.code}: {said}")
    except (OSError, ValueError) as exc:
        yield wrong("web", f"{page} does not answer: {exc}")
