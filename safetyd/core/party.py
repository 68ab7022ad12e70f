"""Who shares what all agents have in common: each agent with a key, and all without one as one.

Anybody on the machine can make up names without a key, so however many there are, together they
get what one gets.
"""

from typing import Final, Protocol

KEYLESS: Final = "*keyless"  # the party of all agents without a key; no agent can have this name


class Sender(Protocol):
    """What came from an agent, or was made of it."""

    @property
    def agent(self) -> str: ...
    @property
    def keyless(self) -> bool: ...


class Others(Protocol):
    """Says whether agents with a key are known beside a party: then it must leave them a part."""

    def __call__(self, *, keyless: bool) -> bool: ...


def party(heard: Sender) -> str:
    return KEYLESS if heard.keyless else heard.agent
