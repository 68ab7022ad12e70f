"""The anonymous pool: all agents without a key share the limits of one agent with a key.

Any process on the machine can invent names, so using several names must give no advantage.
"""

from typing import Final, Protocol

ANONYMOUS: Final = "*keyless"  # the name of the pool; no agent can have it


class Sender(Protocol):
    """The sender of a message: an agent, with or without a key."""

    @property
    def agent(self) -> str: ...
    @property
    def keyless(self) -> bool: ...


class Others(Protocol):
    """Returns True if other agents with keys are known, for whom a part is then reserved."""

    def __call__(self, *, keyless: bool) -> bool: ...


def counted_as(sender: Sender) -> str:
    """Return the name that a message is counted under: the agent, or the anonymous pool."""
    return ANONYMOUS if sender.keyless else sender.agent
