"""A gate for tests."""

import functools
from collections.abc import Mapping

from safetyd.core.action_types import Kinds, TypeConfig
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.guards.gate.gate import Gate
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.messages.proposal import Observation
from safetyd.core.messages.verdict import Verdict
from tests.core.guards.guard_rig import decided
from tests.story import propose

HOME = Observation(window_title="Home", app_name="Chrome", url="https://shop.example")
CART = Observation(window_title="Cart", app_name="Chrome", url="https://shop.example/cart")


@functools.cache
def kinds(profile: str = "strict") -> Kinds:
    return Kinds({"Bash": TypeConfig(same_as="run_shell")}, profile)


class GateRig:
    """A gate with one agent."""

    def __init__(
        self,
        config: GateConfig | None = None,
        confidence: ConfidenceConfig | None = None,
        profile: str = "strict",
        projects: Mapping[str, ProjectConfig] | None = None,
    ) -> None:
        self.profile = profile
        self.gate = Gate(
            config or GateConfig(), confidence or ConfidenceConfig(), profile, projects or {}
        )
        self.journal: list[bytes] = []

    def asks(self, type: str = "click", **fields: object) -> Verdict:  # noqa: A002
        """Propose, and observe the decision."""
        proposed = propose(0, type=type, **fields)  # type: ignore[arg-type]
        verdict = self.looks(type, **fields)
        self.hears(decided(proposed, verdict, kinds=kinds(self.profile)))
        return verdict

    def looks(self, type: str = "click", **fields: object) -> Verdict:  # noqa: A002
        """Return the verdict without deciding."""
        proposed = propose(0, type=type, **fields)  # type: ignore[arg-type]
        return self.gate.check(proposed, kinds(self.profile).of(proposed.proposal))

    def hears(self, event: Event) -> None:
        assert self.gate.observe(event) == ()
        if isinstance(event, Decided):
            self.journal.append(encode(event))


def look(type: str = "click", profile: str = "strict", **fields: object) -> Verdict:  # noqa: A002
    return GateRig(profile=profile).looks(type, **fields)
