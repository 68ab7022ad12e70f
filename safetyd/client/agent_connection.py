"""A connection to the bus that reconnects in the background.

Each attempt looks up the daemon's address again, because a restarted daemon may use another one.
Each attempt also creates a new nats-py client for each server. A client that reconnects by itself
would send buffered messages, and a proposal sent that late must not be decided.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import msgspec

from safetyd.client.discovery import ASK_TO_START, Endpoint
from safetyd.client.exceptions import Down, KeyRejected, Lost, NotNow, Unheard
from safetyd.client.retry_pauses import growing
from safetyd.client.rollback_inbox import RollbackInbox
from safetyd.client.server_connection import close_client, in_thread, open_client, responds
from safetyd.client.server_race import first_of, in_cluster, shuffled
from safetyd.client.stop_state import StopState
from safetyd.core.messages.notice_header import HEADER, VALUE

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

CONNECT_S: Final = 2.0
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 2.0
HEARTBEAT_S: Final = 30.0
MAX_HELD_BYTES: Final = 1024 * 1024
MAX_UNREAD: Final = 16

_log = logging.getLogger("safetyd.client")


class ReceivedAnswer(NamedTuple):
    """An answer: a reply to this client, or a message `published` on the decision subject."""

    data: bytes
    published: bool


class AnswerListener:
    """A bounded queue of the answers to one message. When it is full, new answers are dropped."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.sent = False
        self._heard: asyncio.Queue[ReceivedAnswer | Down] = asyncio.Queue(MAX_UNREAD)

    def offer(self, heard: ReceivedAnswer | Down) -> None:
        with suppress(asyncio.QueueFull):
            self._heard.put_nowait(heard)

    async def hear(self) -> ReceivedAnswer:
        """Return the next answer. Raise `Down` once it is certain that none will arrive."""
        heard = await self._heard.get()
        if isinstance(heard, Down):
            raise heard
        return heard


