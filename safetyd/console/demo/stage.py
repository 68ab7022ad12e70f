"""The demo's stage: a real daemon, an operator, and agents that use the client library."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Literal, NamedTuple, TypeVar, Unpack

import anyio
import click
import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from safetyd.cards.request_details import RequestRow
from safetyd.client import Decision, Safety
from safetyd.client.arguments import ProposalFields
from safetyd.clock import Clock
from safetyd.console.failure import Failure
from safetyd.console.locations import Location
from safetyd.console.operator_connection import OperatorConnection, connected
from safetyd.console.render import guard_tables, request_tables
from safetyd.console.render.event_line import event_line
from safetyd.console.render.terminal_card import card
from safetyd.console.terminal_text import plain, several
from safetyd.core.messages.verdict import Cause
from safetyd.journal.audit import files
from safetyd.operators.contract.agent_contract import AgentSeen, AgentsQuestion
from safetyd.operators.contract.guard_contract import BreakersQuestion
from safetyd.operators.contract.hold_contract import SafeModeQuestion
from safetyd.operators.contract.question import Command, Question, name_of
from safetyd.operators.contract.request_contract import (
    ApproveCommand,
    DenyCommand,
    HistoryQuestion,
    PendingQuestion,
    RequestQuestion,
)
from safetyd.operators.replies import Done

DEADLINE_S: Final = 5.0
PATIENCE_S: Final = 10.0
LOOK_S: Final = 0.05

_SAID: Final = {"allow": "allowed", "require_confirmation": "needs approval", "block": "blocked"}


class Shown(NamedTuple):
    """A question, a function that returns the rows of its answer, and one that prints a row."""

    question: Question[Done]
    rows: Callable[[Any], Sequence[Any]]
    render: Callable[[Any, Any], str]


# The keys are command names.
SHOWN: Final[Mapping[str, Shown]] = {
    "safe-mode": Shown(
        SafeModeQuestion(), lambda found: (found,), lambda _, row: guard_tables.safe_mode(row)
    ),
    "breakers": Shown(
        BreakersQuestion(),
        lambda found: found.breakers,
        lambda found, row: guard_tables.breakers(replace(found, breakers=(row,), left_out=0)),
    ),
    "log": Shown(
        HistoryQuestion(),
        lambda found: found.history,
        lambda _, row: request_tables.history([row]),
    ),
}

# The expected decision or, for a block, its expected cause.
Expected = Literal["allow", "require_confirmation", "block"] | Cause
Scene = tuple[str, Callable[["Stage"], Awaitable[None]]]
Answer = Callable[[], bool]
Found = TypeVar("Found")


async def play(
    location: Location,
    scenes: Mapping[int, Scene],
    patience_s: float = PATIENCE_S,
    answer: Answer | None = None,
) -> "Stage":
    """Play scenes and return the stage with its counts.

    `answer` returns True to approve a request. Without it, all requests are approved.
    """
    async with connected(location) as operator, AsyncExitStack() as stack:
        played = Stage(location, operator, stack, patience_s, answer)
        await operator.listen(played.heard)
        for number, (title, scene) in scenes.items():
            click.echo(f"\n{number}. {title}")
            await scene(played)
    return played


class Stage:
    """Plays scenes and counts surprises: results that were not expected, or came too late."""

    def __init__(
        self,
        location: Location,
        operator: OperatorConnection,
        stack: AsyncExitStack,
        patience_s: float,
        answer: Answer | None,
    ) -> None:
        self._location = location
        self._operator = operator
        self._stack = stack
        self._patience_s = patience_s
        self._answer = answer
        self._agents: dict[str, Safety] = {}
        self._events: list[dict[str, Any]] = []
        self._told: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self.surprises = 0

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{count} {_SAID[name]}" for name, count in self._told.items())
        verdict = several(self.surprises, "SURPRISE") if self.surprises else "all as expected"
        return f"{several(self._told.total(), 'decision')} ({counts}), {verdict}."

    def heard(self, payload: bytes) -> None:
        """Record a SafetyEvent."""
        self._events.append(msgspec.json.decode(payload))

    def say(self, words: str) -> None:
        click.echo(f"   {plain(words)}")

    async def wants(
        self, agent: str, expected: Expected, action: str, /, **fields: Unpack[ProposalFields]
    ) -> None:
        """Let an agent propose an action. Print the decision and whether it was expected."""
        self._judge(await self._proposed(agent, action, fields), expected)

    async def does(
        self, agent: str, action: str, /, *, error: str = "", **fields: Unpack[ProposalFields]
    ) -> None:
        """Let an agent propose an action and report its outcome: success, or `error`."""
        decision = await self._proposed(agent, action, fields)
        self._judge(decision, "allow")
        if decision.allowed:
            await self._report(decision, error, fields.get("dependency"))

    async def asks(self, agent: str, action: str, /, **fields: Unpack[ProposalFields]) -> None:
        """Let an agent wait for approval; print the request and answer it."""
        expected: list[Expected] = []

        async def review() -> None:
            expected.append("allow" if await self._reviewed(agent) else "human_denied")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(review)
            decision = await self._proposed(agent, action, {**fields, "wait": True})
        self._judge(decision, *expected)

    async def _reviewed(self, agent: str) -> bool:
        """Print the request of an agent, answer it, and return True if it was approved."""

        async def look() -> RequestRow | None:
            rows = (await self._operator.ask(PendingQuestion(agent=agent))).requests
            return rows[0] if rows else None

        row = await self._found(look)
        if row is None:
            self._note(right=False, said=f"{agent} has no pending request")
            return False
        details = (await self._operator.ask(RequestQuestion(id=row.id))).request
        for line in card(details, Clock().now().at).splitlines():
            click.echo(f"   {line}")
        yes = await self._answered()
        answer = ApproveCommand(ids=(row.id,)) if yes else DenyCommand(ids=(row.id,))
        await self._operator.ask(answer)
        self.say(f"answer: {name_of(type(answer))}")
        return yes

    async def _answered(self) -> bool:
        if self._answer is not None:
            return await anyio.to_thread.run_sync(self._answer)
        self.say("(without a terminal, the demo approves the request)")
        return True

    async def operator(self, command: Command[Done], /, *, refused: str = "") -> None:
        """Send an operator's command. `refused` is the expected error code, if any."""
        said = to_builtins(command)
        reason = f"({said['reason']})" if "reason" in said else ""
        words = (said["command"].replace("_", " "), said.get("agent"), reason)
        self.say(f"operator: {' '.join(word for word in words if word)}")
        try:
            await self._operator.ask(command)
        except Failure as exc:
            self._note(right=exc.code == refused, said=f"-> refused: {exc}")
        else:
            self._note(right=not refused, said="-> done")

    async def shows(self, command: str, /, **expected: object) -> None:
        """Wait until a row of the answer has the `expected` fields, and print it."""
        shown = SHOWN[command]

        async def look() -> str | None:
            found = await self._operator.ask(shown.question)
            for row in shown.rows(found):
                if all(getattr(row, name) == value for name, value in expected.items()):
                    return shown.render(found, row)
            return None

        text = await self._found(look)
        said = "shows:" if text else f"does not show {expected}"
        self._note(right=text is not None, said=f"`safetyd {command}` {said}")
        for line in (text or "").splitlines():
            self.say(f"  {line}")

    async def hears(self, event_type: str, agent: str, /) -> None:
        """Wait for an event of an agent on the bus, and print it."""

        async def look() -> dict[str, Any] | None:
            wanted = {"event_type": event_type, "agent_id": agent}.items()
            return next((event for event in self._events if wanted <= event.items()), None)

        event = await self._found(look)
        said = event_line(event) if event else f"no {event_type}"
        self._note(right=event is not None, said=f"event: {said}")

    async def waits(self, seconds: float, why: str) -> None:
        self.say(f"waiting {seconds:g} s: {why}")
        await anyio.sleep(seconds)

    def audit_lacks(self, text: str) -> None:
        """Check that a text is not in the audit files."""
        paths = files(self._location.data_dir / "audit")
        written = any(text.encode() in path.read_bytes() for path in paths)
        self._note(right=not written, said="the text is not in the audit file")

    async def _proposed(self, agent: str, action: str, fields: ProposalFields) -> Decision:
        self.say(f"{agent} proposes: {_wish(action, fields)}")
        safety = await self._safety(agent)
        return await safety.propose(action, **fields)

    async def _safety(self, agent: str) -> Safety:
        if agent not in self._agents:
            client = Safety(agent, data_dir=self._location.data_dir, deadline_s=DEADLINE_S)
            self._agents[agent] = await self._stack.enter_async_context(client)
        return self._agents[agent]

    def _judge(self, decision: Decision, expected: Expected) -> None:
        said = decision.decision.value
        self._told[said] += 1
        right = expected == said or (said == "block" and expected == decision.cause)
        why = "" if decision.allowed else f": {decision.reason}{_limit(decision)}"
        self._note(right=right, said=f"-> {_SAID[said]}{why}")

    async def _report(self, decision: Decision, error: str, dependency: str | None) -> None:
        """Report an outcome, wait until the daemon has recorded it, and print it."""

        async def look() -> AgentSeen | None:
            rows = (await self._operator.ask(AgentsQuestion())).agents
            row = next(row for row in rows if row.agent == agent)
            return None if decision.id in row.open_actions else row

        agent = decision.agent
        safety = await self._safety(agent)
        await safety.report(decision.id, ok=not error, error=error, dependency=dependency)
        self._failed[agent] += bool(error)
        row = await self._found(look)
        right = row is not None and row.failed == self._failed[agent]
        self._note(right=right, said=_ending(error, self._failed[agent]))

    async def _found(self, look: Callable[[], Awaitable[Found | None]]) -> Found | None:
        """Poll until `look` returns something. Return None after `patience_s`."""
        ends = anyio.current_time() + self._patience_s
        found = await look()
        while found is None and anyio.current_time() < ends:
            await anyio.sleep(LOOK_S)
            found = await look()
        return found

    def _note(self, *, right: bool, said: str) -> None:
        self.surprises += not right
        self.say(said if right else f"SURPRISE: {said}")


def _limit(decision: Decision) -> str:
    """Return the limit that the proposal exceeded, if any, and when to retry."""
    wait_s = decision.retry_after_s
    facts = (decision.limit_id, f"retry after {wait_s:.1f} s" if wait_s is not None else None)
    said = ", ".join(fact for fact in facts if fact)
    return f" [{said}]" if said else ""


def _ending(error: str, failures: int) -> str:
    if not error:
        return "outcome: ok"
    return f"outcome: error ({error}), {several(failures, 'failed action')} so far"


def _wish(action: str, fields: ProposalFields) -> str:
    """Describe a proposal in one line."""
    target = fields.get("target")
    label = target.get("label", "") if isinstance(target, Mapping) else ""
    sure, cost_usd = fields.get("confidence"), fields.get("cost_usd")
    words = (
        action,
        repr(fields["text"]) if fields.get("text") else "",
        " ".join(map(str, fields.get("paths") or ())),
        f"on {label!r}" if label else "",
        f"from {fields['dependency']}" if fields.get("dependency") else "",
        f"for ${cost_usd:.2f}" if cost_usd is not None else "",
        f"({sure:.0%} sure)" if sure is not None else "",
    )
    return " ".join(word for word in words if word)
