"""What one sender may use. A sender is an agent with a key or token, or a peer.

These limits are always in force, also while no other agent is active. A sender that is over one of
them slows down or loses only its own work.
"""

from typing import Final

import msgspec

MIB: Final = 1024 * 1024


class SenderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one sender. Senders are told which one they are over."""

    connections: int = 256  # open at once; above it, the oldest one without a request is closed
    requests: int = 32  # under way at once
    waiting: int = 32  # calls that wait for an operator
    requests_per_s: float = 100.0
    requests_saved: float = 20.0  # burst
    bytes_at_once: int = 16 * MIB  # of bodies that are read or answered
    bytes_per_s: float = 256 * 1024.0  # of messages for the engine
    bytes_saved_s: float = 4.0  # burst of messages: the bytes of this many seconds
    head_s: float = 5.0  # until the head of a request has arrived
    body_s: float = 10.0  # until its body has arrived
    dry_runs_per_minute: int = 120
    # A report is large if it is beyond this many times the price of its tokens, and not small.
    price_factor: int = 10
    small_report_usd: float = 1.0
    money_share: float = 0.5  # of the daily budget, for costs that were not reserved
    doubted_names: int = 64  # anonymous names a day that are paused for large reports
    # Of the models and of the dependencies of a day, those that it was the first to use.
    names: int = 250
    anonymous_names: int = 125
    night_share: float = 0.5  # of the urgent messages that one person gets during quiet hours
