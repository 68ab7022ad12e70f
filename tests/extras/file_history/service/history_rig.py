"""An engine, a project's folder with its history, and the parts that a daemon joins to them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Reported
from safetyd.core.events.event import Event
from safetyd.core.events.history_events import CommitDue
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from safetyd.extras.file_history.service.commit_worker import CommitWorker
from safetyd.extras.file_history.service.histories import Histories
from safetyd.extras.file_history.service.history_service import HistoryService
from safetyd.journal.mailbox import Mailbox
from tests.captured_connection import work_off
from tests.servers import until
from tests.story import propose


def project(root: Path, **fields: Any) -> ProjectConfig:
    return ProjectConfig(**{"root": str(root), "history": "shadow", "agents": ("code",), **fields})


class HistoryRig:
    """`happened` are all events, as far as they were written down."""

    def __init__(self, directory: Path, **fields: Any) -> None:
        self.directory = directory
        self.root = directory / "shop"
        self.root.mkdir()
        self.cart = self.root / "cart.py"
        calm = SafeModeConfig(max_consecutive_errors=100)
        projects = {"shop": project(self.root, **fields)}
        self.engine = Engine(Policy(profile="coding", projects=projects, safe_mode=calm))
        self.mailbox = Mailbox()
        self.clock = Clock()
        self.happened: list[Event] = []
        self.flushed = 0
        self.histories = Histories(directory / "histories", projects)
        self.service = HistoryService(self.histories, self.mailbox, self.clock, self._retry)
        self.worker = self.new_worker()
        self._numbers = iter(range(10, 1000))

    def new_worker(self) -> CommitWorker:
        """Return what a daemon would make at its start."""
        return CommitWorker(
            self.histories,
            self.mailbox,
            lambda: self.clock.now().at,
            self.service.offered,
            self._flush,
            self.engine.records.file_commits.due,
        )

    async def _retry(self, project: str) -> None:
        await self.worker.retry(project)

    def begins(self, id_: str, act: Callable[[], None]) -> None:
        """Let an action begin that is allowed now."""
        first = self.engine.records.file_commits.first("code", id_)
        self.worker.after("code", id_, first, act)

    def writes(self, text: str, *, ok: bool = True, id_: str = "") -> str:
        """Let the agent write a file and report it; return the id of its proposal."""
        name = id_ or f"p{next(self._numbers)}"
        moment = self.clock.now()
        fields: dict[str, Any] = {"type": "edit_file", "paths": (str(self.cart),), "text": text}
        proposed = propose(moment.t, "code", name, **fields)
        self.note(self.engine.decide(proposed)[1])
        self.cart.write_text(text)
        told = Outcome(id=name, ok=ok)
        self.note(
            self.engine.handle(Reported(at=moment.at, t=moment.t, agent="code", telemetry=told))
        )
        return name

    def note(self, events: Any) -> None:
        """Write down, and tell the worker."""
        self.happened += events
        self.worker.observe(events)

    async def sees(self, kind: type[Event], count: int = 1) -> list[Any]:
        """Return the events of a kind once there are so many."""
        await until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.happened if isinstance(event, kind)]

    async def write_down(self) -> None:
        while True:
            await self.mailbox.wait()
            self.note(work_off(self.mailbox, self.engine, self.clock))

    def due(self, id_: str = "p1", why: Any = "before", project: str = "shop") -> CommitDue:
        """Let a commit be due, whatever made it so."""
        moment = self.clock.now()
        about: dict[str, Any] = {"project": project, "agent": "code", "decision": 1}
        due = CommitDue(at=moment.at, t=moment.t, why=why, id=id_, approver="alice", **about)
        events = self.engine.handle(due)
        self.note(events)
        return due

    def _flush(self) -> None:
        self.flushed += 1


@asynccontextmanager
async def at_work(rig: HistoryRig) -> AsyncIterator[anyio.abc.TaskGroup]:
    """Let commits be made and orders be carried out."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.write_down)
        tasks.start_soon(rig.worker.run)
        tasks.start_soon(rig.service.run)
        yield tasks
        tasks.cancel_scope.cancel()
