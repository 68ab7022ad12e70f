"""The safe mode guard, and the events that start and end safe mode."""

from safetyd.core.events.decision_events import Overdue
from safetyd.core.events.guard_events import SafeModeEntered, SafeModeExited
from safetyd.core.guards.safe_mode import SafeMode, SafeModeConfig
from tests.core.guards.guard_rig import GuardRig, settled
from tests.story import at


def guarded(**settings: object) -> GuardRig[SafeMode]:
    config = SafeModeConfig(**settings)  # type: ignore[arg-type]
    return GuardRig(lambda: SafeMode(config, 3600.0))


def fails(
    held: GuardRig[SafeMode],
    t: float,
    agent: str = "code",
    times: int = 3,
    *,
    keyless: bool = False,
) -> list[SafeModeEntered]:
    """Report failures without a proposal. Return the entries into safe mode."""
    failures = (settled(t, None, agent, ok=False, keyless=keyless) for _ in range(times))
    caused = [event for failure in failures for event in held.hears(failure)]
    return [event for event in caused if isinstance(event, SafeModeEntered)]


def entered() -> GuardRig[SafeMode]:
    """Agent `code` has been in safe mode since second 120."""
    held = guarded()
    fails(held, 120)
    return held


def enter(t: float, agent: str | None = "code", reason: str = "drill") -> SafeModeEntered:
    return SafeModeEntered(at=at(t), t=float(t), by="alice", agent=agent, reason=reason)


def leave(t: float, agent: str | None = "code") -> SafeModeExited:
    return SafeModeExited(at=at(t), t=float(t), by="alice", agent=agent)


def overdue(t: float, agent: str = "code", id: str = "p1") -> Overdue:  # noqa: A002
    return Overdue(at=at(t), t=float(t), agent=agent, ids=(id,))


def errors(held: GuardRig[SafeMode], agent: str | None = "code") -> int:
    return held.guard.status(agent, 0).consecutive_errors


def state(held: GuardRig[SafeMode], t: float, agent: str | None = "code") -> str:
    return held.guard.status(agent, t).state
