"""An anomaly guard and the agents it watches, for stories."""

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, BreakerMoved
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.anomaly import AnomalyGuard
from safetyd.core.guards.anomaly.presence import HumanConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.telemetry import AnyTelemetry
from tests.core.guards.guard_rig import GuardRig, decided, settled
from tests.story import at, propose, report

HOUR = 3600.0


class AnomalyRig(GuardRig[AnomalyGuard]):
    def __init__(
        self, config: AnomalyConfig | None = None, human: HumanConfig | None = None
    ) -> None:
        super().__init__(lambda: AnomalyGuard(config or AnomalyConfig(), human or HumanConfig()))

    def proposes(self, t: float, **fields: object) -> list[str]:
        """Return the findings of an allowed proposal."""
        return told(self.hears(decided(propose(t, **fields))))  # type: ignore[arg-type]

    def clicks(self, *times: float, label: str = "Next", **fields: object) -> list[str]:
        """Return the findings of clicks, by the short names of their rules."""
        clicks = (
            self.proposes(t, type="click", target=Target(label=label), **fields) for t in times
        )
        return [rule for click in clicks for rule in click]

    def hears_clicks(self, t: float, label: str = "Next") -> list[Event]:
        return self.hears(decided(propose(t, type="click", target=Target(label=label))))

    def works(self, t: float, *, ok: bool = True, **fields: object) -> list[str]:
        """Return the findings of an outcome of a known agent."""
        self.knows()
        return told(self.hears(settled(t, ok=ok, **fields)))  # type: ignore[arg-type]

    def says(self, t: float, telemetry: AnyTelemetry, agent: str = "code") -> list[str]:
        return told(self.hears(report(t, telemetry, agent)))

    def trips(self, t: float, breaker: str = "openai", agent: str | None = None) -> list[Event]:
        return self.hears(
            BreakerMoved(at=at(t), t=t, breaker=breaker, state="open", reason="x", agent=agent)
        )

    def knows(self, agent: str = "code") -> None:
        if agent not in self.guard.agents:
            self.hears(decided(propose(0, agent, type="read_file")))

    @property
    def messages(self) -> list[str]:
        return [found.message for found in self.guard.findings]


def told(events: list[Event]) -> list[str]:
    """Return the short names of the rules that were found."""
    return [
        event.rule.removeprefix("anomaly.") for event in events if isinstance(event, AnomalyFound)
    ]
