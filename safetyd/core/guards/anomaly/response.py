"""What follows when a condition begins to hold: a finding, a pause, a stop."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from safetyd.core.events.decision_events import AnomalyFound, Event, Paused, Stopped
from safetyd.core.guards.anomaly.findings import Condition, Found

# What a detector found, by its id; None: its condition does not hold.
Looked = tuple[str, Found | None]


class Concern(NamedTuple):
    """Whom a finding is about, and the last epoch of a stop."""

    epoch: int
    agent: str | None = None
    breaker: str | None = None


def raised(
    cause: Event, conditions: dict[str, Condition], looked: Sequence[Looked], concern: Concern
) -> list[Event]:
    """Bring the conditions up to date; return what follows from those that begin to hold."""
    caused: list[Event] = []
    for id_, found in looked:
        condition = conditions.get(id_)
        if condition is None:
            if found is None:
                continue
            condition = conditions[id_] = Condition()
        if condition.update(cause.t, found) and found is not None:
            caused += response(cause, id_, found, concern)
    return caused


def would_raise(condition: Condition | None, t: float, found: Found) -> bool:
    """Say whether a finding would be raised, and change nothing."""
    copied = Condition() if condition is None else msgspec.structs.replace(condition)
    return copied.update(t, found)


def response(cause: Event, id_: str, found: Found, concern: Concern) -> list[Event]:
    """Return the finding, and the pause or stop that its severity asks for."""
    told: list[Event] = [
        AnomalyFound(
            at=cause.at,
            t=cause.t,
            rule=f"anomaly.{id_}",
            severity=found.severity,
            message=found.message,
            agent=concern.agent,
            breaker=concern.breaker,
        )
    ]
    if found.severity == "critical":
        told.append(_stopped(cause, id_, concern.epoch + 1))
    elif found.severity == "high" and concern.agent is not None:
        told.append(_paused(cause, concern.agent, found.message))
    return told


def _stopped(cause: Event, id_: str, epoch: int) -> Stopped:
    return Stopped(
        at=cause.at,
        t=cause.t,
        source="anomaly",
        by="safetyd",
        reason=f"Anomaly detected: anomaly.{id_}",
        epoch=epoch,
    )


def _paused(cause: Event, agent: str, reason: str) -> Paused:
    return Paused(
        at=cause.at, t=cause.t, agent=agent, source="anomaly", by="safetyd", reason=reason
    )
