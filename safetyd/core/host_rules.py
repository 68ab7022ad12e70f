"""The rules for coding agents whose hooks ask safetyd."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Profile


class HostRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of `[hosts]` that the guards use."""

    profile: Profile = "coding"
    # The rate of one coding agent. It is high, because subagents read fast and in parallel.
    tokens_per_minute: Annotated[int, Meta(ge=1)] = 1200
    burst: Annotated[int, Meta(ge=1)] = 600
    # How many hours the approval of an unknown program covers its further calls; 0: never.
    remember_programs_h: Annotated[float, Meta(ge=0, le=168)] = 8.0
    # Pushes that overwrite or delete branches of a remote.
    force_push: Literal["block", "ask"] = "block"
    # What happens to a coding agent that ran a tool without asking.
    unasked: Literal["tell", "pause", "stop"] = "pause"
