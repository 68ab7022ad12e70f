"""What leaves: answers and notices, gathered and written to the bus in one go."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from safetyd.bus.client import HardenedClient, pub
from safetyd.bus.subjects import Subjects
from safetyd.core.decision import Decision

# Only the server makes such reply subjects, for requests that came in through an import. Answering
# any other would let a sender choose where the daemon speaks.
IMPORTED_REPLY: Final = b"_R_."

_encode = msgspec.json.Encoder().encode


class Post:
    """The way out over one connection."""

    def __init__(self, client: HardenedClient, subjects: Subjects, *, keyless: bool) -> None:
        name = subjects.keyless if keyless else subjects.of
        self._client = client
        self._decision = name("decision").encode()
        self._waiting: list[bytes] = []
        self._scheduled = False
        self.muted: Callable[[], bool] = bool  # while true, whatever would leave is dropped

    def decide(self, reply: bytes, decision: Decision) -> None:
        """Answer a proposal and say the same on its decision subject."""
        payload = _encode(decision)
        subject = b"%b.%b.%b" % (self._decision, decision.agent.encode(), decision.id.encode())
        self._waiting.append(pub(subject, payload))
        if reply.startswith(IMPORTED_REPLY):
            self._waiting.append(pub(reply, payload))

    def answer(self, reply: bytes, content: object) -> None:
        """Answer anything else, as JSON."""
        if reply.startswith(IMPORTED_REPLY):
            self._waiting.append(pub(reply, _encode(content)))
            self.soon()

    def tell(self, subject: str, content: object) -> None:
        """Publish a notice."""
        self._waiting.append(pub(subject.encode(), _encode(content)))
        self.soon()

    def soon(self) -> None:
        """Write what waits when the current step is over."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._scheduled = False
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not self.muted():
                self._client.send(data)
