"""The local operator, outside the daemon."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from tests.bus.peer import Peer, Unanswered
from tests.conftest import RunningDaemon
from tests.journeys.agents import until

Reply = dict[str, Any]


class Listener:
    """The local operator, subscribed to every event."""

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
        """Return the next event of this kind about this agent, skipping all others."""
        while True:
            event = self._peer.heard(self._events).fields
            if (event["event_type"], event["agent_id"]) == (kind, agent):
                return event


def control(
    daemon: RunningDaemon, command: str, *, key: Path | None = None, **fields: object
) -> Reply:
    """Send one command as the local operator and return the reply."""
    return _ask(daemon, key, "control", {"command": command, **fields})


def query(
    daemon: RunningDaemon,
    command: str,
    *,
    key: Path | None = None,
    by: str = "local",
    **fields: object,
) -> Reply:
    return _ask(daemon, key, "query", {"command": command, **fields}, by)


def _ask(
    daemon: RunningDaemon, key: Path | None, verb: str, request: Reply, by: str = "local"
) -> Reply:
    """Repeat the request until it is answered: the server may restart before the daemon."""
    own = daemon.data_dir / "keys" / "operator.nk"
    replies = list[Reply]()

    def answered() -> bool:
        with (
            suppress(Unanswered, ConnectionError),
            Peer(daemon.endpoint.bus, key or own, f"_INBOX.op.{by}") as peer,
        ):
            answer = peer.ask(f"safety.v1.{verb}.{by}", msgspec.json.encode(request))
            replies.append(answer.fields)
        return bool(replies)

    until(answered)
    return replies[0]
