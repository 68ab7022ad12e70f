"""A client that appends to a stream with three replicas: what a fault costs NATS itself."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from threading import Event, Thread
from typing import Final, Self

import nats.errors

from tests.bus.peer import Peer, Unanswered
from tests.bus.peer import Refused as PeerRefused
from tests.journeys.agents import until
from tests.nats_cluster import NAMES, NatsCluster

STREAM: Final = "BARE"
EVERY_S: Final = 0.05
ANSWER_S: Final = 0.5


class BareAppends:
    """Appends through every node, so that no time is lost with looking for another one."""

    def __init__(self, cluster: NatsCluster, leader: str) -> None:
        self._cluster = cluster
        self._written: list[float] = []
        self._over = Event()
        self._threads = [
            Thread(target=self._live, args=(cluster.default.url_of(node),), daemon=True)
            for node in NAMES
        ]
        self._create(leader)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        while not self._written:
            time.sleep(EVERY_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def silence_after(self, begun: float) -> float:
        """Return the longest time without a written message. Wait until one is written again."""
        now = time.monotonic()
        while self._written[-1] < now:
            time.sleep(EVERY_S)
        return longest_gap(self._written, begun)

    def _create(self, leader: str) -> None:
        config = {"name": STREAM, "subjects": [STREAM], "num_replicas": 3, "storage": "file"}
        config |= {"max_bytes": 1 << 20, "discard": "old"}
        payload = json.dumps(config).encode()
        until(lambda: self._answered(f"STREAM.CREATE.{STREAM}", leader, payload))
        self._cluster.wait_until_current(STREAM)
        if self._cluster.leader_of(STREAM) != leader:
            wanted = json.dumps({"placement": {"preferred": leader}}).encode()
            until(lambda: self._answered(f"STREAM.LEADER.STEPDOWN.{STREAM}", leader, wanted))
            self._cluster.wait_until_current(STREAM)

    def _answered(self, what: str, node: str, payload: bytes) -> bool:
        """Return False if the nodes have no leader at the moment."""
        with suppress(AssertionError, OSError, nats.errors.Error):
            return bool(self._cluster.ask_jetstream(what, node, payload))
        return False

    def _live(self, url: str) -> None:
        key, inbox = self._cluster.keys.daemon, "_INBOX.daemon.bare"
        while not self._over.wait(EVERY_S):
            with (
                suppress(AssertionError, PeerRefused, OSError),
                Peer(url, key, inbox, greeting_s=ANSWER_S) as peer,
            ):
                self._append(peer)

    def _append(self, peer: Peer) -> None:
        while not self._over.wait(EVERY_S):
            try:
                answer = peer.ask(STREAM, b"", ANSWER_S).fields
            except Unanswered:
                continue  # there is no leader
            if "error" not in answer:
                self._written.append(time.monotonic())


def longest_gap(times: Sequence[float], begun: float) -> float:
    """Return the longest time between two of these times, of which one is after `begun`."""
    known = sorted(times)
    seen = [max((t for t in known if t <= begun), default=begun)]
    seen += [t for t in known if t > begun] or [time.monotonic()]
    return max(after - before for before, after in pairwise(seen))
