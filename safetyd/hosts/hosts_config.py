"""The section [hosts]: coding agents that `safetyd protect` has set up."""

from typing import Annotated, Literal

import msgspec

from safetyd.core.host_rules import HostRules
from safetyd.host import SOCKET

# none: the user answers every question. approved: safetyd answers yes if an operator approved the
# call. all: safetyd answers yes if it allows the call.
AnswerPrompts = Literal["none", "approved", "all"]


class HostsConfig(HostRules, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for coding agents, and how the daemon answers their hooks."""

    socket: str = SOCKET  # relative to the data directory
    # how long a tool call waits for an operator; then the agent continues with other work. Unset:
    # 240 s if somebody who is awake gets a message that they can answer, otherwise 55 s
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=590)] | None = None
    # whether it waits even if nobody can be notified in that time, for example at night
    wait_if_unreachable: bool = False
    # count: a failed file or web tool is a failure of the agent; a failed command never is
    tool_errors: Literal["results", "count"] = "results"

    answer_prompts: AnswerPrompts = "approved"  # questions of the host to its user
    # whether the cost of model calls counts; a subscription covers single calls
    money: Literal["count", "ignore"] = "count"

    def rules(self) -> HostRules:
        """Return the part that the guards use."""
        return HostRules(**{name: getattr(self, name) for name in HostRules.__struct_fields__})
