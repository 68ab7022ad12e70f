"""From the wall clock to the steady one and back, as they stood when something happened."""

from datetime import datetime, timedelta

from safetyd.core.events.decision_events import Event


def steady(at: datetime, event: Event) -> float:
    """Return the steady second at which the wall clock, left alone, shows `at`."""
    return event.t + (at - event.at).total_seconds()


def wall(t: float, event: Event) -> datetime:
    """Return what the wall clock, left alone, shows at the steady second `t`."""
    return event.at + timedelta(seconds=t - event.t)
