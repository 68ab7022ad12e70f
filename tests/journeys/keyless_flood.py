"""An anonymous agent that floods: `python -m tests.journeys.keyless_flood URL NAMES S`."""

import sys
from itertools import cycle
from threading import Event
from time import monotonic
from typing import Final

from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from tests.bus.peer import Peer, Refused, pub

AGAIN_S: Final = 0.01
_HEAD: Final = b'{"type":"read_file","context":{"diff":"'
_TAIL: Final = b'"}}'
LARGEST: Final = _HEAD + b"x" * (MAX_MESSAGE_BYTES - len(_HEAD + _TAIL)) + _TAIL


def flood(url: str, names: int, until: float) -> int:
    """Send until the deadline, reconnecting as needed; return the bytes sent."""
    sent = 0
    messages = cycle([pub(b"safety.v1.propose.flood-%d" % i, LARGEST) for i in range(names)])
    while monotonic() < until:
        try:
            with Peer(url) as peer:
                while monotonic() < until:
                    message = next(messages)
                    peer.send(message)
                    sent += len(message)
        except (OSError, Refused):
            Event().wait(AGAIN_S)
    return sent


if __name__ == "__main__":
    print(flood(sys.argv[1], int(sys.argv[2]), monotonic() + float(sys.argv[3])))
