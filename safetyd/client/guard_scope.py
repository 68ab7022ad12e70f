"""A guarded body: the block when its claim is refused, and what is reported of how it went."""

import time
import traceback
from typing import Final, cast, get_args

import msgspec

from safetyd.client.results import Claim
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import BLOCK, Cause

MAX_ERROR_CHARS: Final = 8192


def unclaimed(decision: Decision, claim: Claim) -> Decision:
    """Return the block that an allow becomes when its claim is refused."""
    # Of a claim's own causes all say that the approval is not for this, or not any more.
    cause = cast("Cause", claim.cause) if claim.cause in get_args(Cause) else "conflict"
    return msgspec.structs.replace(
        decision,
        decision=BLOCK,
        cause=cause,
        reason=f"a person approved this, but it cannot be claimed: {claim.reason or claim.cause}",
        triggered_rules=(f"client.claim:{claim.cause}",),
        agent_message="This was approved, but it is not yours to do now. Do not act.",
    )


class Stopwatch:
    """Milliseconds since it was made."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    @property
    def ms(self) -> float:
        return round((time.perf_counter() - self._began_s) * 1000, 3)


def error_of(exc: BaseException) -> str:
    """Return type and message of `exc`, whatever its message is made of."""
    return printable("".join(traceback.format_exception_only(exc)).strip())


def printable(error: str) -> str:
    """Return `error` such that the daemon takes it: an error must not be lost for its length."""
    clean = error.replace("\0", "").encode(errors="backslashreplace").decode()
    return clean[:MAX_ERROR_CHARS]
