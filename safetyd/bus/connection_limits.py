"""Limits the number of connections per key, so that one process cannot use up all of them.

Anonymous agents share one limit, because they cannot be distinguished. Above the limit, connections
that never sent a message are closed first, then those that have been idle longest. A closed client
reconnects with its next proposal.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

import anyio
import msgspec
import nats.errors

from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.server_config import (
    CONNECTED,
    CONNECTIONS,
    ENDING,
    KEYLESS,
    MAX_AGENTS,
    MAX_KEYLESS,
    MAX_PEOPLE,
    MAX_RELAYS,
)
from safetyd.clock import uptime

# Connections left free for clients that connect between two checks.
FREE: Final = 32
# Connections per key. Several processes may share a key.
MAX_OF_KEY: Final = 32
LOOK_S: Final = 0.1
ANSWER_S: Final = 1.0
TELL_S: Final = 60.0

log = logging.getLogger("safetyd.bus")


class ClientConnection(msgspec.Struct, frozen=True):
    cid: int
    in_msgs: int
    last_activity: datetime
    authorized_user: str  # a public key


class ConnectionList(msgspec.Struct, frozen=True):
    server_id: str
    connections: tuple[ClientConnection, ...] = ()


class ConnectionsAnswer(msgspec.Struct, frozen=True):
    data: ConnectionList


_decode = msgspec.json.Decoder(ConnectionsAnswer).decode
# The daemon's own connections are in another account.
_WATCHED: Final = {
    "AGENTS": MAX_AGENTS,
    "HUMANS": MAX_PEOPLE,
    "OPEN": MAX_KEYLESS,
    "RELAYS": MAX_RELAYS,
}


def superfluous(connections: Sequence[ClientConnection]) -> Iterator[list[ClientConnection]]:
    """Yield, for each user above the limit, the connections to close."""
    by_user: dict[str, list[ClientConnection]] = defaultdict(list)
    for connection in connections:
        by_user[connection.authorized_user].append(connection)
    for user, held in by_user.items():
        kept = MAX_KEYLESS - FREE if user == KEYLESS else MAX_OF_KEY
        held.sort(key=lambda each: (each.in_msgs > 0, each.last_activity))
        if ended := held[: max(0, len(held) - kept)]:
            yield ended


class ConnectionLimits:
    """Checks the connections of an account whenever a client connects."""

    def __init__(self, server: EmbeddedServer, name_of: Callable[[str], str]) -> None:
        self._server = server
        self._name_of = name_of
        self._client = HardenedClient()
        self._came = anyio.Event()
        self._accounts = set(_WATCHED)  # accounts with new connections since the last check
        self._told_t: dict[str, float] = {}

    async def watch(self) -> None:
        """Close excess connections, forever."""
        await self._connect()
        try:
            while True:
                self._came = anyio.Event()
                accounts, self._accounts = self._accounts, set()
                for account in accounts:
                    await self._look(account)
                await self._came.wait()
                await anyio.sleep(LOOK_S)
        finally:
            with anyio.move_on_after(ANSWER_S, shield=True):
                await self._client.close()

    async def _connect(self) -> None:
        await self._client.connect(
            self._server.url,
            name="safetyd connections",
            nkeys_seed_str=self._server.monitor_seed,
            inbox_prefix="_INBOX.daemon",
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.25,  # type: ignore[arg-type] # annotated int, slept as is
            pending_size=-1,
            error_cb=_note,
            reconnected_cb=self._on_reconnect,
        )
        await self._client.handle(CONNECTED, self._on_connected)

    def _on_connected(self, subject: bytes, _reply: bytes, _payload: bytes) -> None:
        account = subject.split(b".")[2].decode("ascii", "replace")
        if account in _WATCHED:
            self._look_again(account)

    async def _on_reconnect(self) -> None:
        self._look_again(*_WATCHED)  # other clients may have reconnected before this one

    def _look_again(self, *accounts: str) -> None:
        self._accounts.update(accounts)
        self._came.set()

    async def _look(self, account: str) -> None:
        question = {"acc": account, "auth": True, "limit": 2 * _WATCHED[account]}
        try:
            answer = await self._client.request(
                CONNECTIONS, msgspec.json.encode(question), timeout=ANSWER_S
            )
            found = _decode(answer.data).data
            for ended in superfluous(found.connections):
                await self._end(ended, found.server_id)
        except (nats.errors.Error, msgspec.DecodeError, OSError) as exc:
            log.debug("connections: %s", exc)
            self._look_again(account)  # if the account is full, no connection triggers a check

    async def _end(self, ended: Sequence[ClientConnection], server_id: str) -> None:
        subject = ENDING.replace("*", server_id)
        for connection in ended:
            # The server requires a reply subject for this request.
            cid = msgspec.json.encode({"cid": connection.cid})
            await self._client.request(subject, cid, timeout=ANSWER_S)
        self._tell(ended[0].authorized_user, len(ended))

    def _tell(self, user: str, ended: int) -> None:
        if uptime() - self._told_t.get(user, -TELL_S) < TELL_S:
            return
        self._told_t[user] = uptime()
        if user == KEYLESS:
            log.warning(
                "closed %d connections of anonymous agents: there were too many, and these were "
                "idle longest; give important agents a key",
                ended,
            )
        else:
            log.warning(
                "closed %d connections of %s: the limit per key is %d, and these were idle longest",
                ended,
                self._name_of(user),
                MAX_OF_KEY,
            )


async def _note(error: Exception) -> None:
    log.debug("connections: %s", error)
