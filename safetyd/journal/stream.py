"""The journal in JetStream: one stream, one message per batch of lines.

Every append names the sequence that it must follow, so only one of two daemons can write. An append
without an answer is repeated until there is one. The error "wrong last sequence" alone does not
prove that there is another daemon: repeating a successful append also causes it.
"""

import asyncio
import enum
from collections.abc import AsyncIterator
from typing import Final

import anyio
import msgspec
import nats.errors
import nats.js.api as js_api
import nats.js.errors
from nats.js import JetStreamContext

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM, Subjects
from safetyd.clock import uptime
from safetyd.journal.journals import JournalSilent
from safetyd.journal.replication import open_stream

ANSWER_S: Final = 1.0
AGAIN_S: Final = 0.1
WATCH_S: Final = 0.5
READ_AHEAD: Final = 256

_WRONG_LAST: Final = (10070, 10071)  # message id, sequence
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
    """A batch that was sent. Its stream sequence is the result of `written`."""

    def __init__(
        self, journal: "JetStreamJournal", number: int, message_id: str, batch: bytes
    ) -> None:
        self._journal = journal
        self.number = number
        self.message_id = message_id
        self.batch = batch
        self.written: asyncio.Future[int] = asyncio.get_running_loop().create_future()

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
        self._seen = 0.0
        self.last = 0  # the stream sequence of the newest written batch
        self.problem = ""  # why sent batches are not written yet

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
        self.last = info.state.last_seq if info.state.messages else 0

    def send(self, batch: bytes) -> SentAppend:
        self._sent += 1
        append = SentAppend(self, self._sent, f"{self._boot_id}-{self._sent}", batch)
        self._under_way[append.number] = append
        self._client.send(self._command(append))
        return append

    async def settle(self, append: SentAppend) -> int:
        """Wait until the batch is safe on disk, and return its stream sequence."""
        with anyio.move_on_after(ANSWER_S):
            return await asyncio.shield(append.written)
        async with self._settling:
            while not append.written.done():
                if not await self._find_out():
                    self.problem = self.problem or "the journal's server does not answer"
                await self._send_again()
        return append.written.result()

    async def append(self, batch: bytes) -> int:
        """Send a batch and wait until it is written."""
        return await self.settle(self.send(batch))

    @property
    def unseen_s(self) -> float:
        """Return how many seconds ago this daemon last confirmed that it owns the journal."""
        return uptime() - self._seen

    async def watch(self) -> None:
        """Check regularly that this daemon owns the journal. Raise `Displaced` if it does not."""
        while True:
            await self._find_out()
            await anyio.sleep(WATCH_S)

    async def replay(self, after: int) -> AsyncIterator[tuple[int, bytes]]:
        if self.last <= after:
            return
        config = js_api.ConsumerConfig(
            deliver_policy=js_api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
            ack_policy=js_api.AckPolicy.NONE,
            inactive_threshold=60,
        )
        subscription = await self._js.pull_subscribe(
            self._subjects.journal, stream=STREAM, config=config
        )
        sequence = after
        while sequence < self.last:
            for message in await subscription.fetch(READ_AHEAD, timeout=5):
                sequence = message.metadata.sequence.stream
                yield sequence, message.data
        await subscription.unsubscribe()

    async def first(self) -> int:
        return (await self._js.stream_info(STREAM)).state.first_seq

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
            return  # no responders: an empty body
        if ack.error is None:
            self._written(number, ack.seq)
        elif ack.error.err_code not in _WRONG_LAST:
            self.problem = ack.error.description

    def _written(self, number: int, sequence: int) -> None:
        """Mark a batch and all earlier ones as written."""
        before = [n for n in self._under_way if n <= number]
        for place, earlier in enumerate(reversed(before)):
            append = self._under_way.pop(earlier)
            if not append.written.done():
                append.written.set_result(sequence - place)
        self.last = sequence
        self.problem = ""

    async def _find_out(self) -> bool:
        """Ask the stream which of the sent batches it has. Return False if it does not answer."""
        asked, known = uptime(), self.last
        found = await self._end()
        if found is None:
            return False
        sequence, message_id = found
        ours = [n for n, append in self._under_way.items() if append.message_id == message_id]
        if ours:
            self._written(ours[0], sequence)
        elif not known <= sequence <= self.last:  # more may have been written in the meantime
            raise Displaced(f"another daemon wrote batch {sequence} of the journal")
        self._seen = asked
        return True

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

    async def _send_again(self) -> None:
        under_way = tuple(self._under_way.values())
        if not under_way:
            return
        if self._client.send(b"".join(map(self._command, under_way))):
            with anyio.move_on_after(ANSWER_S):
                await asyncio.shield(under_way[-1].written)
        if not under_way[-1].written.done():
            await anyio.sleep(AGAIN_S)

    def _command(self, append: SentAppend) -> bytes:
        before = [earlier for earlier in self._under_way.values() if earlier.number < append.number]
        fence = f"Nats-Expected-Last-Subject-Sequence: {self.last + len(before)}\r\n"
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
