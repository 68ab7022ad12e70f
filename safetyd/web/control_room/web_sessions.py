"""Sessions of the control room, stored in a file across restarts.

The file contains only hashes. A session ends as soon as any key that its operator had at sign-in
is no longer valid. While the daemon is down, another program could listen on its port and receive
requests from open pages. So the daemon uses a new host name each time it starts, and proofs are
valid only until it exits. An earlier host name is served as long as anyone is signed in under it.
"""

import hashlib
import hmac
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from safetyd.host import write_whole

LONGEST: Final = timedelta(days=7)
IDLE: Final = timedelta(hours=12)
NOTED: Final = timedelta(minutes=1)  # the time of the last use is updated at most this often
MAX_SESSIONS: Final = 100  # sessions of one operator; the least recently used one is dropped
FILE: Final = "web-sessions.json"
BROWSER_CHARS: Final = 120
MAX_NOTES: Final = 100

KeysOf = Callable[[str], AbstractSet[str]]  # the valid keys of an operator

log = logging.getLogger("safetyd.web")


class Session(msgspec.Struct, kw_only=True):
    """One browser of one operator. `token` and `proof` are hashes.

    `proof` is empty after a restart: until the browser signs in again, it can only show pages and
    send commands that restrict. A session is valid under the host name `name` only, or, if that
    is empty, under the listener's address.
    """

    id: str
    operator: str
    token: str
    proof: str
    opened_at: Annotated[datetime, Meta(tz=True)]
    used_at: Annotated[datetime, Meta(tz=True)]
    browser: str = ""
    name: str = ""
    keys: frozenset[str] = frozenset()

    @property
    def ends_at(self) -> datetime:
        return min(self.opened_at + LONGEST, self.used_at + IDLE)


class Opened(NamedTuple):
    """A new session with the cookie and the proof that only its browser gets."""

    session: Session
    token: str
    proof: str


class Note(NamedTuple):
    """A message that the next page of a browser shows once."""

    said: str = ""
    failed: bool = False


class WebSessions:
    """`name` is the host name that the daemon has used since it started, or empty."""

    def __init__(self, directory: Path, keys_of: KeysOf, name: str = "") -> None:
        self.name = name
        self._file = directory / FILE
        self._keys_of = keys_of
        self._sessions = {session.token: session for session in _read(self._file)}
        self._notes: dict[str, Note] = {}  # messages by session

    def open(self, operator: str, browser: str, now: datetime, name: str = "") -> Opened:
        token, proof = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        session = Session(
            id=f"web_{secrets.token_hex(6)}",
            operator=operator,
            token=_hash(token),
            proof=_hash(proof),
            opened_at=now,
            used_at=now,
            browser=browser[:BROWSER_CHARS],
            name=name,
            keys=frozenset(self._keys_of(operator)),
        )
        self._sessions[session.token] = session
        self._drop(now)
        self._write()
        return Opened(session, token, proof)

    def find(self, token: str, now: datetime) -> Session | None:
        """Return the session of a cookie, or None if it has ended."""
        session = self._sessions.get(_hash(token)) if token else None
        if session is None or not self._lasts(session, now):
            return None
        if now - session.used_at > NOTED:
            session.used_at = now
            self._write()
        return session

    def serves(self, name: str) -> bool:
        """Return True if a host name is the daemon's current one or belongs to a session."""
        return name == self.name or any(known.name == name for known in self._sessions.values())

    def all(self, now: datetime) -> list[Session]:
        """Return the valid sessions, the newest first."""
        lasting = (session for session in self._sessions.values() if self._lasts(session, now))
        return sorted(lasting, key=lambda session: session.opened_at, reverse=True)

    def end(self, ids: Callable[[Session], bool], now: datetime) -> tuple[str, ...]:
        """End the matching sessions and return their ids."""
        ended = [session for session in self.all(now) if ids(session)]
        for session in ended:
            del self._sessions[session.token]
        self._drop(now)
        self._write()
        return tuple(session.id for session in ended)

    def prune(self, now: datetime) -> None:
        """Drop sessions that have expired or whose keys are no longer valid."""
        if self._drop(now):
            self._write()

    def note(self, session: Session, note: Note) -> None:
        self._notes[session.id] = note
        if len(self._notes) > MAX_NOTES:
            del self._notes[next(iter(self._notes))]

    def take_note(self, session: Session) -> Note:
        return self._notes.pop(session.id, Note())

    def _lasts(self, session: Session, now: datetime) -> bool:
        return now < session.ends_at and are_good(session.keys, self._keys_of(session.operator))

    def _drop(self, now: datetime) -> bool:
        """Drop ended and surplus sessions. Return True if there were any."""
        before, counts = len(self._sessions), Counter[str]()
        kept: dict[str, Session] = {}
        # Most recently used first. Among sessions last used at the same time, the newest is first.
        for session in sorted(self._sessions.values(), key=_used)[::-1]:
            counts[session.operator] += 1
            if self._lasts(session, now) and counts[session.operator] <= MAX_SESSIONS:
                kept[session.token] = session
        self._sessions = dict(reversed(kept.items()))
        return len(kept) < before

    def _write(self) -> None:
        """Store the sessions. If the disk is full, they last only until the next restart."""
        kept = [msgspec.structs.replace(session, proof="") for session in self._sessions.values()]
        try:
            write_whole(self._file, msgspec.json.encode(kept))
        except OSError as exc:
            log.warning("cannot store web sessions: %s", exc.strerror)


def are_good(keys: AbstractSet[str], known: AbstractSet[str]) -> bool:
    """Return True if there are keys and all of them are still valid."""
    return bool(keys) and keys <= known


def _used(session: Session) -> datetime:
    return session.used_at


def proves(session: Session, proof: str) -> bool:
    """Return True if a proof belongs to a session."""
    return hmac.compare_digest(session.proof, _hash(proof))


def _hash(secret: str) -> str:
    # A header may not be UTF-8.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _read(file: Path) -> Iterator[Session]:
    """Yield the stored sessions; none if the file cannot be read."""
    try:
        for session in msgspec.json.decode(file.read_bytes(), type=list[Session]):
            yield msgspec.structs.replace(session, proof="")
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return
