"""How long the new requests of a message waited, and why."""

from datetime import timedelta
from typing import Final, NamedTuple

from safetyd.core.recipients import quiet_until
from safetyd.rehearsal.day_facts import AskedRequest, DayFacts, asked_in
from safetyd.rehearsal.day_record import Arrival
from safetyd.rehearsal.day_rehearsal import TICK_S
from safetyd.rehearsal.rehearsed_channels import TAKES_S

SHORT: Final = timedelta(seconds=10)  # shorter waits need no explanation
_SLACK: Final = timedelta(seconds=2 * TICK_S + TAKES_S)


class Wait(NamedTuple):
    waited: timedelta
    why: str


class MessageWaits:
    """Explains waits. Pass it the messages in the order in which they arrived."""

    def __init__(self, facts: DayFacts) -> None:
        self._facts = facts
        self._quiet = {one.name: one.quiet for one in facts.record.telling.recipients}
        self._shown: dict[tuple[str, str], list[AskedRequest]] = {}  # by recipient and channel

    def of(self, arrival: Arrival) -> Wait | None:
        """Return why the oldest new request of a message waited. None if it hardly did."""
        known = self._shown.setdefault((arrival.recipient, arrival.channel), [])
        asked = [self._facts.requests[ref] for ref in asked_in(arrival) if self._is_request(ref)]
        new = [request for request in asked if request not in known]
        unanswered = any(_pending(request, arrival) for request in known)
        known += new
        if not new:
            return None
        oldest = min(new, key=lambda request: request.asked_at)
        waited = arrival.at - oldest.asked_at
        if waited <= SHORT:
            return None
        return Wait(waited, self._why(oldest, arrival, unanswered=unanswered))

    def _is_request(self, ref: str) -> bool:
        return ref in self._facts.requests

    def _why(self, oldest: AskedRequest, arrival: Arrival, *, unanswered: bool) -> str:
        due = self._facts.messages[arrival.delivery].due
        held = due.at - oldest.asked_at
        if arrival.at - due.at > SHORT and arrival.at - due.at > held:
            return f"{arrival.channel} failed or was busy"
        if arrival.digest or quiet_until(self._quiet[arrival.recipient], oldest.asked_at):
            return "quiet hours"
        if held <= timedelta(seconds=self._facts.record.telling.batch_interval_s) + _SLACK:
            return "batch"
        if unanswered:
            return "earlier ones unanswered"
        return "a limit, or another channel first"


def _pending(request: AskedRequest, arrival: Arrival) -> bool:
    return request.ended_at is None or request.ended_at > arrival.at
