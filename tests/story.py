"""Stories for the engine; each helper adds one thing that happens at second `t`."""

from datetime import UTC, datetime, timedelta

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Proposed, Reported
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import AnyTelemetry, Outcome

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(t: float) -> datetime:
    return NOON + timedelta(seconds=t)


def propose(
    t: float,
    agent: str = "code",
    id: str = "p1",  # noqa: A002
    type: str = "read_file",  # noqa: A002
    *,
    digest: str = "sha256:d1",
    keyless: bool = False,
    **fields: object,
) -> Proposed:
    resolved = fields.pop("resolved", ())
    proposal = Proposal(type=type, id=id, **fields)  # type: ignore[arg-type]
    return Proposed(
        at=at(t),
        t=float(t),
        agent=agent,
        proposal=proposal,
        digest=digest,
        keyless=keyless,
        resolved=resolved,  # type: ignore[arg-type]
    )


def stop(t: float, source: str = "operator", agent: str | None = None, epoch: int = 1) -> Stopped:
    return Stopped(
        at=at(t), t=float(t), source=source, by="alice", reason="drill", agent=agent, epoch=epoch
    )


def resume(t: float, *sources: str, agent: str | None = None, epoch: int = 2) -> Resumed:
    return Resumed(
        at=at(t), t=float(t), sources=sources or ("operator",), by="alice", agent=agent, epoch=epoch
    )


def report(t: float, telemetry: AnyTelemetry, agent: str = "code") -> Reported:
    return Reported(at=at(t), t=float(t), agent=agent, telemetry=telemetry)


def outcome(t: float, id: str = "p1", *, ok: bool = True, agent: str = "code") -> Reported:  # noqa: A002
    return report(t, Outcome(id=id, ok=ok), agent)


def tick(t: float) -> Ticked:
    return Ticked(at=at(t), t=float(t))


def play(engine: Engine, *story: Event) -> list[Event]:
    """Return all journalled events."""
    journal: list[Event] = []
    for event in story:
        if isinstance(event, Proposed):
            journal += engine.decide(event)[1]
        else:
            journal += engine.handle(event)
    return journal


def ask(engine: Engine, proposed: Proposed) -> Decision:
    return engine.decide(proposed)[0]
