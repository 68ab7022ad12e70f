"""Everything that the client raises; callers meet `Blocked` alone.

Exception
├── Blocked       a guarded body may not run
├── Malformed     a value that the contract does not allow
└── Down          nobody can be asked
    ├── Lost      the connection broke
    └── Unheard   the server finds no daemon
"""

from safetyd.core.messages.decision import Decision


class Blocked(Exception):
    """The body did not run: it was not allowed, or a person has yet to say so."""

    def __init__(self, decision: Decision) -> None:
        said = decision.reason or decision.cause
        waits = decision.status == "pending"
        super().__init__(f"needs a person ({decision.request_id}): {said}" if waits else said)
        self.decision = decision


class Malformed(Exception):
    """A value that the contract does not allow; the text says which."""


class Down(Exception):
    """Nobody can be asked; the text says why and what to do."""


class Lost(Down):
    """The connection broke after something was sent on it."""


class Unheard(Down):
    """The server found nobody who listens."""
