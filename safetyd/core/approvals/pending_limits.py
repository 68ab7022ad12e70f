"""Limits on pending requests: of one agent, and of all anonymous agents together."""

from collections.abc import Iterator
from typing import NamedTuple

from safetyd.core.approvals.request import ApprovalsConfig, size_of
from safetyd.core.approvals.request_index import RequestIndex, Waiting
from safetyd.core.events.decision_events import Proposed
from safetyd.core.messages.verdict import BLOCK, Verdict


class Bound(NamedTuple):
    """The pending requests of an agent or of the anonymous pool, and their limits."""

    whose: str
    waiting: Waiting
    most: int
    most_bytes: int
    rule: str
    settings: tuple[str, str]  # names of the settings for the number and for the bytes


def passed(proposed: Proposed, index: RequestIndex, config: ApprovalsConfig) -> Verdict | None:
    """Return a block if one more request would exceed a limit."""
    size = size_of(proposed.proposal)
    for bound in _bounds(proposed, index, config):
        if bound.waiting.count >= bound.most:
            return _too_many(bound)
        if bound.waiting.bytes + size > bound.most_bytes:
            return _too_large(bound, size)
    return None


def _bounds(proposed: Proposed, index: RequestIndex, config: ApprovalsConfig) -> Iterator[Bound]:
    yield Bound(
        proposed.agent,
        index.waiting(proposed.agent),
        config.max_pending_per_agent,
        config.max_pending_bytes_per_agent,
        "approvals.agent",
        ("approvals.max_pending_per_agent", "approvals.max_pending_bytes_per_agent"),
    )
    if proposed.keyless:
        yield Bound(
            "all anonymous agents",
            index.keyless,
            config.max_pending_keyless,
            config.max_pending_bytes_keyless,
            "approvals.keyless",
            ("approvals.max_pending_keyless", "approvals.max_pending_bytes_keyless"),
        )


def _too_many(bound: Bound) -> Verdict:
    count, setting = bound.waiting.count, bound.settings[0]
    reason = f"{bound.whose} reached the limit of {count} pending requests ({setting})"
    return _refused(bound, bound.rule, reason, f"{setting} = {count + 1}")


def _too_large(bound: Bound, size: int) -> Verdict:
    needed, setting = bound.waiting.bytes + size, bound.settings[1]
    reason = (
        f"Pending requests of {bound.whose} would take {needed:,} bytes, "
        f"more than the limit of {bound.most_bytes:,} ({setting})"
    )
    return _refused(bound, f"{bound.rule}_bytes", reason, f"{setting} = {needed}")


def _refused(bound: Bound, rule: str, reason: str, setting: str) -> Verdict:
    return Verdict(
        "approvals",
        BLOCK,
        rule,
        f"{reason}. Wait for answers",
        cause="rate_limit",
        limit_id=f"{rule}:{bound.whose}" if bound.rule == "approvals.agent" else rule,
        remedy=f"after requests of {bound.whose} are answered, or with {setting}",
    )
