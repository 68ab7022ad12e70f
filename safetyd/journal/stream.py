"""The journal in JetStream: one stream, one message per batch of lines.

Every append names the sequence that it must follow, so only one of two daemons can write. An append
without an answer is repeated until there is one. The error "wrong last sequence" alone does not
prove that there is another daemon: repeating a successful append also causes it. Only a newer batch
of another daemon proves it. An older one does not: with several replicas, it may come from a server
that has lost the leadership of the stream. With one replica, or if it is the last one for longer
than that can take, written batches are lost (docs/decisions/0051).

With one replica, several batches are sent without waiting. With more, each waits for the one before
it (docs/decisions/0036).

On an external bus, an empty batch is appended whenever nothing else was for half a second. Other
daemons take over when there is no new batch for two seconds.
"""

import asyncio
import enum
import logging
import math
from collections.abc import AsyncGenerator
from typing import Final

import anyio
import msgspec
import nats.errors
import nats.js.api as js_api
import nats.js.errors
from nats.js import JetStreamContext

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM, Subjects
from safetyd.clock import boottime
from safetyd.journal.journal_reader import JournalReader
from safetyd.journal.journals import LOST, JournalSilent
from safetyd.journal.replication import open_stream

ANSWER_S: Final = 1.0
AGAIN_S: Final = 0.1
BEAT_S: Final = 0.5  # how long nothing is appended before an empty batch is
DEPOSED_S: Final = 25.0  # how long a server may not notice that it has lost the leadership
READ_S: Final = 20.0  # how long batches that are in the journal may take to arrive
HEARTBEAT: Final = b""  # a batch without lines

_WRONG_ON_REPLICAS: Final = 10164
_WRONG_LAST: Final = (10070, 10071, _WRONG_ON_REPLICAS)  # message id, sequence, on several replicas
_CHECKED: Final = (
    "subjects",
    "storage",
    "discard",
    "retention",
    "max_age",
    "max_msgs_per_subject",
    "persist_mode",
    "deny_delete",
)

log = logging.getLogger("safetyd.journal")


class Displaced(Exception):
    """Another daemon writes this journal. This daemon must send no more replies."""


class JournalUnusable(Exception):
    """The stream is unsuitable for a journal. The text says why."""


class ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class Ack(msgspec.Struct):
    seq: int = 0
    error: ApiError | None = None


_decode_ack = msgspec.json.Decoder(Ack).decode


