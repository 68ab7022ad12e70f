"""Sends messages over the bus, with one publisher for each connection.

A standby sends nothing, and a writer that may have lost the journal only what needs no journal.
"""

from typing import Final

from safetyd.bus.connections import Connection
from safetyd.bus.publisher import Publisher
from safetyd.daemon.resources import Resources

# A standby takes over after two seconds without a batch, so a writer is silent before that.
TENURE_S: Final = 1.5


class BusOutput:
    """The publishers. `agents[True]` is for anonymous agents, `agents[False]` for agents with keys.

    `main` is for all other messages, except answers that are true in any case: `always`.
    """

    def __init__(self, of: Resources) -> None:
        self._of = of
        connections = of.connections
        self.main = self._publisher(connections.main, keyless=False)
        self.always = Publisher(connections.main.client, of.subjects, keyless=False)
        self.agents = {False: self._publisher(connections.agents, keyless=False)}
        if connections.open is not None:
            self.agents[True] = self._publisher(connections.open, keyless=True)

    def flush(self) -> None:
        for publisher in (self.main, *self.agents.values()):
            publisher.flush()

    def send_notice(self, kind: str, notice: object) -> None:
        """Publish a notification for desktop helpers."""
        said = {"event_type": kind, "notice": notice}
        self.main.tell(self._of.subjects.of("event", kind), said)
        self.main.flush()

    def displaced_perhaps(self) -> bool:
        """Return True if this writer may have lost the journal (only on an external bus)."""
        of = self._of
        return of.server is None and of.standby is None and of.journal.unowned_s > TENURE_S

    def _muted(self) -> bool:
        return self._of.standby is not None or self.displaced_perhaps()

    def _publisher(self, connection: Connection, *, keyless: bool) -> Publisher:
        subjects = self._of.subjects
        return Publisher(connection.client, subjects, keyless=keyless, muted=self._muted)
