"""Refusals: blocks of messages that never reach the engine and are not journalled one by one.

They are counted, and the counts are recorded every ten seconds.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from safetyd.core.events.decision_events import Refused
from safetyd.core.events.event import Moment
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Cause, Severity

WINDOW_S: Final = 10.0
MAX_COUNTED: Final = 1000
OTHERS: Final = "-"
# A client accepts a refusal only with the id and digest of its proposal, so the proposal must be
# decoded. Long proposals are decoded at most this often per agent and window.
ANSWERED_IN_FULL: Final = 100
SHORT_BYTES: Final = 2048
# After this many refusals in a window no reply is sent, which is ten times cheaper.
ANSWERED: Final = 1000
EXAMPLE_CHARS: Final = 300

_MESSAGES: Final[dict[str, str]] = {
    "rate_limit": "You send too many messages. Do not act. Wait, then propose again.",
    "malformed": "The message is malformed. Do not act. Fix it and propose again.",
    "unavailable": "safetyd cannot decide now. Do not act and do not try another way.",
}
_STOPPED: Final = "Everything is stopped. Do not act and do not try another way."


class RefusalCount(msgspec.Struct):
    count: int
    example: str


class Refusals:
    """Counts refusals by agent and cause."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Cause], RefusalCount] = {}
        self.total: dict[Cause, int] = {}

    def count(self, agent: str, cause: Cause, reason: str) -> int:
        """Count a refusal. Return the count for its agent and cause in this window."""
        self.total[cause] = self.total.get(cause, 0) + 1
        count = self._counts.get((agent, cause))
        if count is None:
            if len(self._counts) >= MAX_COUNTED:
                agent = OTHERS
            count = self._counts.setdefault((agent, cause), RefusalCount(0, reason[:EXAMPLE_CHARS]))
        count.count += 1
        return count.count

    def take(self, moment: Moment) -> Iterator[Refused]:
        """Yield an event with the count for each agent and cause, and start a new window."""
        counts, self._counts = self._counts, {}
        for (agent, cause), count in counts.items():
            yield Refused(
                at=moment.at,
                t=moment.t,
                agent=agent,
                cause=cause,
                count=count.count,
                example=count.example,
            )


def refusal(  # noqa: PLR0913 - a Decision's own fields
    agent: str,
    id_: str,
    cause: Cause,
    reason: str,
    *,
    digest: str = "",
    rule: str = "",
    retry_after_s: float | None = None,
    limit_id: str | None = None,
    retry: bool = False,
    moment: Moment,
) -> Decision:
    """Return a block that is not a decision of a guard."""
    return Decision(
        id=id_,
        agent=agent,
        decision=Severity.BLOCK,
        cause=cause,
        reason=reason,
        triggered_rules=(rule or f"intake.{cause}",),
        retry_after_s=retry_after_s,
        limit_id=limit_id,
        agent_message=_MESSAGES.get(cause, _STOPPED),
        digest=digest,
        at=moment.at,
        retry=retry or UNSET,
    )
