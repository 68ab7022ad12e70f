"""Compares the tools that ran with the answers to hooks.

A hook asks before a tool runs, and telemetry and reports arrive afterwards. So a tool that ran was
allowed by then. Otherwise, its hook did not ask, or the host did not honour the answer.
"""

import math
from collections import deque
from collections.abc import Iterator, MutableMapping
from typing import Final, NamedTuple, TypeVar

import anyio

from safetyd.hosts.hook_event import Dialect, HookEvent
from safetyd.hosts.otlp_records import ToolRun
from safetyd.hosts.tool_call import MAX_WORD

WAIT_S: Final = 0.5  # the tools of one session that ran in this time are one finding
MAX_ASKED: Final = 20_000
MAX_WAITING: Final = 4096
MAX_TOOLS: Final = 5  # that are named

Key = TypeVar("Key")
Value = TypeVar("Value")


class Unasked(NamedTuple):
    """Tools of one session that ran unasked. `refused` counts the calls that safetyd refused."""

    agent: str
    host: Dialect
    session: str
    tools: tuple[str, ...]
    calls: int
    refused: int = 0


class Question(NamedTuple):
    """A call that a hook has sent. `call` is empty if the host gives its calls no id."""

    agent: str
    session: str
    tool: str
    call: str


class _Waiting(NamedTuple):
    due_t: float
    agent: str
    run: ToolRun


class _Balance:
    """How often a tool was allowed in a session, how often refused, and how often it ran."""

    def __init__(self) -> None:
        self.allowed = 0
        self.refused = 0
        self.ran = 0


class UnaskedCalls:
    """`since` is when the daemon started. Earlier questions are not known."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._agents: dict[str, None] = {}
        # The answers, by agent, session and call. None: not answered yet.
        self._answers: dict[tuple[str, str, str], bool | None] = {}
        # Calls without an id are counted, by agent, session and tool.
        self._counts: dict[tuple[str, str, str], _Balance] = {}
        self._waiting: deque[_Waiting] = deque()
        self._heard = anyio.Event()  # replaced with each question and answer

    def asked(self, agent: str, event: HookEvent) -> Question:
        """Note that a hook asked."""
        session, tool = event.session_id[:MAX_WORD], event.tool_name[:MAX_WORD]
        question = Question(agent, session, tool, event.tool_use_id[:MAX_WORD])
        _put(self._agents, agent, None)
        if question.call:
            self._note(question, None)
        return question

    def answered(self, question: Question, *, allowed: bool) -> None:
        """Note the answer to a question."""
        agent, session, tool, call = question
        if call:
            self._note(question, allowed)
        elif allowed:
            self._balance(agent, session, tool).allowed += 1
        else:
            self._balance(agent, session, tool).refused += 1

    def was_asked(self, agent: str, session: str, call: str) -> bool:
        """Return whether a hook has sent a call."""
        return (agent, session, call) in self._answers

    async def until_asked(self, agent: str, session: str, call: str) -> None:
        """Wait until a hook sends a call."""
        while not self.was_asked(agent, session, call):
            await self._heard.wait()

    async def answer(self, agent: str, session: str, call: str) -> bool:
        """Wait for the answer about a call; return whether it was allowed."""
        while (allowed := self._answers.get((agent, session, call))) is None:
            await self._heard.wait()
        return allowed

    def has_asked(self, agent: str) -> bool:
        """Return whether a hook of this agent has ever asked this daemon."""
        return agent in self._agents

    def ran(self, agent: str, run: ToolRun, t: float) -> None:
        """Note that a tool ran, as its telemetry or a report says."""
        if not self._is_known(agent, run) or len(self._waiting) >= MAX_WAITING:
            return
        if not run.call:
            self._balance(agent, run.session, run.tool).ran += 1
        self._waiting.append(_Waiting(t + WAIT_S, agent, run))

    @property
    def due_t(self) -> float | None:
        """Return when `due` must be called next."""
        return self._waiting[0].due_t if self._waiting else None

    def due(self, t: float) -> Iterator[Unasked]:
        """Yield the tools that ran unasked, by session, and forget them."""
        found: dict[tuple[str, Dialect, str], list[tuple[str, bool]]] = {}
        while self._waiting and self._waiting[0].due_t <= t:
            _, agent, run = self._waiting.popleft()
            if not self._was_allowed(agent, run):
                ran = run.tool, self._was_refused(agent, run)
                found.setdefault((agent, run.host, run.session), []).append(ran)
        for (agent, host, session), runs in found.items():
            named = tuple(dict.fromkeys(tool for tool, _ in runs))[:MAX_TOOLS]
            refused = sum(was_refused for _, was_refused in runs)
            yield Unasked(agent, host, session, named, len(runs), refused)

    def _note(self, question: Question, allowed: bool | None) -> None:  # noqa: FBT001 - an answer
        agent, session, _, call = question
        _put(self._answers, (agent, session, call), allowed)
        self._heard.set()
        self._heard = anyio.Event()

    def _is_known(self, agent: str, run: ToolRun) -> bool:
        """Return whether this daemon was already running when the hook should have asked."""
        if math.isnan(run.began):
            return (agent, run.session, run.call) in self._answers
        return run.began >= self._since

    def _was_allowed(self, agent: str, run: ToolRun) -> bool:
        if run.call:
            return self._answers.get((agent, run.session, run.call)) is True
        balance = self._balance(agent, run.session, run.tool)
        if balance.ran <= balance.allowed:
            return True
        balance.ran -= 1
        return False

    def _was_refused(self, agent: str, run: ToolRun) -> bool:
        if run.call:
            return (agent, run.session, run.call) in self._answers
        balance = self._balance(agent, run.session, run.tool)
        if balance.refused == 0:
            return False
        balance.refused -= 1
        return True

    def _balance(self, agent: str, session: str, tool: str) -> _Balance:
        key = agent, session, tool
        return _put(self._counts, key, self._counts.get(key) or _Balance())


def _put(known: MutableMapping[Key, Value], key: Key, value: Value) -> Value:
    """Store a value as the newest; forget the oldest if there are too many."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MAX_ASKED:
        del known[next(iter(known))]
    return value
