"""Sends messages over the bus, with one publisher for each connection.

Nothing is sent while another daemon may be writing the journal.
"""

import os
from typing import Final

from safetyd.bus.connections import Connection
from safetyd.bus.nats_client import pub
from safetyd.bus.publisher import Publisher
from safetyd.daemon.resources import Resources

TENURE_S: Final = 2.0


class BusOutput:
    """The publishers. `agents[True]` is for anonymous agents, `agents[False]` for agents with keys.

    `main` is for all other messages.
    """

    def __init__(self, of: Resources) -> None:
        self._of = of
        connections = of.connections
        self.main = self._publisher(connections.main, keyless=False)
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

    def send_writer(self, _subject: bytes, reply: bytes, _payload: bytes) -> None:
        """Answer a standby that asks which daemon writes the journal."""
        if not self.displaced_perhaps():
            name = f"safetyd {self._of.boot_id} with pid {os.getpid()}"
            self._of.connections.main.client.send(pub(reply, name.encode()))

    def displaced_perhaps(self) -> bool:
        """Return True if another daemon may be writing the journal (only on an external bus).

        A standby waits longer before it takes over, so two daemons never send at the same time.
        """
        return self._of.server is None and self._of.journal.unseen_s > TENURE_S

    def _publisher(self, connection: Connection, *, keyless: bool) -> Publisher:
        subjects, muted = self._of.subjects, self.displaced_perhaps
        return Publisher(connection.client, subjects, keyless=keyless, muted=muted)
