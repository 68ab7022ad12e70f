"""The exceptions of the client. Callers see only `Blocked`.

Exception
├── Blocked       the body of a `guard` is not allowed to run
├── Malformed     the contract does not allow a value
└── Down          the daemon cannot be reached
    ├── Lost      the connection broke
    └── Unheard   the server has no daemon connected
"""

from safetyd.core.messages.decision import Decision


class Blocked(Exception):
    """The body of a `guard` did not run: the action is blocked or still needs approval.

    `decision` holds the daemon's decision. For a pending request, `decision.request_id` names it.
    """

    def __init__(self, decision: Decision) -> None:
        said = decision.reason or decision.cause
        waits = decision.status == "pending"
        super().__init__(f"needs a person ({decision.request_id}): {said}" if waits else said)
        self.decision = decision


class Malformed(Exception):
    """The contract does not allow a value. The text names it."""


class Down(Exception):
    """The daemon cannot be reached. The text says why and how to fix it."""


class Lost(Down):
    """The connection broke after a message was sent on it."""


class Unheard(Down):
    """The server replied that no daemon is subscribed."""
