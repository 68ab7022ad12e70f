"""The client for scripts: the same calls, blocking, safe to make from any thread."""

import asyncio
import atexit
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar, Unpack

from safetyd.client.arguments import AskFields, Options, OutcomeFields, ProposalFields, shows_fields
from safetyd.client.exceptions import Blocked
from safetyd.client.guard_scope import Stopwatch, error_of
from safetyd.client.results import Claim, Denied, OwnRequest, PermissionResult
from safetyd.client.safety import FLUSH_S, LONGEST_FLUSH_S, NOT_OPEN, Safety
from safetyd.client.telemetry_calls import TelemetryCalls
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.rollback import Rollback
from safetyd.core.messages.telemetry import AnyTelemetry

T = TypeVar("T")

# Flushing, then giving up, then closing the connection.
JOIN_S: Final = LONGEST_FLUSH_S + FLUSH_S + 1.0


class _Closed(Exception):
    """The thread that would do the work is gone."""


@shows_fields
class SyncSafety(TelemetryCalls[bool]):
    """`Safety` for code without an event loop; it keeps one in a thread.

    Use it with `with`, or call `close`; a script that does neither is closed when it ends. After
    that, and in a forked child, everything is blocked as `unavailable`.
    """

    def __init__(self, agent: str, **options: Unpack[Options]) -> None:
        self._safety = Safety(agent, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave = asyncio.Event()
        self._lock = threading.Lock()  # nothing is handed to a loop that was told to end
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"safetyd {agent}", daemon=True)
        self._thread.start()
        self._ready.wait()
        atexit.register(self.close)

    @property
    def stopped(self) -> bool:
        """Whether people stopped this agent or all. The daemon is asked all the same."""
        return self._safety.stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deliver what is left, for a bounded time. May be called again."""
        atexit.unregister(self.close)
        if not self._thread.is_alive():
            return
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._leave.set)
        self._thread.join(JOIN_S)

    def propose(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[ProposalFields]
    ) -> Decision:
        """See `Safety.propose`."""
        try:
            return self._run(self._safety.propose(action, deadline_s=deadline_s, **fields))
        except _Closed:
            return self._safety.closed(action, fields)

    @contextmanager
    def guard(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[ProposalFields]
    ) -> Iterator[Decision]:
        """See `Safety.guard`."""
        decision = self._cleared(action, deadline_s, fields)
        watch = Stopwatch()
        try:
            yield decision
        except BaseException as exc:
            self.report(decision.id, ok=False, error=error_of(exc), latency_ms=watch.ms)
            raise
        self.report(decision.id, ok=True, latency_ms=watch.ms)

    def is_auto_allowed(self, action: str, /, **fields: Unpack[ProposalFields]) -> bool:
        """See `Safety.is_auto_allowed`."""
        return self._run_or(self._safety.is_auto_allowed(action, **fields), closed=False)

    def request_permission(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[AskFields]
    ) -> PermissionResult:
        """See `Safety.request_permission`."""
        work = self._safety.request_permission(action, deadline_s=deadline_s, **fields)
        return self._run_or(work, closed=Denied(reason=NOT_OPEN, cause="unavailable"))

    def permission(self, request_id: str, /) -> PermissionResult:
        """See `Safety.permission`."""
        work = self._safety.permission(request_id)
        return self._run_or(work, closed=Denied(reason=NOT_OPEN, cause="unavailable"))

    def pending_requests(self) -> tuple[OwnRequest, ...]:
        """See `Safety.pending_requests`."""
        return self._run_or(self._safety.pending_requests(), closed=())

    def rolled_back(self, *, timeout_s: float | None = None) -> Rollback | None:
        """See `Safety.rolled_back`."""
        return self._run_or(self._safety.rolled_back(timeout_s=timeout_s), closed=None)

    def last_rollbacks(self) -> tuple[Rollback, ...]:
        """See `Safety.last_rollbacks`."""
        return self._run_or(self._safety.last_rollbacks(), closed=())

    def claim(
        self,
        decision: Decision,
        /,
        *,
        claimant: str | None = None,
        deadline_s: float | None = None,
    ) -> Claim:
        """See `Safety.claim`."""
        work = self._safety.claim(decision, claimant=claimant, deadline_s=deadline_s)
        return self._run_or(work, closed=Claim(granted=False, cause="unavailable", reason=NOT_OPEN))

    def log_action(
        self,
        action: str,
        /,
        *,
        description: str = "",
        details: Mapping[str, object] | None = None,
        ok: bool = True,
        proposal: str | None = None,
    ) -> bool:
        """See `Safety.log_action`."""
        work = self._safety.log_action(
            action, description=description, details=details, ok=ok, proposal=proposal
        )
        return self._run_or(work, closed=False)

    def report(self, proposal: str | None, /, *, ok: bool, **fields: Unpack[OutcomeFields]) -> bool:
        """See `Safety.report`."""
        return self._run_or(self._safety.report(proposal, ok=ok, **fields), closed=False)

    def _cleared(self, action: str, deadline_s: float | None, fields: ProposalFields) -> Decision:
        try:
            return self._run(self._safety._cleared(action, deadline_s, fields))  # noqa: SLF001
        except _Closed:
            raise Blocked(self._safety.closed(action, fields)) from None

    def _tell(self, telemetry: AnyTelemetry) -> bool:
        return self._run_or(self._safety._tell(telemetry), closed=False)  # noqa: SLF001 - its twin

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        async with self._safety:
            self._loop = asyncio.get_running_loop()
            self._ready.set()
            await self._leave.wait()

    def _run_or(self, work: Coroutine[Any, Any, T], *, closed: T) -> T:
        """Return what comes of the work, or `closed` when nothing can be asked any more."""
        try:
            return self._run(work)
        except _Closed:
            return closed

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._hand_over(work)
        try:
            return future.result()
        except CancelledError:
            raise _Closed from None
        except BaseException:
            future.cancel()
            raise

    def _hand_over(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        # Asked first: in a forked child the lock may be held by a thread that is not there.
        if self._thread.is_alive():
            with self._lock:
                if self._loop is not None:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise _Closed
