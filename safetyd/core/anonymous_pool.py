"""The anonymous pool: all agents without a key share what one agent with a key gets.

Any process on the machine can propose under made-up names, so more names must not mean more.
"""

from typing import Final, Protocol

ANONYMOUS: Final = "*keyless"  # the name of the pool; no agent can have it


class Sender(Protocol):
    """An agent's message, or an event made from one."""

    @property
    def agent(self) -> str: ...
    @property
    def keyless(self) -> bool: ...


class Others(Protocol):
    """Returns True if other agents with a key are known, whose part must be left to them."""

    def __call__(self, *, keyless: bool) -> bool: ...


def counted_as(sender: Sender) -> str:
    """Return whose limits a message counts against: the agent's, or the pool's."""
    return ANONYMOUS if sender.keyless else sender.agent
