"""Methods that send telemetry, shared by both clients."""

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
    Unreported,
)

R = TypeVar("R")


class TelemetryCalls(ABC, Generic[R]):
    """Each method sends one message once, and returns True if the daemon recorded it.

    `R` is `bool` in `SyncSafety` and an awaitable `bool` in `Safety`.
    """

    @abstractmethod
    def _tell(self, telemetry: AnyTelemetry) -> R: ...

    def unreported(self, proposal: str) -> R:
        """Record that no outcome of this proposal will be reported."""
        return self._tell(Unreported(id=proposal))

    def session_started(
        self, session: str, *, provider: str | None = None, model: str | None = None
    ) -> R:
        """Record that a session started, with the provider and the name of its model."""
        return self._tell(SessionStarted(session=session, provider=provider, model=model))

    def session_ended(self, session: str, *, scheduled_next: str | None = None) -> R:
        """Record that a session ended. `scheduled_next` says in words when the next one starts."""
        return self._tell(SessionEnded(session=session, scheduled_next=scheduled_next))

    def episode_ended(self, episode: str) -> R:
        """Record that an episode ended."""
        return self._tell(EpisodeEnded(episode=episode))

    def iteration(self, session: str | None = None) -> R:
        """Record one iteration of the agent's loop."""
        return self._tell(Iteration(session=session))

    def metrics(
        self,
        *,
        iterations_per_hour: float | None = None,
        api_cost_last_hour: float | None = None,
        files_changed_per_commit: float | None = None,
        error_rate: float | None = None,
    ) -> R:
        """Record the agent's own metrics. The daemon uses a value if it is worse than its own."""
        return self._tell(
            Metrics(
                iterations_per_hour=iterations_per_hour,
                api_cost_last_hour=api_cost_last_hour,
                files_changed_per_commit=files_changed_per_commit,
                error_rate=error_rate,
            )
        )

    def heartbeat(self, *, stop_epoch: int | None = None) -> R:
        """Record that the agent is alive. A connected client sends heartbeats automatically.

        `stop_epoch` acknowledges the emergency stop with that number.
        """
        return self._tell(Heartbeat(stop_epoch=stop_epoch))

    def commit(self, ref: str, *, files_changed: int | None = None) -> R:
        """Record a commit that the agent made."""
        return self._tell(Commit(ref=ref, files_changed=files_changed))

    def rollback(self, ref: str, *, files_changed: int | None = None) -> R:
        """Record that the agent restored files to the commit `ref`."""
        return self._tell(Rollback(ref=ref, files_changed=files_changed))
