"""The JSON questions over a real engine, whose envelopes are opened only while it is at work."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import anyio
import anyio.abc
import msgspec

from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.bus.question_limits import QuestionLimits
from safetyd.bus.subjects import Subjects
from safetyd.core.policy import Policy
from safetyd.extras.reports.report_maker import ReportMaker
from safetyd.journal.audit import Audit
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.operators.command_runner import CommandRunner, Surroundings
from safetyd.operators.contract.status_contract import DaemonFacts, HealthAnswer
from safetyd.web.api import Api
from safetyd.web.control_room.entrance import Entrance
from safetyd.web.control_room.sign_in_links import SignInLinks
from safetyd.web.control_room.web_sessions import WebSessions
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.http_server import Listener
from safetyd.web.v1.event_socket import EventSocket
from safetyd.web.v1.question_routes import QuestionRoutes
from tests.captured_connection import CapturedPublisher, work_off
from tests.notify.notifier_rig import NotifierRig
from tests.operators.bound_handlers import without_projects
from tests.operators.views.view_reader import FACTS

BEARER = "a-token-of-no-daemon-that-ever-ran-anywhere"


class Heard(NamedTuple):
    status: int
    content: dict[str, Any]
    headers: dict[str, str]


class QuestionSite:
    """`audit` stands in for the daemon's audit files."""

    def __init__(self, tasks: anyio.abc.TaskGroup, directory: Path) -> None:
        rig = NotifierRig(directory)
        self.audit = Audit(directory / "audit", 1024 * 1024)
        self.audit.open()
        self.engine, self.mailbox, self.clock = rig.wired.engine, rig.wired.mailbox, rig.wired.clock
        self.limits = QuestionLimits()
        self.problem = ""
        self.displaced = False
        stop = EmergencyStop(
            StopFlag(), self.mailbox, CapturedPublisher().publisher, Subjects(), self.clock
        )
        recent = RecentEvents(1, lambda seq: ((), seq))
        entrance = Entrance(
            WebSessions(directory, lambda name: {name}),
            SignInLinks(lambda name: {name}),
            lambda: self.url,
            self.clock,
        )
        self.runner = CommandRunner(
            self.mailbox,
            stop,
            Surroundings(
                self._facts,
                self._reload,
                self._health,
                directory / "audit",
                Policy,
                recent,
            ),
            tasks,
            waits=lambda _request: False,
            handlers={
                **rig.notifier.handlers,
                **ReportMaker(directory / "audit", self._today, lambda: self.audit.seq).handlers,
                **entrance.handlers,
                **without_projects(directory, self.mailbox, self.clock),
            },
            question_limits=self.limits,
        )
        gateway = EngineGateway(self.mailbox, lambda: self.problem, lambda: self.displaced)
        questions = QuestionRoutes(self.runner, self.limits, gateway)
        feed = EventSocket(recent, directory / "audit", lambda: self.audit.seq)
        self.api = Api(lambda: BEARER, gateway, [questions.routes, feed.routes])
        self._listener = Listener("127.0.0.1", 0, [self.api.routes])
        self.url = ""

    def _today(self) -> date:
        return self.clock.now().at.date()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        self.url = await self._listener.start()
        async with aiohttp.ClientSession() as self._browser:
            yield
        await self._listener.stop()

    async def work(self) -> None:
        while True:
            await self.mailbox.wait_for_question()
            work_off(self.mailbox, self.engine, self.clock)

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Heard:
        sent = {"Authorization": f"Bearer {BEARER}", **headers}
        url = f"{self.url}/api/v1{path}"
        async with self._browser.request(method, url, headers=sent) as response:
            text = await response.text()
            content = json.loads(text) if text else {}
            return Heard(response.status, content, dict(response.headers))

    def _facts(self) -> DaemonFacts:
        return msgspec.structs.replace(FACTS, problem=self.problem)

    async def _health(self) -> HealthAnswer:
        return HealthAnswer(ok=True, at=self.clock.now().at, state="good", checks=())

    async def _reload(self, by: str) -> list[str]:
        raise AssertionError(f"{by} only asks")


@asynccontextmanager
async def question_site(directory: Path, *, at_work: bool = True) -> AsyncIterator[QuestionSite]:
    async with anyio.create_task_group() as tasks:
        site = QuestionSite(tasks, directory)
        async with site.listening():
            if at_work:
                tasks.start_soon(site.work)
            yield site
        tasks.cancel_scope.cancel()
