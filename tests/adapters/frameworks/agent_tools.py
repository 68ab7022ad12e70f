"""The tools of the agents in these tests, and what became of their calls."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from safetyd.client import Safety

REASON: Final = "the disk is on fire"


class Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]


class Tools:
    """Functions that a framework makes tools of. They record the calls that run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run_shell(self, command: str) -> str:
        """Pretend to run a command."""
        await asyncio.sleep(0)
        self.ran.append(command)
        return f"ran {command}"

    async def read_file(self, path: str) -> str:
        """Pretend to read a file."""
        self.ran.append(path)
        return f"content of {path}"

    async def break_down(self, path: str) -> str:
        """Fail after it has begun."""
        self.ran.append(path)
        raise OSError(REASON)

    async def order_pizza(self, kind: str) -> str:
        """Pretend to order a pizza. No type has this name."""
        self.ran.append(kind)
        return f"ordered {kind}"

    @property
    def functions(self) -> list[Callable[..., Any]]:
        return [self.run_shell, self.read_file, self.break_down, self.order_pizza]


class RunAgent(Protocol):
    """Runs an agent whose model makes these calls, all calls of a step at the same time.

    Returns what the model received for each call, in their order.
    """

    async def __call__(
        self, safety: Safety, tools: Tools, *steps: Sequence[Call], **settings: Any
    ) -> list[str]: ...
