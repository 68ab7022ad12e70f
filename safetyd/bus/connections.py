"""The daemon's connections to the bus. Canary messages detect dead connections."""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

import anyio
import msgspec
import nats.errors
from msgspec import Meta

from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.key_entry import PublicKey
from safetyd.bus.keyring import KeyUnusable
from safetyd.bus.nats_client import HardenedClient, pub
from safetyd.bus.question_limits import QuestionRate
from safetyd.bus.subjects import Subjects
from safetyd.client.discovery import servers
from safetyd.clock import uptime
from safetyd.host import Unusable, check_room

CANARY_S: Final = 0.5
DEAF_S: Final = 2.0
CLOSE_S: Final = 1.0
CONNECT_TO_ONLY_S: Final = 2
CONNECT_TO_ONE_S: Final = 1  # of several

_ADDRESS: Final = r"(nats|tls)://[^\s,]+"

Url = Annotated[
    str,
    Meta(
        pattern=rf"^({_ADDRESS}(,{_ADDRESS})*)?(?![\s\S])",
        description=(
            "a URL such as nats://bus.example:4222, several of them separated by commas, or empty "
            "for an embedded server"
        ),
    ),
]

Prefix = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]{1,32}(\.[A-Za-z0-9_-]{1,32}){0,3}(?![\s\S])",
        description="one to four words of A-Z a-z 0-9 _ - separated by dots, such as safety.v1",
    ),
]

Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]{0,64}(?![\s\S])",
        description="a name of up to 64 of A-Z a-z 0-9 _ -, or empty",
    ),
]

log = logging.getLogger("safetyd.bus")
CONNECT_S: Final = 20.0
AGAIN_S: Final = 0.05


class BusFailed(Unusable):
    """An external bus cannot be used now, for example while its nodes elect a leader."""


class BusConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Url = ""  # if empty, an embedded server is used
    key_file: str = ""
    name: Name = ""  # of this daemon among several; if empty, it is derived from the machine's name
    daemons: tuple[PublicKey, ...] = ()  # if empty, keys are not shared
    open_agents: bool = True
    prefix: Prefix = "safety.v1"
    max_agents: Annotated[int, Meta(ge=0, le=1_000_000)] = 1000
    nats_server: str = ""  # if empty, the one from the package is used

    @property
    def keyless(self) -> bool:
        """Return True if anonymous agents may connect: on the embedded server only."""
        return self.open_agents and not self.url


class Connection:
    """One connection. It regularly sends itself a canary, a message that must return in time."""

    def __init__(
        self,
        name: str,
        ended: Callable[[str], None],
        pace: Callable[[int], float] | None = None,
    ) -> None:
        self.name = name
        self.client = HardenedClient(lambda exc: self._ended(f"a handler failed: {exc!r}"), pace)
        self._ended = ended
        self._heard = 0.0
        self._canary = ""
        self._sung = anyio.Event()

    @property
    def heard(self) -> bool:
        """Return True if a canary returned recently."""
        return self.client.is_connected and uptime() - self._heard < DEAF_S

    @property
    def deaf_s(self) -> float:
        return uptime() - self._heard

    async def connect(self, url: str, seed: str, canary: str) -> None:
        """Connect and subscribe to the canaries. Try again until that has succeeded.

        If a node of a cluster fails, the next one in the list is tried first, and the failed one
        last.
        """
        nodes = servers(url)
        await self.client.connect(
            nodes,
            dont_randomize=True,
            name=f"safetyd {self.name}",
            nkeys_seed_str=seed,
            inbox_prefix="_INBOX.daemon",
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.25,  # type: ignore[arg-type] # annotated int, slept as is
            connect_timeout=CONNECT_TO_ONE_S if len(nodes) > 1 else CONNECT_TO_ONLY_S,
            ping_interval=1,
            max_outstanding_pings=1,
            pending_size=-1,
            flush_timeout=1,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            closed_cb=self._on_closed,
        )
        self._canary = canary
        await self.client.handle(canary, self._on_canary)
        await self.settle()

    async def first_canary(self, patience_s: float) -> None:
        """Wait until the first canary has returned."""
        with anyio.fail_after(patience_s):
            await self._sung.wait()

    async def settle(self) -> None:
        """Wait until the server has handled everything that was sent.

        If the connection is lost, the next one subscribes to everything again.
        """
        client = self.client
        while True:
            before = client.stats["reconnects"]
            with suppress(nats.errors.FlushTimeoutError, OSError):
                await client.flush(timeout=1)
                if client.is_connected and client.stats["reconnects"] == before:
                    return
            await anyio.sleep(AGAIN_S)

    async def send_canaries(self) -> None:
        """Send canaries forever."""
        while True:
            self._send_canary()
            await anyio.sleep(CANARY_S)

    async def close(self) -> None:
        """Close the connection, without waiting long for a server that does not respond."""
        self._ended = _expected
        try:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self.client.close()
        except (nats.errors.Error, OSError) as exc:
            log.debug("closing the connection: %s", exc)

    def _send_canary(self) -> None:
        self.client.send(pub(self._canary.encode(), b"%.6f" % uptime()))

    def _on_canary(self, _subject: bytes, _reply: bytes, sung: bytes) -> None:
        # The time when the canary was sent: it may have been stuck in a frozen server.
        self._heard = float(sung)
        self._sung.set()

    async def _on_error(self, error: Exception) -> None:
        log.log(self._news(), "bus %s: %s", self.name, error)

    async def _on_disconnect(self) -> None:
        log.log(self._news(), "bus %s: disconnected", self.name)

    def _news(self) -> int:
        """Return the log level: lower before the first canary and while closing."""
        expected = not self._sung.is_set() or self._ended is _expected
        return logging.DEBUG if expected else logging.WARNING

    async def _on_reconnect(self) -> None:
        log.info("bus %s: reconnected", self.name)
        self._send_canary()

    async def _on_closed(self) -> None:
        self._ended(f"the connection {self.name} is closed permanently")


