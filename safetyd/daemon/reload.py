"""Taking on a changed configuration and changed keys while running."""

import logging
from collections.abc import Callable
from typing import Final, Literal

import anyio
import msgspec

from safetyd import __version__
from safetyd.bus.embedded_server import EmbeddedServer, ServerRefused
from safetyd.bus.keyring import KeyUnusable
from safetyd.bus.server_config import Users
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import ConfigRejected, KeysChanged
from safetyd.core.events.event import Event, Moment
from safetyd.core.policy import Configured
from safetyd.daemon.config import ConfigError
from safetyd.daemon.file_ownership import Foreign, check_owners
from safetyd.daemon.settings import Settings
from safetyd.daemon.ticker import Ticker
from safetyd.journal.mailbox import EventEnvelope, Mailbox

WRITTEN_S: Final = 5.0
# What is written down of a refusal; a line of the journal is not endless.
SHOWN_ERRORS: Final = 20
SHOWN_CHARS: Final = 500

log = logging.getLogger("safetyd.reload")


class Reload:
    """All or nothing, and what was refused is remembered until something is taken on."""

    def __init__(
        self,
        settings: Settings,
        server: EmbeddedServer | None,
        ticker: Ticker,
        mailbox: Mailbox,
    ) -> None:
        self._settings = settings
        self._server = server  # ours, if the bus is
        self._ticker = ticker
        self._mailbox = mailbox
        self._users: Users | None = None
        self.problem = ""  # why the newest configuration is not in force

    async def run(self, by: str) -> list[str]:
        """Read file and keys again; return what is wrong with them."""
        errors = self._take_on(by)
        self.problem = "; ".join(errors)
        if errors:
            log.warning("the reload is refused and the last good state stays: %s", self.problem)
            self._ticker.put(
                lambda moment: ConfigRejected(at=moment.at, t=moment.t, errors=_some(errors))
            )
            return errors
        log.info("reloaded for %s", by)
        done = anyio.Event()
        self._mailbox.put(EventEnvelope(self.configured("reload"), done.set))
        with anyio.move_on_after(WRITTEN_S):
            await done.wait()
        return []

    def take_on_keys(self, by: str) -> list[str]:
        """Let the server know who has a key now; return why it does not, if it does not."""
        try:
            check_owners(self._settings.data_dir)
            users = self._settings.users()
            if self._server is not None:
                self._server.configure(users)
        except (OSError, Foreign, KeyUnusable, ServerRefused) as exc:
            return [f"the keys as they are now are not in force: {exc}"]
        self._note_change(users, by)
        return []

    def shut_out(self) -> list[str]:
        """Let the server know who floods now; return why it does not, if it does not."""
        if self._server is None or self._users is None:
            return []
        settings = self._settings
        self._users = msgspec.structs.replace(
            self._users,
            shut=settings.question_limits.flood_gate.shut,
            shut_agents=settings.flood_gate.shut,
        )
        try:
            self._server.configure(self._users, tried=True)  # a part of what it has accepted
        except OSError as exc:
            return [f"who floods is not shut out: {exc}"]
        return []

    def configured(self, why: Literal["start", "reload"]) -> Callable[[Engine, Moment], Event]:
        policy = self._settings.policy
        digest = policy.digest()
        return lambda _engine, moment: Configured(
            at=moment.at, t=moment.t, policy=policy, digest=digest, version=__version__, why=why
        )

    def _take_on(self, by: str) -> list[str]:
        """Let file and keys be in force together, or neither."""
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
        added, removed = sorted(is_ - was), sorted(was - is_)
        if added or removed:
            self._ticker.put(
                lambda moment: KeysChanged(
                    at=moment.at, t=moment.t, added=_some(added), removed=_some(removed), by=by
                )
            )


def _named(users: Users) -> set[str]:
    roles = {"agent": users.agents, "operator": users.operators, "observer": users.observers}
    return {f"{role} {name} {key}" for role, keys in roles.items() for name, key in keys.items()}


def _some(texts: list[str]) -> tuple[str, ...]:
    return tuple(text[:SHOWN_CHARS] for text in texts[:SHOWN_ERRORS])
