"""One agent with a key among many anonymous ones, and how long it waits for answers."""

import itertools
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final, Self

from tests.bus.peer import Message, Peer
from tests.conftest import RunningDaemon

NAMES: Final = 900
PER_SECOND: Final = 50
AGAIN_S: Final = 2.0  # after this long without an answer it repeats the proposal with the same id
AGAIN_SOON_S: Final = 0.05
PATIENCE_S: Final = 30.0


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
        """Return how long each answer took, measured from the moment the proposal was due.

        The wait of a proposal delayed by an unanswered one counts too.
        """
        begun, waits = monotonic(), []
        for number in range(int(for_s * PER_SECOND)):
            due = begun + number / PER_SECOND
            Event().wait(max(0.0, due - monotonic()))
            self._ask()
            waits.append(monotonic() - due)
        return waits

    def _ask(self) -> None:
        number = next(self._numbers)
        payload = b'{"type":"read_file","text":"notes %d","id":"n-%d"}' % (number, number)
        begun = monotonic()
        while True:
            # While the server reloads its users, messages may be lost. When it closed a
            # connection of the daemon that fell behind, no one listens until the daemon reconnects.
            try:
                return self._allowed(self._peer.ask("safety.v1.propose.code", payload, AGAIN_S))
            except AssertionError:
                assert monotonic() - begun < PATIENCE_S, "nobody answered"
                Event().wait(AGAIN_SOON_S)

    def _allowed(self, answer: Message) -> None:
        if answer.fields["decision"] != "allow":
            raise ValueError(answer.fields["reason"])


def introduce(daemon: RunningDaemon) -> None:
    """Let many anonymous agents propose once."""
    with Peer(daemon.endpoint.bus) as peer:
        for number in range(NAMES):
            payload = b'{"type":"read_file","text":"notes","cost_usd":0.001}'
            peer.ask(f"safety.v1.propose.name-{number}", payload)
