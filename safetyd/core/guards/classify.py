"""Which types of action pass, are asked about or are prohibited, by the table and the rules.

It remembers two things: memory operations per session, and types that nobody knows.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Final

import msgspec

from safetyd.core.events import Decided, Event, Proposed, SessionClosed
from safetyd.core.guards.projects import Bench, Project, ProjectConfig
from safetyd.core.guards.rulebook import MAX_SESSIONS, MEMORY, Book, Layer, Setting
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.kinds import Kind, Kinds
from safetyd.core.verdict import ALLOWED, Severity, Verdict

MAX_UNKNOWN: Final = 256


class ClassifyState(msgspec.Struct):
    memory: dict[str, dict[str, int]] = {}  # allowed in live sessions, by agent and session
    unknown: dict[str, int] = {}  # the first types that were not known, and how often


class Classify:
    name = "classify"
    hears: tuple[type[Event], ...] = (Decided, SessionClosed)

    def __init__(
        self,
        rules: RulesConfig,
        projects: Mapping[str, ProjectConfig],
        kinds: Kinds,
        *,
        mode: str,
        profile: str,
        timezone: tzinfo,
    ) -> None:
        self._known = kinds.known
        setting = Setting(kinds=kinds, mode=mode, timezone=timezone, coding=profile == "coding")
        base = Book(rules, (Layer(rules, setting),), setting)
        self._base = Bench((base,))
        self._projects = {name: Project(name, projects[name], base) for name in projects}
        self._state = ClassifyState()

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        proposal = proposed.proposal
        bench = self._base if proposal.project is None else self._bench(proposed)
        if kind.type in bench.plain and not proposal.paths and not kind.raised:
            return ALLOWED
        return bench.judge(proposed, kind, self._memory_used(proposed))

    def observe(self, event: Event) -> Sequence[Event]:
        if isinstance(event, Decided):
            if event.first:
                self._count(event)
        elif isinstance(event, SessionClosed):
            mine = self._state.memory.get(event.agent, {})
            mine.pop(event.session, None)
            if not mine:
                self._state.memory.pop(event.agent, None)
        return ()

    def unknown_types(self) -> dict[str, int]:
        """Return the types that were proposed and are not known, and how often each was."""
        return self._state.unknown.copy()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        state = msgspec.msgpack.decode(saved, type=ClassifyState)
        # New rules may have made some of them known.
        state.unknown = {name: n for name, n in state.unknown.items() if name not in self._known}
        self._state = state

    def _bench(self, proposed: Proposed) -> Bench:
        project = self._projects.get(proposed.proposal.project or "")
        return self._base if project is None else project.bench(proposed.agent)

    def _memory_used(self, proposed: Proposed) -> float:
        mine = self._state.memory.get(proposed.agent, {})
        full = len(mine) >= MAX_SESSIONS
        return mine.get(proposed.proposal.session or "", float("inf") if full else 0)

    def _count(self, event: Decided) -> None:
        if event.type not in self._known:
            unknown = self._state.unknown
            if event.type in unknown or len(unknown) < MAX_UNKNOWN:
                unknown[event.type] = unknown.get(event.type, 0) + 1
        if event.type.startswith(MEMORY) and event.decision is Severity.ALLOW:
            mine = self._state.memory.setdefault(event.agent, {})
            session = event.proposal.session or ""
            if session in mine or len(mine) < MAX_SESSIONS:
                mine[session] = mine.get(session, 0) + 1
