"""An operator's connection to the daemon: questions, commands, and live events."""

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import click
import msgspec
from msgspec import UNSET

from safetyd import __version__
from safetyd.bus.keyring import KeyUnusable, seed_in
from safetyd.bus.nats_client import HardenedClient, NatsError, NoRespondersError
from safetyd.bus.subjects import Subjects
from safetyd.client.discovery import servers
from safetyd.client.retry_pauses import growing
from safetyd.client.server_race import first_of, in_cluster, shuffled
from safetyd.clock import uptime
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.locations import Location
from safetyd.operators.contract.question import Call, answer_of
from safetyd.operators.contract.status_contract import StatusQuestion
from safetyd.operators.replies import Done, Refusal, too_many

CONNECT_S: Final = 3.0
ANSWER_S: Final = 5.0
LONG_S: Final = 60.0  # for longer timeouts, check that the daemon keeps running
LOOK_S: Final = 2.0
CLOSE_S: Final = 1.0
RETRY_S: Final = 20.0  # how long a command retries rate-limited queries
AGAIN_S: Final = 0.5  # the pause before a retry if the refusal does not name one
TAKEOVER_S: Final = 6.0  # how long a command waits for another daemon of a cluster to take over
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.5


Answer = TypeVar("Answer", bound=Done)
Read = TypeVar("Read")


class _NobodyListens(NotReachable):
    """The server replied that no daemon is subscribed, so the message was not received."""


class _Outcome(msgspec.Struct):
    ok: bool


class _Running(msgspec.Struct):
    """The fields of `status` that every version of the daemon sends."""

    pid: int = 0  # 0 if no daemon answers, or if it cannot answer questions now
    version: str = ""


def _echo(line: str) -> None:
    click.echo(line, err=True)


