"""Helpers of `guard`: the block after a refused claim, and the duration and error to report."""

import time
import traceback
from datetime import datetime
from typing import Final, cast, get_args

import msgspec

from safetyd.client.results import Claim
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import BLOCK, Cause

MAX_ERROR_CHARS: Final = 8192


def unclaimed(decision: Decision, claim: Claim) -> Decision:
    """Return the block that replaces an allow after its claim was refused."""
    # A cause that only claims have means that the approval does not apply, or no longer does.
    cause = cast("Cause", claim.cause) if claim.cause in get_args(Cause) else "conflict"
    why = claim.reason or claim.cause
    return msgspec.structs.replace(
        decision,
        decision=BLOCK,
        cause=cause,
        reason=f"an operator approved this, but the claim was refused: {why}",
        triggered_rules=(f"client.claim:{claim.cause}",),
        agent_message="This was approved, but the claim was refused. Do not act.",
    )


def unreached(pending: Decision, reachable_from: datetime) -> Decision:
    """Return the block that replaces a pending decision that nobody can answer in time."""
    wait_s = None if pending.at is None else (reachable_from - pending.at).total_seconds()
    return msgspec.structs.replace(
        pending,
        decision=BLOCK,
        status="final",
        cause="unreachable",
        reason=(
            f"nobody who may answer can be notified before {reachable_from:%d %b %H:%M} UTC, which "
            "is too late for this agent. The request was withdrawn"
        ),
        triggered_rules=("client.unreachable",),
        retry_after_s=wait_s,
        expires_at=None,
        agent_message=(
            "This needs a person, and nobody can be reached now. Do not act and do not try another "
            "way. Ask again later."
        ),
    )


class Stopwatch:
    """Measures the milliseconds since its creation."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    @property
    def ms(self) -> float:
        return round((time.perf_counter() - self._began_s) * 1000, 3)


def error_of(exc: BaseException) -> str:
    """Return the type and message of `exc` in a form that the daemon accepts."""
    return printable("".join(traceback.format_exception_only(exc)).strip())


def printable(error: str) -> str:
    """Return `error` shortened and cleaned, so that the daemon does not reject the outcome."""
    clean = error.replace("\0", "").encode(errors="backslashreplace").decode()
    return clean[:MAX_ERROR_CHARS]
