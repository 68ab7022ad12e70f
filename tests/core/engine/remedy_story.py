"""Proposals that a guard restricts, and what would allow them."""

from typing import NamedTuple

from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    BreakerMoved,
    BudgetRaised,
    Paused,
    SafeModeEntered,
    SafeModeExited,
)
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.messages.proposal import Observation, Scores
from safetyd.core.policy import Policy
from tests.story import at, propose

HOME = Observation(window_title="Home", app_name="Chrome")
ROOT = "/srv/shop"


class Story(NamedTuple):
    """A proposal that a guard restricts, and what its remedy allows."""

    asks: Proposed
    then: Proposed | None = None  # what the remedy lets pass
    before: tuple[Event, ...] = ()
    done: tuple[Event, ...] = ()  # what the remedy wants to have happened
    policy: Policy = Policy()
    wanted: Policy | None = None  # the configuration that the remedy wants
    too_soon: Proposed | None = None


def scores(autonomy: float = 5, quality: float = 5) -> Scores:
    return Scores(
        strategic_alignment=5,
        autonomy_appropriateness=autonomy,
        output_quality=quality,
        resource_efficiency=5,
        learning_application=5,
    )


def paused(t: float, source: str = "operator") -> Paused:
    return Paused(at=at(t), t=t, agent="code", source=source, by="alice")  # type: ignore[arg-type]


def entered(t: float, agent: str | None) -> SafeModeEntered:
    return SafeModeEntered(at=at(t), t=t, by="alice", agent=agent)


def exited(t: float, agent: str | None) -> SafeModeExited:
    return SafeModeExited(at=at(t), t=t, by="alice", agent=agent)


def raised(t: float, scope: str, usd: float, id_: str = "") -> BudgetRaised:
    return BudgetRaised(
        at=at(t),
        t=t,
        scope=scope,  # type: ignore[arg-type]
        usd=usd,
        by="alice",
        reason="drill",
        id=id_,
    )


def opened(t: float, breaker: str, agent: str | None = None) -> BreakerMoved:
    return BreakerMoved(
        at=at(t), t=t, breaker=breaker, state="open", reason="5 calls in a row failed", agent=agent
    )


def half_open(t: float, breaker: str) -> BreakerMoved:
    return BreakerMoved(at=at(t), t=t, breaker=breaker, state="half_open", reason="30 s")


def rules(**fields: object) -> Policy:
    return Policy(rules=RulesConfig(**fields))  # type: ignore[arg-type]


def shop(**fields: object) -> Policy:
    return Policy(projects={"shop": ProjectConfig(root=ROOT, **fields)})  # type: ignore[arg-type]


def gate(**fields: object) -> Policy:
    return Policy(gate=GateConfig(**fields))  # type: ignore[arg-type]


def severe(**detectors: object) -> Policy:
    return Policy(anomaly=AnomalyConfig(**detectors))  # type: ignore[arg-type]


def several(count: int, gap_s: float = 1.0, **fields: object) -> tuple[Proposed, ...]:
    return tuple(propose(n * gap_s, id=f"b{n}", **fields) for n in range(count))  # type: ignore[arg-type]
