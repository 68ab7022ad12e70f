"""When somebody who may answer a request can be notified of it."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Proposed
from safetyd.core.messages.proposal import Urgency
from safetyd.core.on_call import OnCall
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig, quiet_until
from safetyd.core.rota import Rota, RotaPolicy

# An operator who was active this recently is reachable, whatever the time.
PRESENT_S: Final = 900.0


SOONEST: Final = timedelta(minutes=2)  # minimum time between a message and the deadline

BusyUntil = Callable[[Recipient, datetime], datetime | None]


def in_time(deadline: datetime, asked_at: datetime) -> datetime:
    """Return when a request must be sent, so that it can be answered before its deadline."""
    return deadline - max(SOONEST, (deadline - asked_at) / 4)


class Waking(NamedTuple):
    """Whom a request may wake during quiet hours."""

    rota: Rota
    always: Collection[str] = ()  # recipients who may be woken even if they are off duty

    def wakes_at(self, people: Collection[Recipient], at: datetime, before: datetime) -> datetime:
        """Return when the first of these people may be woken, or `before` if nobody may earlier."""
        names = {person.name for person in people}
        if not names.isdisjoint(self.always):
            return at
        for turn in self.rota.turns(at, before):
            # While nobody is on duty, everybody is responsible.
            if not turn.names or not names.isdisjoint(turn.names):
                return turn.starts
        return before


def reachable_from(
    people: Collection[Recipient], at: datetime, waking: Waking | None = None
) -> datetime | None:
    """Return when the first of these people can be notified, or None if one of them can be now.

    Outside of quiet hours everybody can be. Without people the result is None: then operators look
    at the pending requests themselves.
    """
    ends = [quiet_until(person.quiet, at) for person in people]
    quiet = [end for end in ends if end is not None]
    if not quiet or len(quiet) < len(ends):
        return None
    earliest = min(quiet) if waking is None else waking.wakes_at(people, at, min(quiet))
    return None if earliest == at else earliest


class Reachability:
    """Finds the people who are notified of a request, and when.

    `busy_until` returns when somebody with unanswered messages gets the next one.
    """

    def __init__(self, telling: TellingConfig, on_call: OnCall, busy_until: BusyUntil) -> None:
        self._telling = telling
        self._on_call = on_call
        self._busy_until = busy_until

    def quiet_hours(self, agent: str) -> list[QuietHours]:
        """Return the quiet hours of everybody who is notified of an agent's requests."""
        return [person.quiet for person in self._people(agent)]

    def reachable_from(self, proposed: Proposed, kind: Kind, urgency: Urgency) -> datetime | None:
        """Return when somebody can be notified of a request, or None if somebody is reachable."""
        if self._is_operator_active(proposed):
            return None
        # Without a rota, only requests that the agent itself has marked as urgent wake people.
        wakes = proposed.proposal.urgency == "high" or self._on_call.in_use
        urgent = urgency == "high" and self._telling.quiet_bypass == "high"
        waking = self._waking(kind) if urgent and wakes else None
        return reachable_from(self._people(proposed.agent), proposed.at, waking)

    def notified_from(
        self, proposed: Proposed, kind: Kind, urgency: Urgency, deadline: datetime | None
    ) -> datetime | None:
        """Return when somebody is notified of a new request, or None if that is at once.

        Somebody with unanswered messages gets the next one later, but in time for the deadline.
        """
        at = proposed.at
        later = self.reachable_from(proposed, kind, urgency)
        at_once = urgency == "high" or not proposed.proposal.wait
        if later is not None or at_once or self._is_operator_active(proposed):
            return later
        awake = (who for who in self._people(proposed.agent) if quiet_until(who.quiet, at) is None)
        busy = [self._busy_until(who, at) for who in awake]
        if not busy or None in busy:
            return None
        latest = [] if deadline is None else [in_time(deadline, at)]
        free_at = min([*filter(None, busy), *latest])
        return free_at if free_at > at else None

    def _is_operator_active(self, proposed: Proposed) -> bool:
        seen = self._on_call.seen_t
        return seen is not None and proposed.t - seen < PRESENT_S

    def _people(self, agent: str) -> list[Recipient]:
        people = [who for who in self._telling.recipients if who.channels and who.hears_of(agent)]
        return [who for who in people if not who.shared] or people

    def _waking(self, kind: Kind) -> Waking:
        return Waking(self._on_call.rota, _woken_for(self._on_call.config, kind))


def _woken_for(config: RotaPolicy, kind: Kind) -> list[str]:
    """Return the recipients who may always be woken for an action."""
    named = {"all", kind.type, kind.reversibility}
    return [name for name, classes in config.wake_for.items() if not named.isdisjoint(classes)]
