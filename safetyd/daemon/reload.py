"""Reloads the configuration and keys of a running daemon."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain
from typing import Final, Literal

import anyio
import anyio.lowlevel
import msgspec

from safetyd import __version__
from safetyd.bus.embedded_server import EmbeddedServer, ServerRefused
from safetyd.bus.keyring import LOCAL_OPERATOR, ROLES, KeyUnusable, OldKey, Role
from safetyd.bus.server_config import Users
from safetyd.clock import Clock
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.daemon_events import ConfigRejected, KeysChanged
from safetyd.core.events.event import Event, Moment
from safetyd.core.policy import Configured
from safetyd.core.text.time_words import in_utc
from safetyd.daemon.config import ConfigError
from safetyd.daemon.file_ownership import Foreign, check_owners
from safetyd.daemon.settings import Settings
from safetyd.journal.mailbox import EventEnvelope, Mailbox

WRITTEN_S: Final = 5.0
END_S: Final = 1.0  # how often expired old keys are removed
# The maximum number of errors in the journal, and the length of each.
SHOWN_ERRORS: Final = 20
SHOWN_CHARS: Final = 500
_TOKEN: Final = "token "  # noqa: S105 - the text before the shown part of a hash

Key = tuple[Role, str, str]  # role, name, and key

log = logging.getLogger("safetyd.reload")


class Reload:
    """Reloads everything or nothing. `problem` says why the last reload was rejected."""

    def __init__(
        self,
        settings: Settings,
        server: EmbeddedServer | None,
        mailbox: Mailbox,
    ) -> None:
        self._settings = settings
        self._server = server  # None for an external bus
        self._mailbox = mailbox
        self._users: Users | None = None
        self._clock = Clock()
        self._end_t: dict[OldKey, float] = {}  # when each old key expires, in monotonic seconds
        self._not_ended = ""  # why an expired key is still trusted
        self.problem = ""  # why the newest configuration is not in force

    async def run(
        self, by: str, prepare: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    ) -> list[str]:
        """Reload the configuration file and the keys. Return the errors.

        `prepare` is awaited before the new rules apply.
        """
        errors = self.take_on(by)
        if errors:
            self._mailbox.record(
                lambda moment: ConfigRejected(at=moment.at, t=moment.t, errors=_some(errors))
            )
            return errors
        await prepare()
        done = anyio.Event()
        self._mailbox.put(EventEnvelope(self.configured("reload"), done.set))
        with anyio.move_on_after(WRITTEN_S):
            await done.wait()
        return []

    def take_on(self, by: str) -> list[str]:
        """Apply the configuration file and the keys, without journalling it. Return the errors."""
        errors = self._take_on(by)
        self.problem = "; ".join(errors)
        if errors:
            log.warning(
                "reload rejected, the previous configuration stays in force: %s", self.problem
            )
        else:
            log.info("reloaded for %s", by)
        return errors

    def take_on_keys(self, by: str, *, record: bool = True) -> list[str]:
        """Configure the server with the current keys. Return the errors.

        With `record`, the journal gets the difference. Only the daemon that writes it records.
        """
        try:
            check_owners(self._settings.data_dir)
            users = self._settings.users()
            if self._server is not None:
                self._server.configure(users)
        except (OSError, Foreign, KeyUnusable, ServerRefused) as exc:
            return [f"cannot load the keys: {exc}"]
        if record:
            self._note_change(users, by)
        self._users = users
        return []

    def keys_of(self, person: str) -> frozenset[str]:
        """Return the keys of an operator that are valid now, including replaced ones."""
        if self._users is None:
            return frozenset()
        trusted = chain(self._users.trusted("operators"), self._users.trusted("observers"))
        return frozenset(key for name, key in trusted if name == person)

    def shut_out(self) -> list[str]:
        """Configure the server to shut out clients that flood the bus. Return the errors."""
        if self._server is None or self._users is None:
            return []
        settings = self._settings
        self._users = msgspec.structs.replace(
            self._users,
            shut=settings.question_limits.flood_gate.shut,
            shut_agents=settings.flood_gate.shut,
        )
        try:
            # Not validated again: it only removes users from a valid configuration.
            self._server.configure(self._users, tried=True)
        except OSError as exc:
            return [f"cannot shut out a flooding client: {exc}"]
        return []

    async def end_old_keys(self) -> None:
        """Remove old keys when they expire, forever."""
        while True:
            await anyio.sleep(END_S)
            problem = self.drop_ended(self._clock.now())
            if problem and problem != self._not_ended:
                log.error("an expired key is still trusted: %s", problem)
            self._not_ended = problem

    def drop_ended(self, moment: Moment) -> str:
        """Stop trusting expired old keys. Return an error if that fails.

        No file is read for this, so an invalid file cannot keep an expired key valid.
        """
        ended = self._ended(moment)
        if self._users is None or not ended:
            return ""
        users = self._users.without(ended)
        try:
            if self._server is not None:
                # Not validated again: it only removes users from a valid configuration.
                self._server.configure(users, tried=True)
        except OSError as exc:
            return str(exc)
        self._note_change(users, "overlap")
        if self._server is None:
            log.warning(
                "an old key has expired; update the bus with the output of `safetyd nats-config`"
            )
        with suppress(OSError, KeyUnusable):  # the next reload tries again, or reports the error
            self._settings.keyring.settle(max(key.until for key in ended))
        return ""

    def _ended(self, moment: Moment) -> set[OldKey]:
        """Return the expired old keys. Setting the wall clock back does not extend a key."""
        keys = self._users.old_keys.values() if self._users is not None else ()
        held = {key for of_role in keys for _, key in of_role}
        left = {key: (key.until - moment.at).total_seconds() for key in held}
        self._end_t = {key: self._end_t.get(key, moment.t + left[key]) for key in held}
        return {key for key in held if left[key] <= 0 or self._end_t[key] <= moment.t}

    def configured(self, why: Literal["start", "reload"]) -> Callable[[EngineState, Moment], Event]:
        """Return a plan that puts the policy that is in force then into the journal."""

        def made(_state: EngineState, moment: Moment) -> Event:
            policy = self._settings.policy
            return Configured(
                at=moment.at,
                t=moment.t,
                policy=policy,
                digest=policy.digest(),
                version=__version__,
                why=why,
            )

        return made

    def _take_on(self, by: str) -> list[str]:
        """Apply the file and the keys, or neither. Return the errors."""
        try:
            fresh = self._settings.read()
        except ConfigError as exc:
            return exc.errors
        errors = self.take_on_keys(by)
        if not errors:
            self._settings.adopt(fresh)
        return errors

    def _note_change(self, users: Users, by: str) -> None:
        before, self._users = self._users, users
        if before is None:
            return
        was, is_ = _named(before), _named(users)
        added = [is_[key] + _after(users, key) for key in sorted(is_.keys() - was.keys())]
        removed = [was[key] for key in sorted(was.keys() - is_.keys())]
        if added or removed:
            self._mailbox.record(
                lambda moment: KeysChanged(
                    at=moment.at, t=moment.t, added=_some(added), removed=_some(removed), by=by
                )
            )


def _named(users: Users) -> dict[Key, str]:
    """Return a description of every trusted key."""
    old = {
        (role, name, key.public): f"old {role[:-1]} {name} {key.public}"
        for role in ROLES
        for name, key in users.old_keys.get(role, ())
    }
    newest = {
        (role, name, key): f"{role[:-1]} {name} {key}"
        for role in ROLES
        for name, key in users.newest(role).items()
    }
    others: dict[Key, str] = {
        ("operators", LOCAL_OPERATOR, key): f"operator {LOCAL_OPERATOR} {key}"
        for key in users.other_locals
    }
    tokens: dict[Key, str] = {
        ("agents", name, _TOKEN + one.shown): f"agent {name} {_TOKEN}{one.shown}"
        for name, hashes in users.tokens.items()
        for one in hashes
    }
    return old | newest | others | tokens


def _after(users: Users, key: Key) -> str:
    """Return which old key a new key replaces, if the old one is still trusted."""
    role, name, public = key
    if public.startswith(_TOKEN):
        return ""
    followed = [old for whose, old in users.old_keys.get(role, ()) if whose == name]
    return "".join(f" after {old.public}, which ends {in_utc(old.until)}" for old in followed[:1])


def _some(texts: list[str]) -> tuple[str, ...]:
    return tuple(text[:SHOWN_CHARS] for text in texts[:SHOWN_ERRORS])
