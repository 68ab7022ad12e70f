"""What the local operator does, from outside."""

from pathlib import Path
from typing import Any, Self

import msgspec

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon

Reply = dict[str, Any]


class Listener:
    """The local operator, who listens to every event."""

    def __init__(self, daemon: RunningDaemon) -> None:
        key = daemon.data_dir / "keys" / "operator.nk"
        self._peer = Peer(daemon.endpoint.bus, key, "_INBOX.op.local")
        self._events = self._peer.subscribe("safety.v1.event.*")
        self._peer.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def hear(self, kind: str, agent: str | None) -> Reply:
        """Return the next event of this kind about this agent, passing over all others."""
        while True:
            event = self._peer.heard(self._events).fields
            if (event["event_type"], event["agent_id"]) == (kind, agent):
                return event


def control(
    daemon: RunningDaemon, command: str, *, key: Path | None = None, **fields: object
) -> Reply:
    """Give one command as the local operator and return the reply."""
    return _ask(daemon, key, "control", {"command": command, **fields})


def query(daemon: RunningDaemon, command: str, *, key: Path | None = None) -> Reply:
    return _ask(daemon, key, "query", {"command": command})


def _ask(daemon: RunningDaemon, key: Path | None, verb: str, request: Reply) -> Reply:
    own = daemon.data_dir / "keys" / "operator.nk"
    with Peer(daemon.endpoint.bus, key or own, "_INBOX.op.local") as peer:
        return peer.ask(f"safety.v1.{verb}.local", msgspec.json.encode(request)).fields
