"""The scenes of the demo: what agents want and what they must be told. Add new ones at the end."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, Unpack

from safetyd.client.fields import ProposalFields

Allow: Final = "allow"
Ask: Final = "require_confirmation"
Block: Final = "block"

SECRET: Final = "correct horse battery staple"  # noqa: S105 - the demo's own


class Stage(Protocol):
    """What a scene can do."""

    def say(self, words: str) -> None:
        """Tell the audience something."""
        ...

    async def wants(
        self, agent: str, expected: str, action: str, /, **fields: Unpack[ProposalFields]
    ) -> None:
        """Let an agent propose, show the answer with its reason, and note whether it was right."""
        ...

    async def fails(self, agent: str, action: str, error: str, /) -> None:
        """Let an agent be allowed, fail, and report that."""
        ...

    async def operator(self, command: str, reason: str = "") -> None:
        """Let the operator stop or resume everything."""
        ...

    def audit_lacks(self, text: str) -> None:
        """Note whether the audit file is free of a text."""
        ...


Scene = tuple[str, Callable[[Stage], Awaitable[None]]]


async def reading(stage: Stage) -> None:
    await stage.wants("reader", Allow, "read_file", paths=["README.md"])


async def destroying(stage: Stage) -> None:
    await stage.wants("coder", Block, "run_shell", text="rm -rf /")


async def ordering(stage: Stage) -> None:
    target = {"label": "Submit Order", "role": "button", "app": "Chrome", "window": "Shop"}
    await stage.wants("shopper", Ask, "click", target=target)


async def doubting(stage: Stage) -> None:
    await stage.wants("clicker", Ask, "click", target={"label": "Next"}, confidence=0.5)


async def looping(stage: Stage) -> None:
    target = {"label": "Load more"}
    seen = {"window_title": "News", "app_name": "Chrome", "url": "https://news.example/"}
    for expected in (Allow, Allow, Block):
        await stage.wants("looper", expected, "click", target=target, observation=seen)


async def typing(stage: Stage) -> None:
    await stage.wants("typist", Ask, "type", text=SECRET, target={"label": "Password"})
    stage.audit_lacks(SECRET)


async def stopping(stage: Stage) -> None:
    await stage.operator("stop", reason="fire drill")
    await stage.wants("reader", Block, "read_file", paths=["README.md"])
    await stage.wants("coder", Block, "run_shell", text="ls")
    await stage.operator("resume")
    await stage.wants("reader", Allow, "read_file", paths=["README.md"])


async def failing(stage: Stage) -> None:
    await stage.fails("tester", "run_tests", "the disk is on fire")


SCENES: Final[tuple[Scene, ...]] = (
    ("A reader reads a file.", reading),
    ("A coder runs a command that destroys everything.", destroying),
    ("A shopper is about to order: a person is asked.", ordering),
    ("A clicker is not sure of what it sees.", doubting),
    ("A looper clicks the same thing three times, and nothing happens.", looping),
    ("A typist fills in a password: a person is asked, and the text is not written down.", typing),
    ("The operator stops everything, reading included, and lets it go on.", stopping),
    ("A tester is allowed to act, fails, and the failure is reported.", failing),
)
