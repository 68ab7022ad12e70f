"""An engine after a story, and its views as a client reads them."""

from typing import Any

import msgspec

from safetyd.core.engine import Engine
from safetyd.core.events import Event, SafeModeEntered
from safetyd.core.policy import Policy
from tests.play import at, play


def played(*story: Event) -> Engine:
    engine = Engine(Policy())
    play(engine, *story)
    return engine


def entered(t: float, agent: str | None = None) -> SafeModeEntered:
    return SafeModeEntered(at=at(t), t=t, by="alice", agent=agent, reason="drill")


def encoded(view: object) -> bytes:
    return msgspec.json.encode(view)


def plain(view: object) -> dict[str, Any]:
    """Return what a client reads."""
    read: dict[str, Any] = msgspec.json.decode(encoded(view))
    return read