class OperatorConnection:
    """A connection of an operator to the daemon. It raises all errors as `Failure`.

    Rate-limited queries are sent again. On a cluster, a message is also sent again if no daemon
    listens, because another one may take over. Before it waits, `announce` gets a line to print.
    """

    def __init__(self, location: Location, announce: Callable[[str], None] = _echo) -> None:
        self._announce = announce
        self._client = HardenedClient()  # replaced when a server has answered
        self._clustered = False
        self._subjects = Subjects(location.prefix)
        self._key_file = location.seed
        self.name = location.name
        self.address = location.address
        self._start = location.start
        self._complaint = ""
        self._asking = anyio.CancelScope()
        self.lost = anyio.Event()

    async def connect(self) -> None:
        seed = self._seed()
        nodes = shuffled(servers(self.address))
        try:
            with anyio.fail_after(CONNECT_S):
                self._client = await first_of(nodes, partial(self._opened, seed), _close)
        except (OSError, ValueError, NatsError) as exc:
            raise self._unconnected(exc) from exc
        self._clustered = in_cluster(nodes, self._client)
        self._complaint = ""
        if not self._client.is_connected:
            self.lost.set()

    async def _opened(self, seed: str, server: str) -> HardenedClient:
        """Return a client that is connected to one server."""
        client = HardenedClient(lambda _exc: self.lost.set())

        async def on_closed() -> None:
            if client is self._client:
                self.lost.set()

        opened = False
        try:
            await client.connect(
                [server],
                name=f"operator {self.name}",
                nkeys_seed_str=seed,
                inbox_prefix=f"_INBOX.op.{self.name}",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                error_cb=self._on_error,
                closed_cb=on_closed,
            )
            if not client.is_connected:
                raise ConnectionError("it hung up")
            opened = True
        finally:
            if not opened:
                await _close(client)
        return client

    async def close(self) -> None:
        """Close the connection, if it was ever opened."""
        await _close(self._client)

    @property
    def failed(self) -> BaseException | None:
        """Return the exception that ended the subscription of `listen`, if any."""
        return self._client.failed

    async def ask(self, call: Call[Answer], *, patience_s: float = ANSWER_S) -> Answer:
        """Return the answer to a question or a command."""
        subject = self._subjects.of(call.verb, self.name)
        data = await self._sent(subject, msgspec.json.encode(call), patience_s)
        try:
            return msgspec.json.decode(data, type=answer_of(type(call)))
        except msgspec.DecodeError as exc:
            version = (await self._running()).version
            raise _unreadable(self.address, exc, version) from None

    async def listen(self, heard: Callable[[bytes], None]) -> None:
        """Call `heard` with every SafetyEvent from now on. If `heard` raises, `lost` is set."""
        subject = self._subjects.of("event", ">")
        await self._client.listen(subject, lambda _subject, _reply, payload: heard(payload))
        await self._client.flush()

    async def _sent(self, subject: str, payload: bytes, patience_s: float) -> bytes:
        """Send a message and return its answer. Raise `Failure` if the bus refuses it."""
        data: bytes | None = None
        with anyio.CancelScope() as self._asking:
            data = await self._unlimited(subject, payload, patience_s)
        if data is None:
            raise Failure(f"{self.name} is not allowed to do that: {self._complaint}", "refused")
        return data

    async def _unlimited(self, subject: str, payload: bytes, patience_s: float) -> bytes:
        """Return the answer. Retry while the daemon refuses the message because of a rate limit."""
        waited = 0.0
        while True:
            data = await self._after_takeover(subject, payload, patience_s)
            refusal = _refusal(data, self.address)
            if refusal is None:
                return data
            wait = AGAIN_S if refusal.retry_after_s is UNSET else refusal.retry_after_s
            waited += wait
            if refusal.code != "rate_limit" or waited > RETRY_S:
                raise Failure(refusal.error, refusal.code)
            self._announce(f"{too_many(self.name)} Retrying in {wait:.1f} s …")
            await anyio.sleep(wait)

    async def _after_takeover(self, subject: str, payload: bytes, patience_s: float) -> bytes:
        """Return the answer. On a cluster, wait for a daemon to take over if none listens."""
        began = uptime()
        pauses = growing(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        waits = f"Waiting up to {TAKEOVER_S:g} s for a daemon to take over …"
        while True:
            try:
                return await self._answer(subject, payload, patience_s)
            except _NobodyListens:
                if not self._clustered or uptime() - began > TAKEOVER_S:
                    raise
            if waits:
                self._announce(f"No daemon listens at {self.address}. {waits}")
                waits = ""
            await anyio.sleep(next(pauses))

    async def _answer(self, subject: str, payload: bytes, patience_s: float) -> bytes:
        try:
            if patience_s < LONG_S:
                message = await self._client.request(subject, payload, timeout=patience_s)
                return message.data
            return await self._answer_of_one_run(subject, payload, patience_s)
        except NoRespondersError:
            raise _NobodyListens(
                f"no safetyd daemon listens at {self.address}. {self._start}"
            ) from None
        except (TimeoutError, NatsError, OSError) as exc:
            silence = f"safetyd at {self.address} did not answer within {patience_s:g} s"
            raise NotReachable(f"{silence} ({str(exc) or type(exc).__name__})") from None

    async def _answer_of_one_run(self, subject: str, payload: bytes, patience_s: float) -> bytes:
        """Return the answer to a long command. Fail early if the daemon stops before it answers."""
        pid = (await self._running()).pid
        answer: bytes | None = None
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_with, pid, tasks.cancel_scope)
            try:
                message = await self._client.request(subject, payload, timeout=patience_s)
                answer = message.data
            except (TimeoutError, NatsError, OSError) as exc:
                failed = exc
            tasks.cancel_scope.cancel()
        if failed is not None:
            raise failed
        if answer is None:
            ended = f"safetyd at {self.address} ended before it answered"
            raise NotReachable(f"{ended}. When it runs again, check `safetyd status`")
        return answer

    async def _end_with(self, pid: int, scope: anyio.CancelScope) -> None:
        """Cancel `scope` once the daemon with this pid has stopped."""
        still = True
        while still:
            await anyio.sleep(LOOK_S)
            with contextlib.suppress(TimeoutError):
                still = (await self._running()).pid == pid
        scope.cancel()

    async def _running(self) -> _Running:
        """Return the daemon's pid and version."""
        subject = self._subjects.of("query", self.name)
        asked = msgspec.json.encode(StatusQuestion())
        try:
            message = await self._client.request(subject, asked, timeout=ANSWER_S)
        except (NatsError, OSError) as exc:
            if isinstance(exc, TimeoutError):
                raise
            return _Running()
        return msgspec.json.decode(message.data, type=_Running)

    def _seed(self) -> str:
        try:
            return seed_in(self._key_file)
        except (OSError, KeyUnusable) as exc:
            why = exc.strerror if isinstance(exc, OSError) else exc
            raise Failure(
                f"cannot use the key {self._key_file} of operator {self.name}: {why}. "
                "Choose another with --key-file",
                "no_key",
            ) from None

    def _unconnected(self, exc: Exception) -> Failure:
        # nats-py raises only "no servers"; it passes the cause to the error callback.
        why = self._complaint or str(exc) or type(exc).__name__
        if "authorization violation" in why.lower():
            refusal = f"the bus at {self.address} rejects the key {self._key_file} of {self.name}"
            return Failure(f"{refusal}. Check `safetyd operator list`", "refused")
        return NotReachable(f"cannot connect to safetyd at {self.address}: {why}. {self._start}")

    async def _on_error(self, exc: Exception) -> None:
        if "authorization violation" in self._complaint.lower():
            return  # later errors only say that the connection is closed
        self._complaint = str(exc)
        if "permissions violation" in self._complaint.lower():
            self._asking.cancel()


