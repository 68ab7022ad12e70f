"""An engine after a story, and its views as a client reads them."""

from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

import msgspec

from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import SafeModeEntered
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.operators.contract.status_contract import DaemonFacts, StatusAnswer
from safetyd.operators.views.status_view import status
from tests.story import at, play

T = TypeVar("T")

FACTS: Final = DaemonFacts(
    ok=True,
    version="1.2.3",
    pid=7,
    started=at(0),
    problem="",
    bus="nats://127.0.0.1:4222",
    embedded=True,
    open_agents=True,
    keys=0,
    web="",
    data_dir="/var/lib/safetyd",
    disk=DiskUse(level="good", disk="/", free_bytes=3 * 1024**3, total_bytes=4 * 1024**3),
    decisions={Severity.ALLOW: 1},
    failing=(),
    stop_files=(),
    stop_commands=(),
    config="",
    config_problem="",
    next_start=("web",),
)


def played(*story: Event) -> Engine:
    engine = Engine(Policy())
    play(engine, *story)
    return engine


def entered(t: float, agent: str | None = None) -> SafeModeEntered:
    return SafeModeEntered(at=at(t), t=t, by="alice", agent=agent, reason="drill")


def whole(
    view: Callable[..., Generator[None, Moment, T]],
    engine: Engine,
    t: float,
    *wanted: object,
    between: Callable[[], object] = lambda: None,
) -> T:
    """Return a view that is made in slices; `between` happens after each."""
    moment = Moment(at(t), t)
    slices = view(engine, moment, *wanted)
    try:
        next(slices)
        while True:
            between()
            slices.send(moment)
    except StopIteration as end:
        made: T = end.value
        return made


def status_of(engine: Engine, t: float) -> StatusAnswer:
    return whole(status, engine, t, lambda: FACTS)


def encoded(view: object) -> bytes:
    return msgspec.json.encode(view)


def plain(view: object) -> dict[str, Any]:
    """Return what a client reads."""
    read: dict[str, Any] = msgspec.json.decode(encoded(view))
    return read
