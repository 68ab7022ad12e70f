"""The bucket on an external bus in which daemons share keys.

Entries are read from the leader of the stream, never from a replica that may be behind. An entry
is written only if it was not changed since it was read. A revocation is an entry, too, so nothing
is ever deleted.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import nats.js.api
import nats.js.errors
from nats.js import JetStreamContext

from safetyd.bus.key_entry import DaemonKey, KeyEntry, Rejected, read_entry
from safetyd.bus.key_files import LOCALS, EntryName, entry_name
from safetyd.bus.nats_client import HardenedClient, pub
from safetyd.bus.subjects import Subjects

BUCKET: Final = "SAFETY_KEYS"
MAX_BYTES: Final = 32 * 1024**2
PATIENCE_S: Final = 2.0
_STREAM: Final = f"KV_{BUCKET}"
_PREFIX: Final = f"$KV.{BUCKET}."
# The first daemon writes it after all of its keys.
_COMPLETE: Final = "complete"
# Another daemon wrote the entry first: wrong sequence, and the same while an append is in flight.
_CHANGED: Final = (10071, 10164)

log = logging.getLogger("safetyd.keys")


class Remote(NamedTuple):
    """An entry and its revision. `entry` is None if no trusted daemon signed it."""

    revision: int
    entry: KeyEntry | None


class KeyBucket:
    """The entries that were read so far, by name."""

    def __init__(
        self,
        client: HardenedClient,
        subjects: Subjects,
        daemons: frozenset[str],
        replicas: int = 1,
    ) -> None:
        self._client = client
        self._subjects = subjects
        self._daemons = daemons
        self._replicas = replicas
        self._js: JetStreamContext = client.jetstream(timeout=PATIENCE_S)
        self._read = 0  # the revision up to which entries are known
        self._complete = 0  # the revision that marks the bucket as complete
        self.entries: dict[EntryName, Remote] = {}

    @property
    def complete(self) -> bool:
        """Return False until the first daemon has written all of its keys."""
        return self._complete > 0

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` when another daemon says that it has written an entry."""
        await self._client.handle(self._subjects.keys, lambda *_: changed())

    async def create(self) -> None:
        """Create the bucket if it does not exist."""
        try:
            await self._js.stream_info(_STREAM)
        except nats.js.errors.NotFoundError:
            await self._js.create_key_value(
                nats.js.api.KeyValueConfig(
                    bucket=BUCKET, max_bytes=MAX_BYTES, replicas=self._replicas, direct=False
                )
            )

    async def refresh(self) -> bool:
        """Read new entries. Return True if there are any, or if entries are gone."""
        last = (await self._js.stream_info(_STREAM)).state.last_seq
        if last == self._read:
            return False
        if last < self._read:  # someone deleted or restored the bucket
            log.warning("the key bucket is older than before; safetyd restores its entries")
            self._read, self._complete = 0, 0
            self.entries.clear()
        while self._read < last:
            try:
                found = await self._js.get_msg(
                    _STREAM, seq=self._read + 1, subject=f"{_PREFIX}>", next=True
                )
            except nats.js.errors.NotFoundError:
                self._read = last
                break
            self._take(str(found.subject), found.seq or 0, found.data or b"")
            self._read = found.seq or last
        return True

    async def put(self, name: EntryName, entry: KeyEntry, key: DaemonKey) -> bool:
        """Write an entry. Return False if another daemon changed it since it was read."""
        before = self.entries.get(name)
        revision = await self._put(str(name), entry, key, before.revision if before else 0)
        if revision:
            self.entries[name] = Remote(revision, entry)
        return revision > 0

    async def mark_complete(self, key: DaemonKey) -> None:
        """Record that all keys of the first daemon are in the bucket."""
        entry = KeyEntry(version=1, by=key.public)
        self._complete = await self._put(_COMPLETE, entry, key, self._complete)

    def announce(self) -> None:
        """Make the other daemons read the bucket now."""
        self._client.send(pub(self._subjects.keys.encode(), b""))

    async def _put(self, name: str, entry: KeyEntry, key: DaemonKey, last: int) -> int:
        """Return the revision of the entry, or 0 if it was changed before."""
        expected = {str(nats.js.api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value): str(last)}
        try:
            ack = await self._js.publish(
                f"{_PREFIX}{name}", key.signed(name, entry), headers=expected
            )
        except nats.js.errors.APIError as exc:
            if exc.err_code not in _CHANGED:
                raise
            return 0
        return ack.seq

    def _take(self, subject: str, revision: int, data: bytes) -> None:
        text = subject.removeprefix(_PREFIX)
        name = entry_name(text)
        # Only a daemon itself can write the key of its local operator.
        of_local = name is not None and name.group == LOCALS
        writers = self._daemons & {text.removeprefix(f"{LOCALS}.")} if of_local else self._daemons
        try:
            entry = read_entry(text, data, writers)
        except Rejected as exc:
            log.warning("ignored the key entry %r: %s", text, exc)
            entry = None
        if text == _COMPLETE and entry is not None:
            self._complete = revision
        elif name is not None:
            self.entries[name] = Remote(revision, entry)