class SentAppend:
    """A batch that was sent. An answer of the server may also say that it is not written."""

    def __init__(
        self, journal: "JetStreamJournal", number: int, message_id: str, batch: bytes
    ) -> None:
        self._journal = journal
        self.number = number
        self.message_id = message_id
        self.batch = batch
        self.sent_t = boottime()
        self.sequence = 0  # 0 until the batch is written
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self) -> None:
        if not self.answered.done():
            self.answered.set_result(None)

    def ask_again(self) -> None:
        if self.answered.done():
            self.answered = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Wait for an answer, but at most a second."""
        with anyio.move_on_after(ANSWER_S):
            await asyncio.shield(self.answered)

    async def settled(self) -> int:
        return await self._journal.settle(self)


class JetStreamJournal:
    """Append and replay over one connection."""

    def __init__(self, client: HardenedClient, subjects: Subjects, boot_id: str) -> None:
        self._client = client
        self._js: JetStreamContext = client.jetstream(timeout=5)
        # With a short timeout, so that a dead server does not delay the next attempt.
        self._asking: JetStreamContext = client.jetstream(timeout=ANSWER_S)
        self._subjects = subjects
        self._boot_id = boot_id
        self._inbox = f"_INBOX.daemon.{boot_id}"
        self._sent = 0
        self._under_way: dict[int, SentAppend] = {}  # by number, in order
        self._settling = anyio.Lock()
        self._pipelined = True
        self._misplaced = False  # the server says that a batch does not follow the last one
        self._owned_t = -math.inf  # when the newest written batch was sent
        self.last = 0  # the stream sequence of the newest written batch
        self._short_t = math.inf  # since when the stream has ended before the newest written batch
        self.problem = ""  # why sent batches are not written yet
        self.lost = ""  # how it is known that written batches are missing

    async def open(self, max_bytes: int, replicas: int = 1) -> None:
        """Open or create the stream, and find its last sequence."""
        await self._client.handle(f"{self._inbox}.*", self._answered)
        wanted = js_api.StreamConfig(
            name=STREAM,
            subjects=[self._subjects.of("journal", "*")],
            storage=js_api.StorageType.FILE,
            discard=js_api.DiscardPolicy.NEW,
            max_bytes=max_bytes,
            retention=js_api.RetentionPolicy.LIMITS,
            max_age=0,
            max_msgs_per_subject=-1,
            deny_delete=True,
            num_replicas=replicas,
            allow_direct=True,
        )
        info = await open_stream(self._client, self._js, wanted)
        _check(info.config, wanted)
        self._pipelined = max(info.config.num_replicas or 1, replicas) == 1
        self.last = info.state.last_seq

    def send(self, batch: bytes) -> SentAppend:
        self._sent += 1
        append = SentAppend(self, self._sent, f"{self._boot_id}-{self._sent}", batch)
        self._under_way[append.number] = append
        if self._pipelined or len(self._under_way) == 1:
            self._client.send(self._command(append))
        return append

    async def settle(self, append: SentAppend) -> int:
        """Wait until the batch is safe on disk, and return its stream sequence."""
        await append.wait()
        if not append.sequence:
            async with self._settling:
                await self._repeat(append)
        return append.sequence

    async def append(self, batch: bytes) -> int:
        """Send a batch and wait until it is written."""
        return await self.settle(self.send(batch))

    def follow(self, sequence: int) -> None:
        """Note that another daemon has written a batch."""
        self.last = sequence

    def withdraw(self) -> None:
        """Forget the batches that are not written, because another daemon's are in their place."""
        self._under_way.clear()
        self._misplaced = False
        self.problem = ""

    @property
    def unowned_s(self) -> float:
        """Return how many seconds ago the newest written batch of this daemon was sent."""
        return boottime() - self._owned_t

    @property
    def waiting_s(self) -> float:
        """Return how many seconds ago the oldest batch was sent that is not written yet."""
        oldest = next(iter(self._under_way.values()), None)
        return 0.0 if oldest is None else boottime() - oldest.sent_t

    async def beat(self) -> None:
        """Append an empty batch whenever nothing else is appended. Raise `Displaced` if refused."""
        while True:
            await anyio.sleep(BEAT_S / 4)
            if not self._under_way and self.unowned_s >= BEAT_S:
                await self.append(HEARTBEAT)

    def reader(self) -> JournalReader:
        """Return a reader for what is appended from now on."""
        return JournalReader(self._client)

    async def replay(self, after: int) -> AsyncGenerator[tuple[int, bytes]]:
        end, reader = self.last, self.reader()
        try:
            while after < end:
                found = await reader.next(after, READ_S)
                if found is None:
                    raise TimeoutError(f"batch {after + 1} of the journal does not arrive")
                after = found[0]
                yield found
        finally:
            await reader.close()

    async def first(self) -> int:
        with anyio.fail_after(READ_S):
            while True:
                try:
                    return (await self._asking.stream_info(STREAM)).state.first_seq
                except (nats.errors.Error, OSError) as exc:
                    log.debug("cannot ask for the first batch now: %s", exc)
                    await anyio.sleep(AGAIN_S)

    async def used(self) -> float:
        try:
            info = await self._js.stream_info(STREAM)
        except (nats.errors.Error, TimeoutError) as exc:
            raise JournalSilent(str(exc)) from exc
        return info.state.bytes / info.config.max_bytes if info.config.max_bytes else 0.0

    async def trim(self, below: int) -> None:
        if not 0 < below <= self.last:
            return
        try:
            await self._js.purge_stream(STREAM, seq=below)
        except (nats.errors.Error, TimeoutError) as exc:
            raise JournalSilent(str(exc)) from exc

    def _answered(self, subject: bytes, _reply: bytes, payload: bytes) -> None:
        number = int(subject[subject.rfind(b".") + 1 :])
        if number not in self._under_way:
            return
        try:
            ack = _decode_ack(payload)
        except msgspec.DecodeError:
            ack = Ack(error=ApiError())  # no responders: an empty body
        if ack.error is None:
            self._written(number, ack.seq)
            return
        if ack.error.err_code == _WRONG_ON_REPLICAS:
            self._pipelined = False  # another daemon may have added replicas
        self._under_way[number].answer()
        if ack.error.err_code in _WRONG_LAST:
            self._misplaced = True
        else:
            self.problem = ack.error.description

    def _written(self, number: int, sequence: int) -> None:
        """Mark a batch and all earlier ones as written."""
        before = [n for n in self._under_way if n <= number]
        for place, earlier in enumerate(reversed(before)):
            append = self._under_way.pop(earlier)
            self._owned_t = max(self._owned_t, append.sent_t)
            append.sequence = sequence - place
            append.answer()
        self.last = sequence
        self.problem = ""
        self._measure(sequence)
        if self._under_way and not self._pipelined:
            self._client.send(self._command(next(iter(self._under_way.values()))))

    async def _find_out(self) -> bool:
        """Ask the stream which of the sent batches it has. Return False if it does not answer.

        Raise `Displaced` if it has others.
        """
        found = await self._end()
        if found is None:
            return False
        sequence, message_id = found
        ours = [n for n, append in self._under_way.items() if append.message_id == message_id]
        if ours:
            self._written(ours[0], sequence)
        elif sequence > self.last:  # more may have been written in the meantime
            raise Displaced(f"another daemon wrote batch {sequence} of the journal")
        else:
            self._measure(sequence)
        return True

    def _measure(self, sequence: int) -> None:
        """Note whether the stream ends before the newest written batch, and since when."""
        now = boottime()
        self._short_t = min(self._short_t, now) if sequence < self.last else math.inf
        if now - self._short_t < (0.0 if self._pipelined else DEPOSED_S):
            self.lost = ""
        elif not self.lost:
            ends = f"the journal ends with batch {sequence}, but batch {self.last} was written"
            self.lost = f"{ends}: {LOST}"
            log.error("%s", self.lost)

    async def _end(self) -> tuple[int, str] | None:
        """Return the sequence and id of the newest batch. The sequence is 0 if there is none.

        Return None if the server does not answer.
        """
        try:
            last = await self._asking.get_last_msg(STREAM, self._subjects.journal)
        except nats.js.errors.NotFoundError:
            return 0, ""
        except (nats.errors.Error, TimeoutError, OSError):
            return None
        return last.seq or 0, (last.headers or {}).get("Nats-Msg-Id", "")

    async def _repeat(self, append: SentAppend) -> None:
        """Send a batch again until it is written."""
        while not append.sequence:
            # An error such as "no leader" says that asking the stream would be in vain.
            unclear = self._misplaced or not append.answered.done()
            if unclear and not await self._find_out():
                self.problem = self.problem or "the journal's server does not answer"
            await self._send_again()

    async def _send_again(self) -> None:
        under_way = tuple(self._under_way.values())
        if not self._pipelined:
            under_way = under_way[:1]
        if not under_way:
            return
        self._misplaced = False
        for append in under_way:
            append.ask_again()
        if self._client.send(b"".join(map(self._command, under_way))):
            await under_way[-1].wait()
        if not under_way[-1].sequence:
            await anyio.sleep(AGAIN_S)

    def _command(self, append: SentAppend) -> bytes:
        before = [earlier for earlier in self._under_way.values() if earlier.number < append.number]
        fence = f"Nats-Expected-Last-Sequence: {self.last + len(before)}\r\n"
        if before:
            # If the previous batch was rejected, another daemon's batch may be in its place.
            fence += f"Nats-Expected-Last-Msg-Id: {before[-1].message_id}\r\n"
        headers = f"NATS/1.0\r\nNats-Msg-Id: {append.message_id}\r\n{fence}\r\n".encode()
        line = (
            f"HPUB {self._subjects.journal} {self._inbox}.{append.number} "
            f"{len(headers)} {len(headers) + len(append.batch)}\r\n"
        ).encode()
        return b"".join((line, headers, append.batch, b"\r\n"))


def _check(found: js_api.StreamConfig, wanted: js_api.StreamConfig) -> None:
    """Reject a stream that could lose acknowledged batches."""
    for name in _CHECKED:
        has, must = (_plain(getattr(config, name)) for config in (found, wanted))
        if has != must:
            raise JournalUnusable(f"stream {STREAM} has {name} = {has}; it must be {must}")


def _plain(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else value
