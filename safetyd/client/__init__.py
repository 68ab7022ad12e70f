"""The Python client: propose an action, act only if it is allowed, report its outcome.

    async with Safety("code") as safety:
        decision = await safety.propose("run_shell", text="git status")
        if decision.allowed:
            ...  # run the command
            await safety.report(decision.id, ok=True)

`SyncSafety` has the same methods for scripts without an event loop.
"""

from safetyd.client.exceptions import Blocked
from safetyd.client.results import (
    Approved,
    Claim,
    Denied,
    OwnRequest,
    PermissionResult,
    Queued,
    Timeout,
)
from safetyd.client.safety import Safety
from safetyd.client.sync import SyncSafety
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.rollback import Rollback
from safetyd.core.messages.verdict import Severity

__all__ = [
    "Approved",
    "Blocked",
    "Claim",
    "Decision",
    "Denied",
    "OwnRequest",
    "PermissionResult",
    "Queued",
    "Rollback",
    "Safety",
    "Severity",
    "SyncSafety",
    "Timeout",
]
