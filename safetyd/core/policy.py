"""The part of the configuration that rules are made of: it is journalled, and replay applies it."""

import hashlib
from typing import Literal

import msgspec

from safetyd.core.events import Event
from safetyd.core.guards.gate import ConfidenceConfig, GateConfig
from safetyd.core.kinds import TypeConfig
from safetyd.core.proposal import canonical
from safetyd.core.recall import DecisionsConfig

Mode = Literal["development", "production", "hybrid"]
Profile = Literal["strict", "coding"]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: Mode = "production"
    profile: Profile = "strict"
    max_agents: int = 1000
    types: dict[str, TypeConfig] = {}
    gate: GateConfig = GateConfig()
    confidence: ConfidenceConfig = ConfidenceConfig()
    decisions: DecisionsConfig = DecisionsConfig()

    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(canonical(self)).hexdigest()


class Configured(Event, kw_only=True, omit_defaults=True, tag="configured"):
    """The rules from here on, without secrets. The engine builds its actors anew."""

    policy: Policy
    digest: str
    version: str
    why: Literal["start", "reload"]
