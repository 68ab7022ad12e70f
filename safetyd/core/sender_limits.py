"""What one sender may use. A sender is an agent with a key or token, a local user, or an address.

These limits are always in force, also while nobody else is active. A sender that is over one of
them loses only its own work.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

MIB: Final = 1024 * 1024


class SenderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one sender, with their defaults."""

    connections: int = 256  # open at once; above it, the oldest one without a request is closed
    head_s: float = 5.0  # until the head of the first request has arrived
    body_s: float = 10.0  # until the body of a request has arrived
    requests: int = 32  # under way at once
    waiting: int = 32  # calls that wait for an operator
    requests_per_s: float = 100.0  # a request takes about a third of a millisecond
    requests_saved: float = 20.0  # burst
    bytes_at_once: int = 16 * MIB  # of bodies that are read or being answered
    bytes_per_s: int = MIB  # of bodies
    bytes_saved: int = 8 * MIB  # burst: the longest body
    message_bytes_per_s: int = MIB // 4  # of messages for the engine
    saved_s: float = 4.0  # burst of messages and their bytes: those of this many seconds
    dry_runs_per_minute: int = 120  # `safetyd verify` makes about fifteen
    # Half of a local user's account is divided among this many of its agents, the first ones that
    # were active. All its agents share the other half. Other senders have only one agent.
    known_agents: int = 0
    known_saved_s: float = 16.0  # burst of messages of such an agent
    known_bytes_saved: int = MIB  # burst of its bodies
    # A report is large if it is beyond this many times the price of its tokens, and not small.
    price_factor: int = 10
    small_report_usd: float = 1.0
    money_share: float = 0.5  # of the daily budget, for costs that were not reserved
    doubted_names: int = 64  # anonymous names a day that are paused for large reports
    # Of the models and of the dependencies of a day, those that it was the first to use.
    names: int = 250
    anonymous_names: int = 125
    night_share: float = 0.5  # of the urgent messages that one person gets during quiet hours


AGENT_LIMITS: Final = SenderLimits()
USER_LIMITS: Final = replace(
    AGENT_LIMITS,
    connections=2 * AGENT_LIMITS.connections,
    requests=2 * AGENT_LIMITS.requests,
    requests_per_s=2 * AGENT_LIMITS.requests_per_s,
    requests_saved=50 * AGENT_LIMITS.requests_saved,  # twenty sessions that work at once
    bytes_per_s=2 * AGENT_LIMITS.bytes_per_s,
    bytes_saved=2 * AGENT_LIMITS.bytes_saved,
    message_bytes_per_s=2 * AGENT_LIMITS.message_bytes_per_s,
    known_agents=16,
)
# Bodies of all senders together, except what is reserved for known agents.
BYTES_OF_ALL: Final = 16 * MIB
