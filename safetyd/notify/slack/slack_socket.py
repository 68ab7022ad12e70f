"""Receive taps from Slack through Socket Mode: envelopes over a WebSocket that the app opens.

Slack closes each connection after some hours, and announces it. The next connection is opened
first. Slack stores no taps: without a connection, it tells users that their tap failed.

The library reconnects every five seconds whatever the error is. Here a connection ends when the
library would reconnect, and `SlackSocket` opens the next one, with pauses.
"""

import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, NamedTuple

import anyio
import msgspec
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

from safetyd.notify.button_channel import PAUSES_S
from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.notify.slack.slack_api import QUIET, SlackApi

CONNECT_S: Final = 15.0
OVERLAP_S: Final = 10.0  # Slack delivers taps to the previous connection for about this long
LASTING_S: Final = 30.0  # after a connection that lasted longer, the next is opened at once
CLOSE_S: Final = 1.0
PING_S: Final = 5.0  # after four of them without a response, the connection has ended

log = logging.getLogger("safetyd.notify")


class SlackUser(msgspec.Struct, frozen=True):
    id: str


class SlackAction(msgspec.Struct, frozen=True):
    value: str = ""  # empty for a button with a URL
    action_ts: str = ""


class SlackContainer(msgspec.Struct, frozen=True):
    channel_id: str = ""


class SlackEvent(msgspec.Struct, frozen=True):
    type: str = ""
    user: str = ""


class SlackPayload(msgspec.Struct, frozen=True):
    type: str = ""
    user: SlackUser | None = None
    container: SlackContainer = SlackContainer()
    actions: tuple[SlackAction, ...] = ()
    event: SlackEvent = SlackEvent()


class Envelope(msgspec.Struct, frozen=True):
    """What Slack sends over a connection. Only envelopes with an id are acknowledged."""

    type: str = ""
    envelope_id: str = ""
    payload: SlackPayload = SlackPayload()
    num_connections: int = 0  # of this app, in the first envelope of a connection


class Received(NamedTuple):
    envelope: Envelope
    connection: "Connection"


Receive = Callable[[Received], None]
_decode = msgspec.json.Decoder(Envelope).decode


class Connection(SocketModeClient):
    """One connection. `ended` is set when another one is needed."""

    def __init__(self, api: SlackApi, url: str, receive: Receive) -> None:
        super().__init__(api.app_token, logger=QUIET, web_client=api.web, ping_interval=PING_S)
        self.proxy = None
        self.wss_uri = url
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.others = 0  # further connections of this app when this one was opened
        self._receive = receive
        self.message_listeners.append(self._heard)

    async def connect_to_new_endpoint(self, force: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the library's signature
        self.ended.set()

    async def acknowledge(self, envelope: Envelope) -> None:
        """Acknowledge an envelope. If the connection is gone, Slack tells the user."""
        try:
            await self.send_socket_mode_response(SocketModeResponse(envelope.envelope_id))
        except (ConnectionError, RuntimeError) as exc:
            log.info("slack: cannot acknowledge an envelope: %s", type(exc).__name__)

    async def end(self) -> None:
        """Close the connection and end the library's tasks."""
        self.closed, self.auto_reconnect_enabled = True, False
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self.disconnect()  # type: ignore[no-untyped-call]
        for task in (self.message_processor, self.current_session_monitor, self.message_receiver):
            if task is not None:
                task.cancel()
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self.aiohttp_client_session.close()

    async def _heard(
        self, _client: object, message: Mapping[str, object], raw: str | None = None
    ) -> None:
        try:
            envelope = _decode(raw or "")
        except msgspec.DecodeError:  # not about a button; Slack repeats it until it is acknowledged
            envelope = Envelope(envelope_id=str(message.get("envelope_id", "")))
        if envelope.type == "hello":
            self.others = max(0, envelope.num_connections - 1)
            self.ready.set()
        elif envelope.envelope_id:
            self._receive(Received(envelope, self))


class SlackSocket:
    """Keeps a connection open. `problem` is the reason if an operator must fix something."""

    def __init__(self, name: str, api: SlackApi) -> None:
        self.problem = ""
        self._name = name
        self._api = api
        self._open: set[Connection] = set()
        self._shared = False  # True if a warning about other connections was logged

    async def run(self, receive: Receive) -> None:
        """Pass each envelope to `receive`, forever."""
        short = 0  # consecutive connections that did not last
        async with anyio.create_task_group() as tasks:
            while True:
                connection = await self._opened(receive)
                began = anyio.current_time()
                tasks.start_soon(self._hold, connection)
                await connection.ended.wait()
                short = 0 if anyio.current_time() - began > LASTING_S else short + 1
                if short:
                    await anyio.sleep(_pause_s(short - 1))

    async def _hold(self, connection: Connection) -> None:
        """Keep a connection until it has ended, and for a while after that."""
        self._open.add(connection)
        if connection.others > len(self._open) - 1 and not self._shared:
            self._shared = True
            log.warning(
                "%s: another program uses the same Slack app, so taps may not arrive here; "
                "create an app for each safetyd",
                self._name,
            )
        try:
            await connection.ended.wait()
            await anyio.sleep(OVERLAP_S)
        finally:
            self._open.discard(connection)
            await connection.end()

    async def _opened(self, receive: Receive) -> Connection:
        """Return a new connection; retry until Slack accepts it."""
        for failures in count():
            try:
                connection = await self._connected(receive)
            except (Unavailable, Undeliverable, Misconfigured) as exc:
                if not failures:
                    log.warning("%s: cannot receive taps: %s", self._name, exc)
                if isinstance(exc, Misconfigured):
                    self.problem = f"cannot receive taps: {exc}"
                after_s = getattr(exc, "retry_after_s", None) or 0.0
                await anyio.sleep(max(_pause_s(failures), after_s))
            else:
                self.problem = ""
                return connection
        raise AssertionError("unreachable: the loop never ends")

    async def _connected(self, receive: Receive) -> Connection:
        connection = Connection(self._api, await self._api.connection_url(), receive)
        try:
            with anyio.fail_after(CONNECT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.ready.wait()
        except TimeoutError:
            await connection.end()
            raise Unavailable("Slack did not open a connection in time") from None
        except BaseException:
            await connection.end()
            raise
        return connection


def _pause_s(failures: int) -> float:
    return PAUSES_S[min(failures, len(PAUSES_S) - 1)]
