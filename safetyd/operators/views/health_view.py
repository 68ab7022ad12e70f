"""Health checks, each with a fix.

They do not need the engine, so they work even while nothing can be written.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from safetyd.bus.keyring import ROLES, Role
from safetyd.core.events.daemon_events import DiskLevel, DiskUse
from safetyd.core.events.disk_words import MAKE_ROOM, filling, fullness, size
from safetyd.core.text.time_words import complete
from safetyd.operators.contract.notification_contract import ChannelState
from safetyd.operators.contract.status_contract import (
    DaemonFacts,
    ExporterState,
    HealthAnswer,
    HealthCheck,
    HealthState,
)

OLD_KEY: Final = timedelta(days=365)
MAX_NAMED: Final = 5  # maximum number of old keys to name
HASH_CHARS: Final = 12  # enough characters to compare audit hashes
LOG: Final = "check the daemon's log"

_OF_LEVEL: Final[Mapping[DiskLevel, HealthState]] = {
    "good": "good",
    "warn": "warn",
    "critical": "bad",
}


class BusFacts(NamedTuple):
    connections: int
    heard: int  # how many connections returned the last canary in time
    reconnects: int
    problem: str


class JournalFacts(NamedTuple):
    seq: int  # the number of the last written event
    written_at: datetime | None  # None if nothing was written since the start
    unwritten: int  # events not written yet
    unwritten_s: float
    problem: str


class StoredFacts(NamedTuple):
    """The state of the files in the data directory."""

    audit_file: str = "no file"  # the newest
    audit_files: int = 0
    audit_bytes: int = 0
    checkpoint_seq: int | None = None  # the last event of the newest checkpoint, if any
    checkpoint_at: datetime | None = None
    keys: Mapping[tuple[Role, str], datetime] = MappingProxyType({})  # when each key was made


class HealthFacts(NamedTuple):
    """Everything the checks need."""

    at: datetime
    daemon: DaemonFacts
    bus: BusFacts
    journal: JournalFacts
    stored: StoredFacts
    audit_seq: int
    audit_head: str  # the hash of the last line
    audit_problem: str
    checkpoint_problem: str
    channels: Sequence[ChannelState]
    versions: Mapping[str, str]
    port_taken: int | None = None  # the web server's default port, if another program uses it


def health(facts: HealthFacts) -> HealthAnswer:
    """Run all checks, the overall one first."""
    checks = tuple(_checks(facts))
    worst = max((check.state for check in checks), key=("good", "warn", "bad").index)
    return HealthAnswer(ok=True, at=facts.at, state=worst, checks=checks)


def _checks(facts: HealthFacts) -> Iterator[HealthCheck]:
    yield _daemon(facts)
    yield _bus(facts)
    yield _journal(facts)
    yield _audit(facts)
    yield _checkpoints(facts)
    yield _disk(facts.daemon.disk)
    yield _configuration(facts.daemon)
    if facts.port_taken is not None:
        yield _moved(facts.daemon, facts.port_taken)
    yield _keys(facts)
    yield _channels(facts.channels)
    yield from (_exporter(facts, state) for state in facts.daemon.outlets)
    yield from (_bad(each.name, each.why, each.fix) for each in facts.daemon.unavailable)
    versions = ", ".join(f"{name} {number}" for name, number in facts.versions.items())
    yield HealthCheck(name="versions", state="good", says=versions)


def _daemon(facts: HealthFacts) -> HealthCheck:
    said = f"pid {facts.daemon.pid} has been running for {_since(facts, facts.daemon.started)}"
    if problem := facts.daemon.problem:
        fix = "see the failed checks below"
        return _bad("daemon", f"{said}, but all actions are blocked: {problem}", fix)
    if (place := facts.daemon.cluster) and place.role == "standby":
        return _good("daemon", f"{said} as a standby: {place.writer} decides")
    return _good("daemon", f"{said} and is healthy")


def _bus(facts: HealthFacts) -> HealthCheck:
    found, kind = facts.bus, "embedded" if facts.daemon.embedded else "external"
    heard = f"{found.heard} of {found.connections} connections work"
    again = f"{_several(found.reconnects, 'reconnect')} since the start"
    said = f"{facts.daemon.bus} ({kind}): {heard}, {again}"
    if found.problem:
        started = (
            "it restarts automatically" if facts.daemon.embedded else "check that it is running"
        )
        return _bad("bus", f"{said}; {found.problem}", f"{started}; if the problem persists, {LOG}")
    if found.heard < found.connections:
        return HealthCheck(name="bus", state="warn", says=said, fix=LOG)
    return _good("bus", said)


def _journal(facts: HealthFacts) -> HealthCheck:
    found = facts.journal
    ago = "no event since the start"
    if found.written_at is not None:
        ago = f"last written {_since(facts, found.written_at)} ago"
    said = f"event {found.seq}, {ago}"
    if found.problem:
        waiting = f"{_several(found.unwritten, 'event')} not written for {found.unwritten_s:.1f} s"
        full = facts.daemon.disk.level == "critical"
        fix = MAKE_ROOM if full else f"{LOG} and nats/nats-server.log"
        return _bad("journal", f"{said}; {waiting}: {found.problem}", fix)
    return _good("journal", said)


def _audit(facts: HealthFacts) -> HealthCheck:
    found, head = facts.stored, f"event {facts.audit_seq}, hash {facts.audit_head[:HASH_CHARS]}…"
    files = f"{_several(found.audit_files, 'file')}, {size(found.audit_bytes)}"
    said = f"{found.audit_file} ends with {head}; {files}"
    if problem := facts.audit_problem:
        return _bad("audit", f"{said}; {problem}", "free up disk space, or restore the file")
    return _good("audit", said)


def _checkpoints(facts: HealthFacts) -> HealthCheck:
    seq, saved_at = facts.stored.checkpoint_seq, facts.stored.checkpoint_at
    said = "none yet; the next start replays the whole journal"
    if saved_at is not None:
        said = f"the newest ends with event {seq} and is {_since(facts, saved_at)} old"
    if problem := facts.checkpoint_problem:
        fix = "free up disk space and check that checkpoints/ is writable; safetyd will retry"
        return _bad("checkpoints", f"{said}; writing the last one failed: {problem}", fix)
    return _good("checkpoints", said)


def _disk(use: DiskUse) -> HealthCheck:
    said = "; ".join(filter(None, (fullness(use), filling(use))))
    state = _OF_LEVEL[use.level]
    fix = "" if state == "good" else MAKE_ROOM
    return HealthCheck(name="disk", state=state, says=said, fix=fix)


def _configuration(daemon: DaemonFacts) -> HealthCheck:
    file = daemon.config or "no file, defaults are used"
    if daemon.config_problem:
        fix = "fix it and run `safetyd reload`; until then the previous configuration applies"
        said = f"{file}: the new configuration was rejected: {daemon.config_problem}"
        return _bad("configuration", said, fix)
    if daemon.next_start:
        sections = ", ".join(f"[{section}]" for section in daemon.next_start)
        said = f"{file}: changes of {sections} take effect at the next start"
        fix = "restart the daemon at a convenient time"
        return HealthCheck(name="configuration", state="warn", says=said, fix=fix)
    return _good("configuration", file)


def _moved(daemon: DaemonFacts, taken: int) -> HealthCheck:
    said = f"port {taken} is in use by another program, so the web server uses {daemon.web}"
    fix = (
        f"to keep the new port, set `[web] port = {urlsplit(daemon.web).port}` in the configuration"
    )
    return HealthCheck(name="web port", state="warn", says=said, fix=fix)


def _keys(facts: HealthFacts) -> HealthCheck:
    made = facts.stored.keys
    count = Counter(role for role, _ in made)
    roles = [role for role in ROLES if role != "relays" or count[role]]  # few daemons have relays
    counts = ", ".join(_several(count[role], role.removesuffix("s")) for role in roles)
    old = [who for who in sorted(made, key=made.__getitem__) if facts.at - made[who] > OLD_KEY]
    if not old:
        return _good("keys", counts)
    named = ", ".join(f"{role.removesuffix('s')} {name}" for role, name in old[:MAX_NAMED])
    more = f" and {len(old) - MAX_NAMED} more" if len(old) > MAX_NAMED else ""
    said = f"{counts}; more than a year old: {named}{more}"
    fix = "replace them with `safetyd agent rotate NAME` or `safetyd operator rotate NAME`"
    return HealthCheck(name="keys", state="warn", says=said, fix=fix)


def _channels(found: Sequence[ChannelState]) -> HealthCheck:
    down = [channel for channel in found if not channel.up]
    failing = [channel for channel in found if channel.up and channel.failing]
    if not found:
        return _good(
            "channels", "none configured; check `safetyd list` and `safetyd status` yourself"
        )
    if not down and not failing:
        names = ", ".join(channel.name for channel in found)
        return _good("channels", f"working: {names}")
    troubles = [f"{channel.name} is down{_why(channel)}" for channel in down]
    troubles += [
        f"the last attempt on {channel.name} failed: {channel.last_error}" for channel in failing
    ]
    fix = "run `safetyd notify channels` for details, and `safetyd notify test` to try them"
    state: HealthState = "bad" if down else "warn"
    return HealthCheck(name="channels", state=state, says="; ".join(troubles), fix=fix)


def _why(channel: ChannelState) -> str:
    """Return the last error of a channel, or that it has not been tried again yet."""
    return f": {channel.last_error}" if channel.last_error else ", and has not been tried again yet"


def _exporter(facts: HealthFacts, state: ExporterState) -> HealthCheck:
    """Check an exporter: being behind is fine, failing is not."""
    took = state.last_success
    success = "nothing exported since the start"
    if took is not None:
        success = f"last exported {_since(facts, took)} ago"
    said = f"{_several(state.behind, 'event')} behind; {success}"
    if state.problem:
        fix = "run `safetyd outlet status` for details; the exporter retries automatically"
        return _bad(state.name, f"{said}; {state.problem}", fix)
    return _good(state.name, said)


def _good(name: str, says: str) -> HealthCheck:
    return HealthCheck(name=name, state="good", says=says)


def _bad(name: str, says: str, fix: str) -> HealthCheck:
    return HealthCheck(name=name, state="bad", says=says, fix=fix)


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _since(facts: HealthFacts, at: datetime) -> str:
    return complete((facts.at - at).total_seconds())
