"""Lets a standby become the writer."""

import anyio

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.cluster_events import WriterReleased
from safetyd.core.events.event import Moment
from safetyd.journal.mailbox import EventEnvelope, Mailbox


class Handover:
    """A request to hand over. `by` is the operator."""

    def __init__(self) -> None:
        self.requested = anyio.Event()
        self.by = ""

    def request(self, by: str) -> None:
        self.by = by
        self.requested.set()


async def release(mailbox: Mailbox, daemon: str, by: str) -> None:
    """Journal that this daemon writes no more. A standby then takes over immediately."""
    released = anyio.Event()

    def made(state: EngineState, moment: Moment) -> WriterReleased:
        term = state.writers.term
        return WriterReleased(at=moment.at, t=moment.t, term=term, daemon=daemon, by=by)

    mailbox.put(EventEnvelope(made, released.set))
    await released.wait()
