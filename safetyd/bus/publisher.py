"""Collects replies and notices, and writes them to the bus together."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from safetyd.bus.nats_client import HardenedClient, notice, pub
from safetyd.bus.subjects import Subjects
from safetyd.core.messages.decision import Decision

# The server gives requests from other accounts a reply subject with this prefix. Other reply
# subjects are not answered, so that a sender cannot choose where the daemon publishes.
IMPORTED_REPLY: Final = b"_R_."

# The embedded server accepts at most 256 KB.
MAX_ANSWER_BYTES: Final = 240 * 1024

_encode = msgspec.json.Encoder().encode


def _fitting(answer: bytes) -> bytes:
    """Return the answer or, if it is too large for the server, an error."""
    if len(answer) <= MAX_ANSWER_BYTES:
        return answer
    error = f"the answer has {len(answer)} bytes; the limit is {MAX_ANSWER_BYTES}"
    return _encode({"ok": False, "error": error, "code": "too_large"})


class Replies(Protocol):
    """Sends answers to agents. `reply` is the sender's reply subject."""

    def decide(self, reply: bytes, decision: Decision) -> None: ...

    def defer(self, reply: bytes, decision: Decision) -> None: ...

    def reply(self, reply: bytes, decision: Decision) -> None: ...

    def answer(self, reply: bytes, content: object) -> None: ...

    def soon(self) -> None: ...


class Publisher:
    """Sends over one connection. While `muted` returns True, everything is dropped."""

    def __init__(
        self,
        client: HardenedClient,
        subjects: Subjects,
        *,
        keyless: bool,
        muted: Callable[[], bool] = bool,
    ) -> None:
        name = subjects.keyless if keyless else subjects.of
        self._client = client
        self._decision = name("decision").encode()
        self._waiting: list[bytes] = []
        self._scheduled = False
        self._muted = muted

    def decide(self, reply: bytes, decision: Decision) -> None:
        """Reply to a proposal, and publish the decision."""
        payload = _encode(decision)
        subject = b"%b.%b.%b" % (self._decision, decision.agent.encode(), decision.id.encode())
        size = b" %d\r\n" % len(payload)
        self._waiting += (b"PUB ", subject, size, payload, b"\r\n")
        if reply.startswith(IMPORTED_REPLY):
            self._waiting += (b"PUB ", reply, size, payload, b"\r\n")

    def defer(self, reply: bytes, decision: Decision) -> None:  # noqa: ARG002
        """Publish a pending decision. The reply is sent when the request ends."""
        self.decide(b"", decision)

    def reply(self, reply: bytes, decision: Decision) -> None:
        """Reply to a proposal whose decision was already published."""
        if reply.startswith(IMPORTED_REPLY):
            self._waiting.append(pub(reply, _encode(decision)))
            self.soon()

    def answer(self, reply: bytes, content: object) -> None:
        """Reply with a message that is not a decision, as JSON."""
        if reply.startswith(IMPORTED_REPLY):
            self._waiting.append(pub(reply, _fitting(_encode(content))))
            self.soon()

    def tell(self, subject: str, content: object) -> None:
        """Publish a notice with the header that marks notices."""
        self._waiting.append(notice(subject.encode(), _encode(content)))
        self.soon()

    def soon(self) -> None:
        """Write the collected messages in the next step of the event loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._scheduled = False
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not self._muted():
                self._client.send(data)
