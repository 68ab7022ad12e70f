"""Compares the tools that ran with the questions of hooks.

A hook asks before a tool runs, and telemetry arrives afterwards. If no hook has asked ten seconds
after the telemetry arrived, the tool ran unasked.
"""

from collections import deque
from collections.abc import Iterator, MutableMapping
from typing import Final, NamedTuple, TypeVar

from safetyd.hosts.hook_event import Dialect, HookEvent
from safetyd.hosts.otlp_records import ToolRun
from safetyd.hosts.tool_call import MAX_WORD

WAIT_S: Final = 10.0
MAX_ASKED: Final = 20_000
MAX_WAITING: Final = 4096
MAX_TOOLS: Final = 5  # that are named

Key = TypeVar("Key")
Value = TypeVar("Value")


class Unasked(NamedTuple):
    """Tools of one session that ran unasked."""

    agent: str
    host: Dialect
    session: str
    tools: tuple[str, ...]
    calls: int


class _Waiting(NamedTuple):
    due_t: float
    agent: str
    run: ToolRun


class _Balance:
    """How often a hook asked for a tool in a session, and how often the tool ran."""

    def __init__(self) -> None:
        self.asked = 0
        self.ran = 0


class UnaskedCalls:
    """`since` is when the daemon started. Earlier questions are not known."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._agents: dict[str, None] = {}
        self._asked: dict[tuple[str, str, str], None] = {}  # by agent, session and call
        # Calls without an id are counted, by agent, session and tool.
        self._counts: dict[tuple[str, str, str], _Balance] = {}
        self._waiting: deque[_Waiting] = deque()

    def asked(self, agent: str, event: HookEvent) -> None:
        """Note that a hook asked."""
        session = event.session_id[:MAX_WORD]
        _put(self._agents, agent, None)
        if event.tool_use_id:
            _put(self._asked, (agent, session, event.tool_use_id[:MAX_WORD]), None)
        else:
            self._balance(agent, session, event.tool_name[:MAX_WORD]).asked += 1

    def has_asked(self, agent: str) -> bool:
        """Return whether a hook of this agent has ever asked this daemon."""
        return agent in self._agents

    def ran(self, agent: str, run: ToolRun, t: float) -> None:
        """Note that a tool ran, as its telemetry says."""
        if run.began < self._since or len(self._waiting) >= MAX_WAITING:
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
        found: dict[tuple[str, Dialect, str], list[str]] = {}
        while self._waiting and self._waiting[0].due_t <= t:
            _, agent, run = self._waiting.popleft()
            if self._is_unasked(agent, run):
                found.setdefault((agent, run.host, run.session), []).append(run.tool)
        for (agent, host, session), tools in found.items():
            named = tuple(dict.fromkeys(tools))[:MAX_TOOLS]
            yield Unasked(agent, host, session, named, len(tools))

    def _is_unasked(self, agent: str, run: ToolRun) -> bool:
        if run.call:
            return (agent, run.session, run.call) not in self._asked
        balance = self._balance(agent, run.session, run.tool)
        if balance.ran <= balance.asked:
            return False
        balance.ran -= 1
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
