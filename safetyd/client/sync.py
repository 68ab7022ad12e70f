"""The client for scripts: the same calls, blocking, safe to make from any thread."""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from safetyd.client.arguments import Options, ProposalFields, shows_fields
from safetyd.client.exceptions import Blocked
from safetyd.client.guard_scope import Stopwatch, error_of
from safetyd.client.results import Claim, Denied, PermissionResult
from safetyd.client.safety import FLUSH_S, LONGEST_FLUSH_S, NOT_OPEN, Safety
from safetyd.client.telemetry_calls import TelemetryCalls
from safetyd.core.messages.decision import Decision

P = ParamSpec("P")
T = TypeVar("T")

# Flushing, then giving up, then closing the connection.
JOIN_S: Final = LONGEST_FLUSH_S + FLUSH_S + 1.0
_NO_PERMISSION: Final[PermissionResult] = Denied(reason=NOT_OPEN, cause="unavailable")


class _Closed(Exception):
    """The thread that would do the work is gone."""


def _blocking(
    method: Callable[Concatenate[Safety, P], Coroutine[Any, Any, T]], *, closed: T
) -> Callable[Concatenate["SyncSafety", P], T]:
    """Return a method that waits for another's result, or returns `closed` after closing."""

    @wraps(method)
    def call(self: "SyncSafety", /, *args: P.args, **fields: P.kwargs) -> T:
        try:
            return self._run(method(self._safety, *args, **fields))
        except _Closed:
            return closed

    return call


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

    is_auto_allowed = _blocking(Safety.is_auto_allowed, closed=False)
    request_permission = _blocking(Safety.request_permission, closed=_NO_PERMISSION)
    permission = _blocking(Safety.permission, closed=_NO_PERMISSION)
    pending_requests = _blocking(Safety.pending_requests, closed=())
    rolled_back = _blocking(Safety.rolled_back, closed=None)
    last_rollbacks = _blocking(Safety.last_rollbacks, closed=())
    claim = _blocking(
        Safety.claim, closed=Claim(granted=False, cause="unavailable", reason=NOT_OPEN)
    )
    log_action = _blocking(Safety.log_action, closed=False)
    report = _blocking(Safety.report, closed=False)
    _tell = _blocking(Safety._tell, closed=False)  # noqa: SLF001 - its twin

    def _cleared(self, action: str, deadline_s: float | None, fields: ProposalFields) -> Decision:
        try:
            return self._run(self._safety._cleared(action, deadline_s, fields))  # noqa: SLF001
        except _Closed:
            raise Blocked(self._safety.closed(action, fields)) from None

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
