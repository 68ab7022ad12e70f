"""One agent with a key among many without, and how long it waits for answers."""

import itertools
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final, Self

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon

NAMES: Final = 900
PER_SECOND: Final = 50


class Proposer:
    """An agent with a key that proposes at a modest rate."""

    def __init__(self, url: str, key: Path) -> None:
        self._peer = Peer(url, key, "_INBOX.agent.code")
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def propose(self, for_s: float) -> list[float]:
        """Return how long each answer took, from when it was due to be asked for.

        One that could not be sent because the one before it was not answered has waited, too.
        """
        begun, waits = monotonic(), []
        for number in range(int(for_s * PER_SECOND)):
            due = begun + number / PER_SECOND
            Event().wait(max(0.0, due - monotonic()))
            self._ask()
            waits.append(monotonic() - due)
        return waits

    def _ask(self) -> None:
        payload = b'{"type":"read_file","text":"notes %d"}' % next(self._numbers)
        answer = self._peer.ask("safety.v1.propose.code", payload)
        assert answer.fields["decision"] == "allow", answer.fields["reason"]


def introduce(daemon: RunningDaemon) -> None:
    """Let many agents without a key be known."""
    with Peer(daemon.endpoint.bus) as peer:
        for number in range(NAMES):
            payload = b'{"type":"read_file","text":"notes","cost_usd":0.001}'
            peer.ask(f"safety.v1.propose.name-{number}", payload)
