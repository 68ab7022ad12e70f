"""An agent with a key that floods: `python -m tests.journeys.proposal_flood URL KEY BYTES S`."""

import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Final

from tests.bus.peer import Peer, Refused, pub

CONNECTIONS: Final = 3
BURST_BYTES: Final = 64 * 1024
AGAIN_S: Final = 0.05


def propose_on(url: str, key: Path, size: int, number: int, until: float) -> None:
    """Propose until the deadline without reading answers, reconnecting as needed."""
    subject, inbox = f"safety.v1.propose.{key.stem}", f"_INBOX.agent.{key.stem}.{number}"
    payload = b'{"type":"read_file"}'.ljust(size)
    proposal = pub(subject.encode(), payload, inbox.encode())
    proposals = max(1, BURST_BYTES // len(proposal)) * proposal
    while monotonic() < until:
        try:
            with Peer(url, key, inbox) as peer:
                while monotonic() < until:
                    peer.send(proposals)
        except (OSError, Refused):
            Event().wait(AGAIN_S)


def flood(url: str, key: Path, size: int, for_s: float) -> None:
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            until = monotonic() + for_s
            proposing = Thread(target=propose_on, args=(url, key, size, number, until))
            proposing.start()
            stack.callback(proposing.join)


if __name__ == "__main__":
    flood(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