async def _close(client: HardenedClient) -> None:
    if client.is_connected or client.is_connecting:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await client.close()


@asynccontextmanager
async def connected(
    location: Location, announce: Callable[[str], None] = _echo
) -> AsyncIterator[OperatorConnection]:
    operator = await _through(location, announce)
    try:
        yield operator
    finally:
        await operator.close()


def ask(location: Location, call: Call[Answer], *, patience_s: float = ANSWER_S) -> Answer:
    """Send one question or command and return the answer."""
    return with_operator(location, lambda operator: operator.ask(call, patience_s=patience_s))


def with_operator(
    location: Location, work: Callable[[OperatorConnection], Coroutine[Any, Any, Read]]
) -> Read:
    """Connect, call `work` with the connection, and return its result."""

    async def done() -> Read:
        async with connected(location) as operator:
            return await work(operator)

    return anyio.run(done)


def _refusal(data: bytes, address: str) -> Refusal | None:
    """Return the refusal if the answer is one, else None."""
    if _decoded(data, _Outcome, address).ok:
        return None
    return _decoded(data, Refusal, address)


def _decoded(data: bytes, kind: type[Read], address: str) -> Read:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise _unreadable(address, exc) from None


def _unreadable(address: str, exc: msgspec.DecodeError, version: str = "") -> Failure:
    """Return the error for an answer that cannot be decoded.

    `version` is the daemon's version, if known.
    """
    if version in {"", __version__}:
        return Failure(f"cannot decode the answer from {address}: {exc}")
    return Failure(
        f"this command is safetyd {__version__}, but the daemon at {address} is safetyd {version}: "
        f"cannot decode its answer ({exc}). After an upgrade, restart the daemon. Otherwise use "
        f"safetyd {version} for this command.",
        "other_version",
    )


async def _through(location: Location, announce: Callable[[str], None]) -> OperatorConnection:
    """Connect. After a connection reset, retry once to get the server's reason."""
    operator = OperatorConnection(location, announce)
    try:
        await operator.connect()
    except NotReachable as exc:
        if "reset by peer" not in str(exc).lower():
            raise
        operator = OperatorConnection(location, announce)
        await operator.connect()
    return operator
