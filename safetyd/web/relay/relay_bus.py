"""The connection of a relay to the bus. It reconnects forever."""

import logging
from pathlib import Path
from typing import Final

import anyio
import msgspec

from safetyd.bus.keyring import KeyUnusable, seed_in
from safetyd.bus.nats_client import HardenedClient, NatsError, NoRespondersError
from safetyd.bus.subjects import Subjects
from safetyd.clock import uptime
from safetyd.web.relay.relay_messages import FromRelay, ToRelay, encode, read_to_relay

CONNECT_S: Final = 5.0
ANSWER_S: Final = 4.0  # longer than the daemon takes to notice a stuck journal
PATIENCE_S: Final = 8.0  # longer than another daemon takes to take over
AGAIN_S: Final = 0.25
CLOSE_S: Final = 1.0

log = logging.getLogger("safetyd.relay")


class NoAnswer(Exception):
    """No daemon answered. If `sent`, one may have received the message."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__(sent)
        self.sent = sent


class RelayBus:
    """`servers` are the addresses of the bus. `name` is the relay's own."""

    def __init__(self, servers: list[str], key_file: Path, name: str, prefix: str) -> None:
        self._servers = servers
        self._key_file = key_file
        self._name = name
        self._subject = Subjects(prefix).of("link", name)
        self._client = HardenedClient()
        self._closed = anyio.Event()
        self._said = ""

    @property
    def connected(self) -> bool:
        return self._client.is_connected

    async def run(self) -> None:
        """Connect, and connect again whenever the server ends the connection, forever."""
        while True:
            self._client, self._closed = HardenedClient(self._failed), anyio.Event()
            try:
                await self._connect()
                await self._closed.wait()
            finally:
                with anyio.move_on_after(CLOSE_S, shield=True):
                    await self._client.close()
            await anyio.sleep(1.0)

    async def ask(
        self, message: FromRelay, *, repeat: bool, patience_s: float = PATIENCE_S
    ) -> ToRelay:
        """Return the daemon's answer. With `repeat`, send the message again if there is none.

        A message that no daemon received is always sent again, for a few seconds.
        """
        payload, end = encode(message), uptime() + patience_s
        while True:
            try:
                if self.connected:
                    answer = await self._client.request(self._subject, payload, timeout=ANSWER_S)
                    found: ToRelay = read_to_relay(answer.data)
                    return found
            except NoRespondersError:
                pass
            except (TimeoutError, msgspec.DecodeError):
                if not repeat:
                    raise NoAnswer(sent=True) from None
            except (NatsError, OSError) as exc:
                log.debug("not sent: %s", exc)
            if uptime() + AGAIN_S > end:
                raise NoAnswer(sent=False)
            await anyio.sleep(AGAIN_S)

    async def _connect(self) -> None:
        try:
            with anyio.fail_after(CONNECT_S):
                await self._client.connect(
                    self._servers,
                    name=f"relay {self._name}",
                    nkeys_seed_str=seed_in(self._key_file),
                    inbox_prefix=f"_INBOX.relay.{self._name}",
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.25,  # type: ignore[arg-type] # annotated int
                    connect_timeout=2,
                    ping_interval=1,
                    max_outstanding_pings=2,
                    pending_size=-1,
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnect,
                    reconnected_cb=self._on_reconnect,
                    closed_cb=self._on_closed,
                )
            self._say("connected to the bus", logging.INFO)
        except (NatsError, OSError, KeyUnusable, ValueError) as exc:
            self._say(f"cannot connect to the bus: {str(exc) or 'no answer'}", logging.WARNING)
            self._closed.set()

    def _say(self, what: str, level: int) -> None:
        """Log a line, unless it repeats the last one."""
        if what != self._said:
            log.log(level, "%s", what)
        self._said = what

    def _failed(self, exc: BaseException) -> None:
        log.error("a handler failed: %r", exc)

    async def _on_error(self, error: Exception) -> None:
        self._say(f"bus: {error}", logging.WARNING)

    async def _on_disconnect(self) -> None:
        self._say("disconnected from the bus", logging.WARNING)

    async def _on_reconnect(self) -> None:
        self._say("connected to the bus", logging.INFO)

    async def _on_closed(self) -> None:
        self._closed.set()
