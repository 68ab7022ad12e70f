"""The exceptions of the client. Callers see only `Blocked`.

Exception
├── Blocked           the body of a `guard` is not allowed to run
├── InVain            a wait would end before anybody can be notified
├── Malformed         a value violates the contract
└── Down              the daemon cannot be reached
    ├── KeyRejected   the agent needs another key
    ├── Lost          the connection broke
    ├── NotNow        the daemon refuses for now; another one may soon accept
    └── Unheard       the server has no daemon connected
"""

from datetime import datetime

from safetyd.core.messages.decision import Decision


class Blocked(Exception):
    """The body of a `guard` did not run: the action is blocked or still needs approval.

    `decision` is the daemon's decision. If it is pending, `decision.request_id` is the request.
    """

    def __init__(self, decision: Decision) -> None:
        said = decision.reason or decision.cause
        waits = decision.status == "pending"
        super().__init__(f"needs approval ({decision.request_id}): {said}" if waits else said)
        self.decision = decision


class InVain(Exception):
    """Nobody who may answer the pending request can be notified before the wait ends."""

    def __init__(self, pending: Decision, reachable_from: datetime) -> None:
        super().__init__(pending.reason)
        self.pending = pending
        self.reachable_from = reachable_from


class Malformed(Exception):
    """A value violates the contract. The text names it."""


class Down(Exception):
    """The daemon cannot be reached. The text says why and how to fix it."""


class KeyRejected(Down):
    """The agent's key file cannot be used, or the bus does not accept the agent without a key."""


class Lost(Down):
    """The connection broke after a message was sent on it."""


class NotNow(Down):
    """The daemon cannot answer now, and says that the message should be sent again."""


class Unheard(Down):
    """The server replied that no daemon is subscribed."""
