"""Duty: who is responsible for urgent requests."""

from datetime import datetime

from safetyd.core.approvals.request import Request
from safetyd.core.on_call import OnCall


class Duty:
    """Reads the rota. Without one, everybody is responsible at all times."""

    def __init__(self, on_call: OnCall) -> None:
        self._on_call = on_call

    @property
    def in_use(self) -> bool:
        """True if a rota is configured."""
        return self._on_call.in_use

    @property
    def hands_over(self) -> bool:
        """True if people are notified when they go on duty."""
        return self._on_call.config.handover

    def covers(self, name: str, at: datetime) -> bool:
        """Return True if a recipient is responsible at a time."""
        return not self.in_use or self._on_call.rota.covers(name, at)

    def off(self, name: str, at: datetime) -> bool:
        """Return True if a recipient is in the rota, and other people are on duty."""
        return name in self._on_call.rota.members and not self.covers(name, at)

    def ends(self, at: datetime) -> datetime | None:
        """Return when other people are on duty, if that is known."""
        return self._on_call.rota.next_change(at)

    def next_after(self, at: datetime) -> tuple[str, ...]:
        """Return the people who are on duty next."""
        return self._on_call.rota.next_after(at) if self.in_use else ()

    def wakes(self, name: str, request: Request, at: datetime) -> bool:
        """Return True if an urgent request may be sent to a recipient at any time.

        `wake_for` lists the actions for which they may be woken even if they are not on duty.
        """
        classes = self._on_call.config.wake_for.get(name, ())
        return (
            self.covers(name, at)
            or "all" in classes
            or request.asked.type in classes
            or request.asked.reversibility in classes
        )
