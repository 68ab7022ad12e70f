"""The mode: development makes no cloud calls, which is its budget of zero cloud dollars.

Names of providers and models are the agent's words: a list of them finds honest mistakes.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard
from safetyd.core.events.decision_events import Decided, Moment, Proposed
from safetyd.core.guards.vendors import CLOUD_MODELS, CLOUD_PROVIDERS
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict

_ELSEWHERE: Final = "in production or hybrid mode"

Glob = Annotated[str, Meta(min_length=1, max_length=128)]


class ModesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What runs in somebody's cloud: globs, in which case is ignored.

    A model is looked for whole and without what stands before its last slash.
    """

    cloud_providers: tuple[Glob, ...] = CLOUD_PROVIDERS
    cloud_models: tuple[Glob, ...] = CLOUD_MODELS


class ModeGuard(Guard):
    """The guard. It has nothing to say outside development, and it remembers nothing."""

    name = "mode"

    def __init__(self, mode: str, config: ModesConfig) -> None:
        self._mode = mode
        self._development = mode == "development"
        self._is_cloud_provider = _matcher(config.cloud_providers)
        self._is_cloud_model = _matcher(config.cloud_models)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        if not self._development:
            return ALLOWED
        proposal = proposed.proposal
        if why := self._why_cloud(proposal):
            return _verdict(Severity.BLOCK, "mode.cloud", why)
        if kind.type == "model_call" and not proposal.provider and not proposal.model:
            why = "this model_call names neither provider nor model"
            remedy = f"with a model that is not one of modes.cloud_models, or {_ELSEWHERE}"
            return _verdict(Severity.ASK, "mode.unknown_model", why, remedy)
        return ALLOWED

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        return self._mode

    def _why_cloud(self, proposal: Proposal) -> str:
        """Say what makes it a cloud call; empty if nothing does."""
        # What the agent denies is not looked at: `cloud: false` lifts nothing.
        if proposal.cloud:
            return "this proposal says cloud: true"
        if proposal.provider and self._is_cloud_provider(proposal.provider):
            return f"provider {proposal.provider} is one of modes.cloud_providers"
        if proposal.model and self._is_cloud_model(proposal.model):
            return f"model {proposal.model} is one of modes.cloud_models"
        return ""


def _matcher(globs: Iterable[str]) -> Callable[[str], bool]:
    either = "|".join(fnmatch.translate(glob.lower()) for glob in globs)
    match = re.compile(either or r"(?!)").match

    def matches(name: str) -> bool:
        name = name.strip().lower()
        return bool(match(name)) or ("/" in name and bool(match(name.rpartition("/")[2])))

    return matches


def _verdict(decision: Severity, rule: str, why: str, remedy: str = _ELSEWHERE) -> Verdict:
    reason = f"development mode makes no cloud calls, and {why}"
    return Verdict("mode", decision, rule, reason, cause="mode_violation", remedy=remedy)
