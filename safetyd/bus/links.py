"""The daemon's connections to the bus."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Final

import anyio
import nats.errors

from safetyd.bus.connections import Link
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.keyring import KeyUnusable
from safetyd.bus.question_limits import Pace
from safetyd.bus.subjects import Subjects
from safetyd.daemon.settings import Settings
from safetyd.unusable import Unusable, check_room

CONNECT_S: Final = 20.0
AGAIN_S: Final = 0.05

log = logging.getLogger("safetyd.links")


class Links:
    """Journal and commands, agents with keys, agents without, questions: none waits for another."""

    def __init__(
        self, settings: Settings, subjects: Subjects, boot_id: str, die: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._subjects = subjects
        self._boot_id = boot_id
        self._die = die
        self._server: EmbeddedServer | None = None
        self.open: Link | None = None

    @property
    def all(self) -> tuple[Link, ...]:
        return (*self._vital, self.questions)

    @property
    def _vital(self) -> tuple[Link, ...]:
        """Return those without which nothing is decided."""
        keyed = (self.main, self.agents)
        return keyed if self.open is None else (*keyed, self.open)

    @property
    def problem(self) -> str:
        """Return that the bus is not heard, or nothing."""
        for link in self._vital:
            if not link.heard:
                return f"the bus has not been heard for {link.deaf_s:.1f} s"
        return ""

    async def connect(self, url: str, server: EmbeddedServer | None, stack: AsyncExitStack) -> None:
        """Connect to the bus; `stack` hangs up. `server` is ours, if the bus is."""
        self._server = server
        self.main = await self._connected("main", url, server, stack)
        self.agents = await self._connected("agents", url, server, stack)
        self.questions = await self._connected("questions", url, server, stack)
        self.questions.client.pace = Pace()
        if self._settings.config.bus.keyless:
            self.open = await self._connected("open", url, server, stack)

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Say in plain words that the bus failed during the start."""
        try:
            yield
        except (nats.errors.Error, TimeoutError, ConnectionError) as exc:
            why = str(exc) or "it does not answer"
            raise self._failure(f"the bus failed during the start ({why})") from exc

    async def first_canaries(self) -> None:
        """Return once every connection has heard itself."""
        for link in self.all:
            await link.first_canary(CONNECT_S)

    async def _connected(
        self, name: str, url: str, server: EmbeddedServer | None, stack: AsyncExitStack
    ) -> Link:
        link = Link(name, self._die)
        canary = self._subjects.canary(f"{self._boot_id}-{name}")
        try:
            seed = self._settings.seed()
        except (OSError, KeyUnusable) as exc:
            raise Unusable(f"the daemon's own key cannot be used: {exc}") from exc
        with anyio.move_on_after(CONNECT_S):
            while True:
                try:
                    await link.connect(url, seed, canary)
                except (OSError, nats.errors.Error) as exc:
                    log.debug("not connected yet: %s", exc)
                    if server is not None and server.end:
                        raise self._failure(f"no bus lets us in at {url}") from exc
                    await anyio.sleep(AGAIN_S)
                else:
                    stack.push_async_callback(link.close)
                    return link
        raise self._failure(f"no bus lets us in at {url}")

    def _failure(self, what: str) -> Unusable:
        """Add where to look; raise at once if it is the disk that a server of ours lacks."""
        if self._server is None:
            return Unusable(f"{what}: check bus.url and its key")
        check_room(self._settings.data_dir)
        end = self._server.end
        return Unusable(f"{what}: {end}" if end else f"{what}; see {self._server.log_file}")
