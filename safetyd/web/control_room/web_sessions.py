"""Who is signed in: browsers that an operator opened, kept in a file over a restart.

The file holds hashes only. A session lasts no longer than each key that its operator had when it
was opened: one that is revoked, or replaced and over, takes the session along. What shows that a
page is ours is good for as long as this daemon holds its port: while it does not, anybody may
listen there, and an open page would tell them. So each start has a name of its own; that of an
earlier one is served for as long as somebody is signed in under it.
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
NOTED: Final = timedelta(minutes=1)  # how exactly it is known when a session was last used
MAX_SESSIONS: Final = 100  # of one operator; the one that was used least lately makes room
FILE: Final = "web-sessions.json"
BROWSER_CHARS: Final = 120
MAX_NOTES: Final = 100

KeysOf = Callable[
    [str], AbstractSet[str]
]  # by which somebody is let in now, none if there are none

log = logging.getLogger("safetyd.web")


class Session(msgspec.Struct, kw_only=True):
    """One browser of one operator. `token` and `proof` are hashes of what the browser has.

    `proof` is empty after a restart: such a browser looks and restricts until it signs in again.
    It is good under the `name` at which it was opened; empty: at the address of the listener.
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
    """A new session, and what only its browser gets: the cookie, and what its page keeps."""

    session: Session
    token: str
    proof: str


class Note(NamedTuple):
    """A message that a browser shows once, with its next page."""

    said: str = ""
    failed: bool = False


class WebSessions:
    """`name` is that of this start, or empty."""

    def __init__(self, directory: Path, keys_of: KeysOf, name: str = "") -> None:
        self.name = name
        self._file = directory / FILE
        self._keys_of = keys_of
        self._sessions = {session.token: session for session in _read(self._file)}
        self._notes: dict[str, Note] = {}  # by session

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
        """Return whose browser shows this cookie, None if it is nobody's any more."""
        session = self._sessions.get(_hash(token)) if token else None
        if session is None or not self._lasts(session, now):
            return None
        if now - session.used_at > NOTED:
            session.used_at = now
            self._write()
        return session

    def serves(self, name: str) -> bool:
        """Say whether a name is that of this start, or somebody is signed in under it."""
        return name == self.name or any(known.name == name for known in self._sessions.values())

    def all(self, now: datetime) -> list[Session]:
        """Return those that last, the newest first."""
        lasting = (session for session in self._sessions.values() if self._lasts(session, now))
        return sorted(lasting, key=lambda session: session.opened_at, reverse=True)

    def end(self, ids: Callable[[Session], bool], now: datetime) -> tuple[str, ...]:
        """End the sessions that are meant; return their ids."""
        ended = [session for session in self.all(now) if ids(session)]
        for session in ended:
            del self._sessions[session.token]
        self._drop(now)
        self._write()
        return tuple(session.id for session in ended)

    def prune(self, now: datetime) -> None:
        """Forget the sessions of people whose key is good no more."""
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
        """Forget what does not last, or is one too many; say whether there was any."""
        before, counts = len(self._sessions), Counter[str]()
        kept: dict[str, Session] = {}
        # Of those that were used at the same time the newest comes first.
        for session in sorted(self._sessions.values(), key=_used)[::-1]:
            counts[session.operator] += 1
            if self._lasts(session, now) and counts[session.operator] <= MAX_SESSIONS:
                kept[session.token] = session
        self._sessions = dict(reversed(kept.items()))
        return len(kept) < before

    def _write(self) -> None:
        """Keep the sessions over a restart; on a full disk they last until then."""
        kept = [msgspec.structs.replace(session, proof="") for session in self._sessions.values()]
        try:
            write_whole(self._file, msgspec.json.encode(kept))
        except OSError as exc:
            log.warning("who is signed in cannot be written down: %s", exc.strerror)


def are_good(keys: AbstractSet[str], known: AbstractSet[str]) -> bool:
    """Say whether none of the keys has ended that somebody had."""
    return bool(keys) and keys <= known


def _used(session: Session) -> datetime:
    return session.used_at


def proves(session: Session, proof: str) -> bool:
    """Say whether a page of this session, and not only its cookie, is shown."""
    return hmac.compare_digest(session.proof, _hash(proof))


def _hash(secret: str) -> str:
    # A header may hold what is no UTF-8.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _read(file: Path) -> Iterator[Session]:
    """Yield what was kept; of a file that cannot be read nobody is signed in."""
    try:
        for session in msgspec.json.decode(file.read_bytes(), type=list[Session]):
            yield msgspec.structs.replace(session, proof="")
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return
