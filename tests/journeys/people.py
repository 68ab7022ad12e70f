"""What the local operator does, from outside."""

from pathlib import Path
from typing import Any

import msgspec

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon

Reply = dict[str, Any]


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