class _Attempt:
    """One attempt to connect. Every pending `send` waits for its result."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.client: Client | None = None
        self.down = Down("not connected yet")


class AgentConnection:
    def __init__(
        self,
        agent: str,
        prefix: str,
        look_up: Callable[[], Endpoint],
        stops: StopState,
        rollbacks: RollbackInbox,
    ) -> None:
        self._agent = agent
        self._prefix = prefix
        self._look_up = look_up
        self._stops = stops
        self._rollbacks = rollbacks
        self._inbox = f"_INBOX.agent.{agent}.{os.urandom(12).hex()}"
        self._listeners: dict[str, list[AnswerListener]] = {}
        self._client: Client | None = None
        self._attempt = _Attempt()
        self._wake = asyncio.Event()
        self._where = "the bus"
        self._endpoint: Endpoint | None = None
        self._doubted = False  # True if the server may be frozen
        self.answered = False  # True after the first answer on this connection
        self.clustered = False  # True if another daemon can take over

    @property
    def where(self) -> str:
        """The address of the last attempt, for error messages."""
        return self._where

    def retries(self, down: Down) -> bool:
        """Return True if a message that failed should be sent again until its deadline.

        On a cluster, another daemon takes over within seconds.
        """
        if isinstance(down, NotNow):
            self.clustered = True  # only daemons that can be replaced say so
        return self.clustered and not isinstance(down, KeyRejected)

    def doubt(self) -> None:
        """Check the server in the background. If it does not answer, connect to another one."""
        if self._endpoint is not None and len(self._endpoint.servers) > 1:
            self._doubted = True
            self._wake.set()

    async def keep(self) -> None:
        """Stay connected until cancelled. Reconnect after a break, with a growing pause.

        A call that needs the connection ends the pause early.
        """
        pauses = growing(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        try:
            while True:
                if client := await self._try():
                    await self._watch(client)
                    pauses = growing(FIRST_PAUSE_S, LONGEST_PAUSE_S)
                    continue
                with anyio.move_on_after(next(pauses)):
                    await self._wake.wait()
        finally:
            if self._client is not None:
                await close_client(self._client)
                self._client = None

    @contextmanager
    def listen(self, token: str) -> Iterator[AnswerListener]:
        """Yield a listener for answers to `token`, from the inbox and the decision subject."""
        listener = AnswerListener(token)
        self._listeners.setdefault(token, []).append(listener)
        try:
            yield listener
        finally:
            self._listeners[token].remove(listener)
            if not self._listeners[token]:
                del self._listeners[token]

    async def send(self, verb: str, payload: bytes, listener: AnswerListener) -> None:
        """Publish one message and route its answers to `listener`.

        Raises `Down` if the message cannot be published now.
        """
        client = await self._connected()
        listener.sent = True
        await self._publish(client, verb, payload, f"{self._inbox}.{listener.token}")

    async def _connected(self) -> "Client":
        if self._client is not None and self._client.is_connected:
            return self._client
        attempt = self._attempt
        self._wake.set()
        await attempt.over.wait()
        if attempt.client is None:
            raise attempt.down
        return attempt.client

    async def _publish(self, client: "Client", verb: str, payload: bytes, reply: str = "") -> None:
        # nats-py buffers without a limit if a frozen server does not read.
        if client.pending_data_size > MAX_HELD_BYTES:
            raise Down(f"the bus at {self._where} accepts no messages; check whether it hangs")
        try:
            await client.publish(f"{self._prefix}.{verb}.{self._agent}", payload, reply)
        except Exception as exc:  # after any nats-py error, the message was not sent
            raise Down(f"cannot send to the bus at {self._where} ({exc!r})") from exc

    async def _try(self) -> "Client | None":
        attempt = self._attempt
        try:
            self._client = attempt.client = await self._connect()
        except Down as down:
            attempt.down = down
            _log.debug("not connected: %s", down)
        self._attempt = _Attempt()
        self._wake.clear()
        attempt.over.set()
        return attempt.client

    async def _watch(self, client: "Client") -> None:
        """Send heartbeats until the connection is lost or its server does not answer."""
        _log.debug("connected to %s", self._where)
        while client.is_connected:
            with anyio.move_on_after(HEARTBEAT_S) as idle:
                await self._wake.wait()
            self._wake.clear()
            if idle.cancelled_caught:
                await self._beat(client, msgspec.json.encode(self._stops.heartbeat()))
            elif self._doubted and not await responds(client):
                break
            self._doubted = False
        self._client = None
        self._offer_all(Lost(f"lost the connection to {self._where}"))
        await close_client(client)

    async def _beat(self, client: "Client", heartbeat: bytes) -> None:
        with suppress(Down):
            await self._publish(client, "telemetry", heartbeat)

    async def _connect(self) -> "Client":
        self.answered = self._doubted = False
        endpoint = self._endpoint = await self._found()
        self._where = endpoint.shown
        servers = shuffled(endpoint.servers)
        self.clustered = self.clustered or len(servers) > 1
        open_to = partial(
            open_client, endpoint, f"agent {self._agent}", self._on_error, self._on_closed
        )
        client: Client | None = None
        opened = False
        try:
            with anyio.fail_after(CONNECT_S):
                client = await first_of(servers, open_to, close_client)
                self.clustered = in_cluster(servers, client)
                await self._subscribe(client)
            opened = True
        except Exception as exc:
            raise self._explained(endpoint, exc) from exc
        finally:
            if client is not None and not opened:
                await close_client(client)
        return client

    async def _found(self) -> Endpoint:
        """Return the address. On a cluster, use the last one if there is none any more.

        A daemon that stops removes its address, but the servers of a cluster continue.
        """
        try:
            return await in_thread(self._look_up)
        except KeyRejected:
            raise
        except Down:
            if self._endpoint is None or not self.clustered:
                raise
            return self._endpoint

    async def _subscribe(self, client: "Client") -> None:
        self._stops.reconnected()
        await client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        await client.subscribe(f"{self._prefix}.decision.{self._agent}.*", cb=self._on_answer)
        await client.subscribe(f"{self._prefix}.state.stop", cb=self._on_stop)
        await client.subscribe(f"{self._prefix}.state.rollback", cb=self._on_rollback)
        self._rollbacks.reconnected()

    def _explained(self, endpoint: Endpoint, exc: Exception) -> Down:
        if "authorization violation" in str(exc).lower():
            key = f"the key {endpoint.key_file}" if endpoint.seed else "agents without a key"
            advice = f"ask the operator to run `safetyd agent add {self._agent}`"
            return KeyRejected(f"the bus at {endpoint.shown} rejects {key}; {advice}")
        why = str(exc) or type(exc).__name__
        return Down(f"no safetyd answers at {endpoint.shown} ({why}); {ASK_TO_START}")

    async def _on_answer(self, msg: "Msg") -> None:
        published = not msg.subject.startswith(self._inbox)
        heard: ReceivedAnswer | Down = ReceivedAnswer(msg.data, published)
        if not published and (msg.headers or {}).get("Status") == "503":
            heard = Unheard(f"no safetyd listens at {self._where}; {ASK_TO_START}")
        else:
            self.answered = True
        for listener in self._listeners.get(msg.subject.rpartition(".")[2], ()):
            listener.offer(heard)

    async def _on_stop(self, msg: "Msg") -> None:
        if (msg.headers or {}).get(HEADER) != VALUE:
            return  # not from the daemon: a client can use this subject as its reply subject
        heartbeat = self._stops.hear(msg.data)
        if heartbeat is not None and self._client is not None:
            await self._beat(self._client, msgspec.json.encode(heartbeat))

    async def _on_rollback(self, msg: "Msg") -> None:
        if (msg.headers or {}).get(HEADER) == VALUE:
            self._rollbacks.hear(msg.data)

    async def _on_error(self, exc: Exception) -> None:
        _log.debug("the bus reports %r", exc)
        if "permissions violation for publish" in str(exc).lower():
            advice = f"use the key of agent {self._agent}, or create one with `safetyd agent add`"
            self._offer_all(KeyRejected(f"the bus at {self._where} rejects the message; {advice}"))

    async def _on_closed(self) -> None:
        self._wake.set()

    def _offer_all(self, down: Down) -> None:
        for listeners in self._listeners.values():
            for listener in listeners:
                if listener.sent:
                    listener.sent = False
                    listener.offer(down)
