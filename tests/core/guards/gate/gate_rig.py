"""A gate and an agent before it, for stories."""

import functools
from collections.abc import Mapping

import msgspec

from safetyd.core.action_types import Kinds, TypeConfig
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event
from safetyd.core.guards.gate.gate import Gate
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.messages.proposal import Observation
from safetyd.core.messages.verdict import ALLOWED, Verdict
from safetyd.core.text.folding import masked
from tests.story import propose

HOME = Observation(window_title="Home", app_name="Chrome", url="https://shop.example")
CART = Observation(window_title="Cart", app_name="Chrome", url="https://shop.example/cart")


@functools.cache
def kinds(profile: str = "strict") -> Kinds:
    return Kinds({"Bash": TypeConfig(same_as="run_shell")}, profile)


class GateRig:
    """A gate and the one agent before it."""

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
        """Propose and be decided about."""
        proposed = propose(0, type=type, **fields)  # type: ignore[arg-type]
        verdict = self.looks(type, **fields)
        self.hears(decided(proposed, verdict, self.profile))
        return verdict

    def looks(self, type: str = "click", **fields: object) -> Verdict:  # noqa: A002
        """Only get an opinion."""
        proposed = propose(0, type=type, **fields)  # type: ignore[arg-type]
        return self.gate.check(proposed, kinds(self.profile).of(proposed.proposal))

    def hears(self, event: Event) -> None:
        assert self.gate.observe(event) == ()
        if isinstance(event, Decided):
            self.journal.append(encode(event))


def decided(
    proposed: Proposed, verdict: Verdict, profile: str = "strict", *, first: bool = True
) -> Decided:
    proposal = proposed.proposal
    kind = kinds(profile).of(proposal)
    if verdict.masks_text:
        proposal = msgspec.structs.replace(proposal, text=masked(proposal.text))
    return Decided(
        at=proposed.at,
        t=proposed.t,
        agent=proposed.agent,
        proposal=proposal,
        digest=proposed.digest,
        decision=verdict.decision,
        type=kind.type,
        tier=kind.tier,
        reversibility=kind.reversibility,
        risk=kind.risk,
        keyless=proposed.keyless,
        verdicts=() if verdict is ALLOWED else (verdict,),
        first=first,
    )


def rules(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.rule, *verdict.also) if verdict.rule else ()


def look(type: str = "click", profile: str = "strict", **fields: object) -> Verdict:  # noqa: A002
    return GateRig(profile=profile).looks(type, **fields)
