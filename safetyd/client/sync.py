"""The blocking client for scripts. Its methods can be called from any thread."""

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

# Time to deliver outcomes, to cancel the delivery, and to close the connection.
JOIN_S: Final = LONGEST_FLUSH_S + FLUSH_S + 1.0
_NO_PERMISSION: Final[PermissionResult] = Denied(reason=NOT_OPEN, cause="unavailable")


class _Closed(Exception):
    """The client's thread has ended."""


def _blocking(
    method: Callable[Concatenate[Safety, P], Coroutine[Any, Any, T]], *, closed: T
) -> Callable[Concatenate["SyncSafety", P], T]:
    """Return a blocking version of `method` that returns `closed` once the client is closed."""

    @wraps(method)
    def call(self: "SyncSafety", /, *args: P.args, **fields: P.kwargs) -> T:
        try:
            return self._run(method(self._safety, *args, **fields))
        except _Closed:
            return closed

    return call


@shows_fields
class SyncSafety(TelemetryCalls[bool]):
    """Ask safetyd before an agent acts, from code without an event loop.

        with SyncSafety("code") as safety:
            decision = safety.propose("run_shell", text="git status")
            if decision.allowed:
                ...  # run the command
                safety.report(decision.id, ok=True)

    It has the methods and options of `Safety`; they block and can be called from any thread. The
    client runs an event loop in its own thread.

    Use `with` or call `close`; otherwise the client is closed when the script ends. A closed
    client blocks every action with cause `unavailable`, and so does a copy in a forked child.
    """

    def __init__(self, agent: str, **options: Unpack[Options]) -> None:
        self._safety = Safety(agent, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave = asyncio.Event()
        self._lock = threading.Lock()  # no call is passed to a loop that is about to end
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"safetyd {agent}", daemon=True)
        self._thread.start()
        self._ready.wait()
        atexit.register(self.close)

    @property
    def stopped(self) -> bool:
        """True while an emergency stop applies to this agent. `propose` still asks the daemon."""
        return self._safety.stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deliver queued outcomes, for about 30 seconds at most, and disconnect.

        Calling it again does nothing.
        """
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
        """Ask whether an action is allowed. See `Safety.propose`."""
        try:
            return self._run(self._safety.propose(action, deadline_s=deadline_s, **fields))
        except _Closed:
            return self._safety.closed(action, fields)

    @contextmanager
    def guard(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[ProposalFields]
    ) -> Iterator[Decision]:
        """Run the body only if the action is allowed. See `Safety.guard`."""
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
    answered = _blocking(Safety.answered, closed=_NO_PERMISSION)
    pending_requests = _blocking(Safety.pending_requests, closed=())
    rolled_back = _blocking(Safety.rolled_back, closed=None)
    last_rollbacks = _blocking(Safety.last_rollbacks, closed=())
    claim = _blocking(
        Safety.claim, closed=Claim(granted=False, cause="unavailable", reason=NOT_OPEN)
    )
    log_action = _blocking(Safety.log_action, closed=False)
    report = _blocking(Safety.report, closed=False)
    _tell = _blocking(Safety._tell, closed=False)  # noqa: SLF001 - the blocking version

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
        # Checked before locking: in a forked child, the lock may be held by a thread that is gone.
        if self._thread.is_alive():
            with self._lock:
                if self._loop is not None:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise _Closed
