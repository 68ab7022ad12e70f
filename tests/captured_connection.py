"""A connection whose other end is the test, and an engine without a disk."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import Envelope, Mailbox

REPLY = b"_R_.test.1"


def never_fails() -> None:
    """Fail the test when an envelope reports a failure."""
    raise AssertionError("the question or command failed")


class Said(NamedTuple):
    subject: str
    fields: dict[str, Any]


class CapturedConnection(HardenedClient):
    """A connection that accepts everything sent."""

    def __init__(self) -> None:
        super().__init__()
        self._sent = b""

    def send(self, data: bytes) -> bool:
        self._sent += data
        return True

    def said(self) -> list[Said]:
        """Return what was published since the last call."""
        messages = []
        while self._sent:
            line, _, rest = self._sent.partition(b"\r\n")
            verb, subject, *sizes = line.split(b" ")
            assert verb in {b"PUB", b"HPUB"}
            start, end = (int(sizes[0]) if verb == b"HPUB" else 0), int(sizes[-1])
            payload, self._sent = rest[start:end], rest[end + 2 :]
            messages.append(Said(subject.decode(), msgspec.json.decode(payload)))
        return messages


class CapturedPublisher:
    """A publisher, and what it published."""

    def __init__(self, *, keyless: bool = False, muted: Callable[[], bool] = bool) -> None:
        self._wire = CapturedConnection()
        self.publisher = Publisher(self._wire, Subjects(), keyless=keyless, muted=muted)

    def said(self) -> list[Said]:
        self.publisher.flush()
        return self._wire.said()

    def answers(self) -> list[dict[str, Any]]:
        """Return the replies sent to `REPLY`."""
        return [said.fields for said in self.said() if said.subject == REPLY.decode()]

    def answer(self) -> dict[str, Any]:
        (answer,) = self.answers()
        return answer


def work_off(
    mailbox: Mailbox, engine: Engine, clock: Clock | None = None, *, late: bool = False
) -> list[Event]:
    """Process and deliver every envelope as if writing took no time."""
    moment = (clock or Clock()).now()
    events: list[Event] = []
    envelopes: list[Envelope] = []
    while (envelope := mailbox.take()) is not None:
        events += put(engine, envelope, moment)
        envelopes.append(envelope)
    while (question := mailbox.take_question()) is not None:
        while not question.done:
            question.open(engine, moment)
        envelopes.append(question)
    for envelope in envelopes:
        envelope.deliver(late=late)
    return events
