"""The chain: every guard is asked, the strictest wins, of equals the first gives the reason."""

from typing import TYPE_CHECKING

from safetyd.core.actor import Guard
from safetyd.core.guards.gate import Gate
from safetyd.core.guards.keys import KeysGuard
from safetyd.core.guards.stop import StopGuard

if TYPE_CHECKING:
    from safetyd.core.policy import Policy  # which is made of the guards' own configurations


def chain(policy: "Policy", stop: StopGuard, keys: KeysGuard) -> tuple[Guard, ...]:
    """Return the guards in the order in which they are asked.

    `stop` and `keys` are handed in because the daemon also reads them.
    """
    return (
        stop,
        keys,
        Gate(policy.gate, policy.confidence, policy.profile),
    )
