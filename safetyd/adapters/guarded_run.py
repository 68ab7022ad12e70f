"""Run a tool inside a guard, and report its outcome as the framework understands it."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from safetyd.client import Safety, SyncSafety
from safetyd.client.arguments import ProposalFields

R = TypeVar("R")
Proposal = tuple[str, ProposalFields]
# Exceptions with which a tool answers the model or hands the call over. They are not failures.
Signals = tuple[type[BaseException], ...]


class _Failed(Exception):
    """A tool failed, and its framework turned the error into a result for the model."""

    def __init__(self, result: Any) -> None:
        super().__init__(str(getattr(result, "content", result)))
        self.result = result


def _no_error(_result: object) -> bool:
    return False


async def run(
    safety: Safety,
    proposal: Proposal,
    call: Callable[[], Awaitable[Any]],
    *,
    signals: Signals = (),
    is_error: Callable[[Any], bool] = _no_error,
) -> Any:
    """Return the result of a tool. Raise `Blocked` if it must not run."""
    try:
        async with safety.guard(proposal[0], **proposal[1]):
            try:
                return _checked(await call(), is_error)
            except signals as exc:
                signal = exc
    except _Failed as failed:
        return failed.result
    raise signal


def run_blocking(
    safety: SyncSafety,
    proposal: Proposal,
    call: Callable[[], Any],
    *,
    signals: Signals = (),
    is_error: Callable[[Any], bool] = _no_error,
) -> Any:
    """Do the same as `run` without an event loop."""
    try:
        with safety.guard(proposal[0], **proposal[1]):
            try:
                return _checked(call(), is_error)
            except signals as exc:
                signal = exc
    except _Failed as failed:
        return failed.result
    raise signal


def _checked(result: R, is_error: Callable[[Any], bool]) -> R:
    if is_error(result):
        raise _Failed(result)
    return result
