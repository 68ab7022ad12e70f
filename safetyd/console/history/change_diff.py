"""What an approved action changed, beside its request."""

from collections.abc import Awaitable, Callable
from typing import Final

from safetyd.console.failure import Failure
from safetyd.console.operator_connection import Reply

READ_S: Final = 30.0  # git may have much to read

Ask = Callable[..., Awaitable[Reply]]


async def with_diff(ask: Ask, request: Reply) -> Reply:
    """Return a request with the diff of what it changed, if that can be read."""
    kept = request.get("change")
    if not kept:
        return request
    try:
        found = await ask("commit", patience_s=READ_S, **kept)
    except Failure as exc:
        return {**request, "no_diff": exc.message}
    return {**request, "diff": found["diff"]}
