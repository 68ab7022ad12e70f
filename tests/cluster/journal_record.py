"""Everything that was ever in the journal, read by sequence while daemons write and trim it."""

import json
from contextlib import suppress
from itertools import cycle
from threading import Condition, Event, Thread
from typing import Final, NamedTuple

from safetyd.bus.subjects import STREAM
from safetyd.core.engine.journal_lines import decode_batch
from safetyd.core.events.event import Event as JournalEvent
from tests.bus.peer import Message, Peer
from tests.bus.peer import Refused as PeerRefused
from tests.nats_cluster import NAMES, PATIENCE_S, NatsCluster

AT_ONCE: Final = 256
PAUSE_S: Final = 0.05
ANSWER_S: Final = 2.0
INBOX: Final = "_INBOX.daemon.record"


class WrittenBatch(NamedTuple):
    """One message of the stream. `boot` identifies the daemon's turn that has appended it."""

    sequence: int
    boot: str
    lines: bytes

    @property
    def events(self) -> list[JournalEvent]:
        return decode_batch(self.lines) if self.lines else []


class JournalRecord:
    """Reads the stream in a thread, through the nodes' own addresses, which no cut affects."""

    def __init__(self, cluster: NatsCluster) -> None:
        self._cluster = cluster
        self._news = Condition()
        self._batches: list[WrittenBatch] = []
        self._over = Event()
        self._asked = 0
        self._error = ""
        self._thread = Thread(target=self._live, name="journal record", daemon=True)
        self._thread.start()

    @property
    def batches(self) -> list[WrittenBatch]:
        with self._news:
            return self._batches.copy()

    @property
    def events(self) -> list[JournalEvent]:
        return [event for batch in self.batches for event in batch.events]

    def wait_for(self, sequence: int) -> None:
        """Wait until a batch is read."""
        with self._news:
            read = self._news.wait_for(
                lambda: self._error or len(self._batches) >= sequence, PATIENCE_S
            )
            assert not self._error, self._error
            assert read, f"read {len(self._batches)} batches of {sequence}"

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _live(self) -> None:
        for name in cycle(NAMES):
            if self._over.wait(PAUSE_S):
                return
            node = self._cluster.nodes[name]
            with suppress(AssertionError, PeerRefused, OSError):
                if node.running and not node.frozen:
                    self._read(node.url)

    def _read(self, url: str) -> None:
        with Peer(url, self._cluster.keys.daemon, INBOX, greeting_s=ANSWER_S) as peer:
            while not self._over.is_set():
                if not self._next(peer):
                    self._over.wait(PAUSE_S)

    def _next(self, peer: Peer) -> int:
        """Read the next batches that one of the replicas has. Return how many they were."""
        after, answers = len(self._batches), peer.subscribe(f"{INBOX}.{self._asked}")
        self._asked += 1
        wanted = json.dumps({"seq": after + 1, "batch": AT_ONCE}).encode()
        peer.publish(f"$JS.API.DIRECT.GET.{STREAM}", wanted, f"{INBOX}.{self._asked - 1}")
        found: list[WrittenBatch] = []
        while (batch := _batch(peer.heard(answers, ANSWER_S))) is not None:
            found.append(batch)
        peer.send(b"UNSUB %d\r\n" % answers)
        expected = [after + number + 1 for number in range(len(found))]
        with self._news:
            if [batch.sequence for batch in found] != expected:
                self._error = f"after batch {after} came batch {found[0].sequence}"
            self._batches += found
            self._news.notify_all()
        return len(found)


def _batch(message: Message) -> WrittenBatch | None:
    """Return the batch in an answer, or None in the last answer, which has none."""
    lines = message.headers.decode().split("\r\n")[1:]
    headers = dict(line.split(": ", 1) for line in lines if line)
    if "Nats-Sequence" not in headers:
        return None
    boot = headers["Nats-Msg-Id"].rpartition("-")[0]
    return WrittenBatch(int(headers["Nats-Sequence"]), boot, message.payload)
