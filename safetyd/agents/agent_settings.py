"""What the service of agents asks of the configuration, which a reload changes."""

from typing import Protocol

from safetyd.agents.intake import Intake
from safetyd.agents.pricing import PriceList
from safetyd.bus.flood_gate import FloodGate, KeylessGate
from safetyd.core.policy import Policy


class AgentSettings(Protocol):
    """What is configured now; a reload changes it."""

    @property
    def intake(self) -> Intake: ...

    @property
    def keyless_gate(self) -> KeylessGate: ...

    @property
    def flood_gate(self) -> FloodGate: ...

    @property
    def prices(self) -> PriceList: ...

    @property
    def policy(self) -> Policy: ...

    def has_key(self, agent: str) -> bool: ...