def _expected(_why: str) -> None:
    """Do nothing: the daemon itself closes the connection."""


class Connections:
    """Separate connections for commands, agents and queries, so that none delays another."""

    def __init__(
        self,
        subjects: Subjects,
        boot_id: str,
        data_dir: Path,
        *,
        seed: Callable[[], str],
        keyless: bool,
        die: Callable[[str], None],
    ) -> None:
        self._data_dir = data_dir
        self._seed = seed  # the daemon's own
        self._keyless = keyless
        self._subjects = subjects
        self._boot_id = boot_id
        self._die = die
        self._server: EmbeddedServer | None = None
        self.open: Connection | None = None

    @property
    def all(self) -> tuple[Connection, ...]:
        return (*self._vital, self.questions)

    @property
    def _vital(self) -> tuple[Connection, ...]:
        """Return the connections that decisions need."""
        keyed = (self.main, self.agents)
        return keyed if self.open is None else (*keyed, self.open)

    @property
    def problem(self) -> str:
        """Return how long the bus has not answered, or an empty string if it answers."""
        for link in self._vital:
            if not link.heard:
                return f"the bus has not answered for {link.deaf_s:.1f} s"
        return ""

    @property
    def reconnects(self) -> int:
        """Return how many reconnects there were."""
        return sum(link.client.stats["reconnects"] for link in self.all)

    async def connect(self, url: str, server: EmbeddedServer | None, stack: AsyncExitStack) -> None:
        """Connect to the bus. `stack` closes the connections. An external bus has no `server`.

        All connections use the same node of a cluster, so that few failures of nodes affect them.
        """
        self._server = server
        nodes = servers(url)
        url = ",".join(random.sample(nodes, k=len(nodes)))
        self.main = await self._connected("main", url, stack)
        self.agents = await self._connected("agents", url, stack)
        self.questions = await self._connected("questions", url, stack, QuestionRate())
        if self._keyless:
            self.open = await self._connected("open", url, stack)

    @property
    def nodes(self) -> int:
        """Return how many addresses of nodes are known."""
        return len(self.main.client.servers)

    def leave_node(self) -> None:
        """Reconnect to the next node, for example if this one is cut off from the others."""
        for link in self.all:
            link.client.hang_up()

    async def settle(self) -> None:
        """Wait until the bus has handled everything that was sent, also if it restarts."""
        with anyio.fail_after(CONNECT_S):
            for link in self.all:
                await link.settle()

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Turn bus errors during the start into `Unusable`; on an external bus, `BusFailed`."""
        try:
            yield
        except (nats.errors.Error, TimeoutError, ConnectionError) as exc:
            why = str(exc) or "it does not answer"
            raise self._failure(f"the bus failed during the start ({why})") from exc

    async def first_canaries(self) -> None:
        """Wait for the first canary of every connection."""
        for link in self.all:
            await link.first_canary(CONNECT_S)

    async def _connected(
        self,
        name: str,
        url: str,
        stack: AsyncExitStack,
        pace: Callable[[int], float] | None = None,
    ) -> Connection:
        link = Connection(name, self._die, pace)
        canary = self._subjects.canary(f"{self._boot_id}-{name}")
        try:
            seed = self._seed()
        except (OSError, KeyUnusable) as exc:
            raise Unusable(f"cannot use the daemon's own key: {exc}") from exc
        with anyio.move_on_after(CONNECT_S):
            await link.connect(url, seed, canary)
            stack.push_async_callback(link.close)
            return link
        await link.close()
        raise self._failure(f"cannot connect to the bus at {url}")

    def _failure(self, what: str) -> Unusable:
        """Return an error with advice. If the disk is full, raise the error about that instead."""
        if self._server is None:
            return BusFailed(f"{what}: check bus.url and its key")
        check_room(self._data_dir)
        end = self._server.end
        return Unusable(f"{what}: {end}" if end else f"{what}; see {self._server.log_file}")
