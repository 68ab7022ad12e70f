"""Tracks when an operator was last active, and reports long absences."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    BudgetRaised,
    CostStruck,
    Forgotten,
    Paused,
    PersonSeen,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.guards.anomaly.findings import Detector, FoundCondition

HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0

# Values of `by` that are not operators.
_MACHINES: Final = frozenset({"safetyd", "file", "environment"})

Hours = Annotated[float, Meta(ge=0)]


class HumanConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Restrictions after some hours without an active operator. 0 disables a restriction."""

    confirm_after_h: Hours = 0.0  # after this many hours, irreversible proposals need approval
    safe_mode_after_h: Hours = 0.0


class Presence(msgspec.Struct):
    seen_t: float | None = None
    told_t: float | None = None  # when the absence of operators was last reported
    safe_mode: bool = False  # global safe mode is active

    def away_s(self, t: float) -> float:
        """Return the seconds since an operator was last active, or since the first start."""
        return 0.0 if self.seen_t is None else t - self.seen_t

    def away(self, hours: float, t: float) -> bool:
        """Return whether no operator was active for more than `hours`.

        Return False if `hours` is 0.
        """
        return hours > 0 and self.away_s(t) > hours * HOUR_S

    def see(self, t: float) -> None:
        self.seen_t = t if self.seen_t is None else max(t, self.seen_t)
        self.told_t = None


class NoHuman(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No operator has been active for a long time. Reported once a day."""

    id: ClassVar[str] = "no_human"

    after_h: Annotated[float, Meta(gt=0)] = 24.0

    def found(self, people: Presence, t: float) -> FoundCondition | None:
        if not people.away(self.after_h, t):
            return None
        if people.told_t is not None and t < people.told_t + DAY_S:
            return None
        usual = f"an operator within {self.after_h:g} h"
        return FoundCondition(self.severity, nobody_for(people.away_s(t)), usual=usual)


def nobody_for(seconds: float) -> str:
    return f"No person seen for {int(seconds / HOUR_S)} h"


def by_a_person(event: Event) -> bool:
    """Return whether an operator caused this event."""
    if isinstance(event, Stopped | Paused):
        return event.source == "operator"
    if isinstance(event, Unpaused) and event.approved:
        return False  # it follows from an answer
    if isinstance(event, Resumed | Unpaused | SafeModeEntered | SafeModeExited | Forgotten):
        return event.by not in _MACHINES
    return isinstance(event, PersonSeen | BudgetRaised | CostStruck)
