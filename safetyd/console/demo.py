"""`safetyd demo`: a throw-away daemon and a handful of agents, in words."""

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NoReturn, Unpack

import anyio
import click

from safetyd.audit import files
from safetyd.client import Blocked, Decision, Safety
from safetyd.client.fields import ProposalFields
from safetyd.console.audit import verified
from safetyd.console.failure import BLOCKED
from safetyd.console.person import Operator, connected
from safetyd.console.places import Place
from safetyd.console.plain import plain, several
from safetyd.console.scenes import SCENES
from safetyd.console.throwaway import daemon, forget_environment, tidy

DEADLINE_S: Final = 5.0
LOOK_S: Final = 0.05

CONFIG: Final = """\
[web]
port = 0
"""
_SAID: Final = {"allow": "allowed", "require_confirmation": "a person is asked", "block": "blocked"}


@click.command()
def demo() -> int:
    """Show a few agents being allowed, asked about and blocked."""
    forget_environment()
    directory = Path(tempfile.mkdtemp(prefix="safetyd-demo-"))
    click.echo("This is a daemon of its own, with the defaults, in a directory of its own.")
    try:
        with daemon(directory, CONFIG):
            play = anyio.run(_play, Place(data_dir=directory))
        found = verified(directory / "audit")
    finally:
        tidy(directory)
    click.echo(f"\n{play.summary}")
    click.echo(f"Audit file: {files(directory / 'audit')[-1]}")
    click.echo(f"Its chain of {several(found.records, 'record')} holds.")
    click.echo(f"The rest is removed; {directory} stays, and is yours to delete.")
    return BLOCKED if play.surprises else 0


class Play:
    """A stage with a real daemon behind it."""

    def __init__(self, place: Place, operator: Operator, stack: AsyncExitStack) -> None:
        self._place = place
        self._operator = operator
        self._stack = stack
        self._agents: dict[str, Safety] = {}
        self._told: dict[str, int] = {}
        self.surprises = 0

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{count} {_SAID[name]}" for name, count in self._told.items())
        verdict = several(self.surprises, "SURPRISE") if self.surprises else "all as expected"
        return f"{several(sum(self._told.values()), 'decision')} ({counts}), {verdict}."

    def say(self, words: str) -> None:
        click.echo(f"   {plain(words)}")

    async def wants(
        self, agent: str, expected: str, action: str, /, **fields: Unpack[ProposalFields]
    ) -> None:
        self.say(f"{agent} wants: {_wish(action, fields)}")
        safety = await self._safety(agent)
        self._judge(await safety.propose(action, **fields), expected)

    async def fails(self, agent: str, action: str, error: str, /) -> None:
        self.say(f"{agent} wants: {action}")
        safety = await self._safety(agent)
        try:
            async with safety.guard(action) as decision:
                self._judge(decision, "allow")
                _raise(error)
        except Blocked as exc:
            self._judge(exc.decision, "allow")
        except RuntimeError as exc:
            self.say(f"it fails ({exc}), and guard() reports that")
        await self._reported(agent)

    async def operator(self, command: str, reason: str = "") -> None:
        await self._operator.control(command, reason=reason)
        self.say(f"the operator says: {command}{f' ({reason})' if reason else ''}")

    def audit_lacks(self, text: str) -> None:
        paths = files(self._place.data_dir / "audit")
        written = any(text.encode() in path.read_bytes() for path in paths)
        self._note(right=not written, said="the text is nowhere in the audit file")

    async def _safety(self, agent: str) -> Safety:
        if agent not in self._agents:
            client = Safety(agent, data_dir=self._place.data_dir, deadline_s=DEADLINE_S)
            self._agents[agent] = await self._stack.enter_async_context(client)
        return self._agents[agent]

    def _judge(self, decision: Decision, expected: str) -> None:
        said = decision.decision.value
        self._told[said] = self._told.get(said, 0) + 1
        reason = "" if decision.allowed else f": {decision.reason}"
        self._note(right=said == expected, said=f"-> {_SAID[said]}{reason}")

    async def _reported(self, agent: str) -> None:
        failures, ends = 0, anyio.current_time() + DEADLINE_S
        while not failures and anyio.current_time() < ends:
            await anyio.sleep(LOOK_S)
            failures = await self._failures(agent)
        said = f"the daemon knows of {several(failures, 'failed action')}"
        self._note(right=failures == 1, said=said)

    async def _failures(self, agent: str) -> int:
        rows = (await self._operator.query("agents"))["agents"]
        return sum(row["failed"] for row in rows if row["agent"] == agent)

    def _note(self, *, right: bool, said: str) -> None:
        self.surprises += not right
        self.say(said if right else f"SURPRISE: {said}")


async def _play(place: Place) -> Play:
    async with connected(place) as operator, AsyncExitStack() as stack:
        play = Play(place, operator, stack)
        for number, (title, scene) in enumerate(SCENES, 1):
            click.echo(f"\n{number}. {title}")
            await scene(play)
    return play


def _raise(error: str) -> NoReturn:
    raise RuntimeError(error)


def _wish(action: str, fields: ProposalFields) -> str:
    """Return what an agent wants in words."""
    target = fields.get("target")
    label = target.get("label", "") if isinstance(target, Mapping) else ""
    sure = fields.get("confidence")
    words = (
        action,
        repr(fields["text"]) if fields.get("text") else "",
        " ".join(map(str, fields.get("paths", ()))),
        f"on {label!r}" if label else "",
        f"({sure:.0%} sure)" if sure is not None else "",
    )
    return " ".join(word for word in words if word)
