"""An observer that floods queries: `python -m tests.journeys.question_flood URL KEY S`."""

import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Final

from tests.bus.peer import Peer, Refused, pub

CONNECTIONS: Final = 4
BURST: Final = 50
AGAIN_S: Final = 0.05
ASKED: Final = ("agents", "status", "pending", "budgets")


def ask_on(url: str, key: Path, number: int, until: float) -> None:
    """Send queries until the deadline, reconnecting as needed."""
    name = key.stem
    inbox = f"_INBOX.op.{name}.{number}"
    questions = b"".join(
        pub(
            f"safety.v1.query.{name}".encode(),
            b'{"command":"%b"}' % ASKED[one % len(ASKED)].encode(),
            inbox.encode(),
        )
        for one in range(BURST)
    )
    while monotonic() < until:
        try:
            with Peer(url, key, inbox) as peer:
                peer.subscribe(inbox)
                while monotonic() < until:
                    peer.send(questions)
                    peer.settle()
        except (OSError, Refused, AssertionError):
            Event().wait(AGAIN_S)


def flood(url: str, key: Path, for_s: float) -> None:
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            asking = Thread(target=ask_on, args=(url, key, number, monotonic() + for_s))
            asking.start()
            stack.callback(asking.join)


if __name__ == "__main__":
    flood(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
