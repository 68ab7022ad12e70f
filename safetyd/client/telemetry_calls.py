"""What an agent can tell of itself, written once for both clients."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from safetyd.core.messages.telemetry import (
    AnyTelemetry,
    Commit,
    EpisodeEnded,
    Heartbeat,
    Iteration,
    Metrics,
    Rollback,
    SessionEnded,
    SessionStarted,
)

R = TypeVar("R")


class TelemetryCalls(ABC, Generic[R]):
    """Each is tried once and gives true if the daemon wrote it down.

    `R` is a bool, or in the async client what one awaits to get it.
    """

    @abstractmethod
    def _tell(self, telemetry: AnyTelemetry) -> R: ...

    def session_started(
        self, session: str, *, provider: str | None = None, model: str | None = None
    ) -> R:
        return self._tell(SessionStarted(session=session, provider=provider, model=model))

    def session_ended(self, session: str, *, scheduled_next: str | None = None) -> R:
        return self._tell(SessionEnded(session=session, scheduled_next=scheduled_next))

    def episode_ended(self, episode: str) -> R:
        return self._tell(EpisodeEnded(episode=episode))

    def iteration(self, session: str | None = None) -> R:
        """Tell that a round of the agent's loop ended."""
        return self._tell(Iteration(session=session))

    def metrics(
        self,
        *,
        iterations_per_hour: float | None = None,
        api_cost_last_hour: float | None = None,
        files_changed_per_commit: float | None = None,
        error_rate: float | None = None,
    ) -> R:
        """Tell the agent's own numbers; the daemon believes them where they are worse than its."""
        return self._tell(
            Metrics(
                iterations_per_hour=iterations_per_hour,
                api_cost_last_hour=api_cost_last_hour,
                files_changed_per_commit=files_changed_per_commit,
                error_rate=error_rate,
            )
        )

    def heartbeat(self, *, stop_epoch: int | None = None) -> R:
        """Tell that the agent is there. The client does this by itself while it is connected."""
        return self._tell(Heartbeat(stop_epoch=stop_epoch))

    def commit(self, ref: str, *, files_changed: int | None = None) -> R:
        return self._tell(Commit(ref=ref, files_changed=files_changed))

    def rollback(self, ref: str, *, files_changed: int | None = None) -> R:
        return self._tell(Rollback(ref=ref, files_changed=files_changed))
