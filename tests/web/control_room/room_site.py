"""The control room over a real engine, runner and listener, and browsers that look at it."""

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import anyio
import anyio.abc
import msgspec

from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.agents.sender_accounts import SenderAccounts
from safetyd.bus.question_limits import QuestionLimits
from safetyd.bus.subjects import Subjects
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.event import Event
from safetyd.extras.reports.report_maker import ReportMaker
from safetyd.journal.audit import Audit
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.operators.command_runner import CommandRunner, Surroundings
from safetyd.operators.contract.question import Role
from safetyd.operators.contract.session_contract import SignInQuestion
from safetyd.operators.contract.status_contract import DaemonFacts, HealthAnswer, HealthCheck
from safetyd.web.control_room.entrance import Entrance
from safetyd.web.control_room.open_room import open_room
from safetyd.web.control_room.page_content import PAGES
from safetyd.web.control_room.sign_in_links import SignInLinks
from safetyd.web.control_room.web_sessions import WebSessions
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.http_server import Listener
from safetyd.web.loopback import fresh_name
from safetyd.web.operator_gateway import OperatorGateway
from tests.captured_connection import CapturedPublisher
from tests.core.approvals.queue_story import push
from tests.notify.notifier_rig import NotifierRig
from tests.operators.bound_handlers import without_projects
from tests.operators.views.view_reader import FACTS

PATIENCE_S = 20.0  # with what a stream never says


class Heard(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]

    @property
    def forms(self) -> list[str]:
        """Where its forms post to."""
        return re.findall(r'<form method="post" action="([^"?]*)', self.text)

    @property
    def note(self) -> str:
        found = re.search(r'<p class="note (failed|done)"[^>]*>(.*?)</p>', self.text)
        return re.sub("</?code>", "`", found[2]) if found else ""

    @property
    def failed(self) -> bool:
        """Whether the note is that of a failure."""
        return 'class="note failed"' in self.text

    @property
    def main(self) -> str:
        return self.text.partition('<main id="main"')[2].partition("</main>")[0]

    @property
    def bar(self) -> str:
        return self.text.partition('<header id="bar"')[2].partition("</header>")[0]

    def value(self, name: str) -> str:
        """Return the value of a hidden field."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found is not None, self.text
        return found[1]


class Pushed(NamedTuple):
    name: str
    content: str


class RoomSite:
    """Alice is an operator, eve an observer. Once it is `stuck`, nothing is written any more."""

    def __init__(  # noqa: PLR0915 - it has every part of a daemon
        self, tasks: anyio.abc.TaskGroup, directory: Path, *tables: str
    ) -> None:
        self.rig = NotifierRig(directory, *tables)
        self.wired, self.clock = self.rig.wired, self.rig.wired.clock
        self.directory = directory
        self.people: dict[str, Role] = {
            "alice": "operator",
            "bob": "operator",
            "eve": "observer",
        }
        self.problem = ""
        self.displaced = False
        self.stuck = False
        self.checks: tuple[HealthCheck, ...] = ()
        self.steady = 0.0  # by which links grow old
        self.audit = Audit(directory / "audit", 1024 * 1024)
        self.audit.open()
        self.recent = RecentEvents(0, lambda seq: ((), seq))
        self.captured = CapturedPublisher()
        self.stop = EmergencyStop(
            StopFlag(), self.wired.mailbox, self.captured.publisher, Subjects(), self.clock
        )
        # Who asks is never in a hurry, unless a test says so.
        asked_at = count(0.0, 10.0)
        self.hurried = False
        self.limits = QuestionLimits(lambda: 0.0 if self.hurried else next(asked_at))
        self.links = SignInLinks(self._keys_of, lambda: self.steady)
        self.name = fresh_name()
        self.sessions = WebSessions(directory, self._keys_of, self.name)
        self.entrance = Entrance(self.sessions, self.links, lambda: self.url, self.clock)
        self.reports = ReportMaker(directory / "audit", self._today, lambda: self.audit.seq)
        self.runner = CommandRunner(
            self.wired.mailbox,
            self.stop,
            Surroundings(
                self._facts,
                self._reload,
                self._health,
                directory / "audit",
                lambda: self.rig.settings.policy,
                self.recent,
            ),
            tasks,
            waits=lambda _request: False,
            handlers={
                **self.rig.notifier.handlers,
                **self.reports.handlers,
                **self.entrance.handlers,
                **without_projects(directory, self.wired.mailbox, self.clock),
            },
            question_limits=self.limits,
        )
        engine = EngineGateway(self.wired.mailbox, lambda: self.problem, lambda: self.displaced)
        self.gateway = OperatorGateway(self.runner, self.limits, engine, self.people.get)
        self.room = open_room(
            self.gateway,
            self.sessions,
            self.links,
            self.clock,
            role_of=self.people.get,
            stops=lambda: self.stop.stop_flag.stops,
            closed=lambda: self.problem,
        )
        self.wired.observers += [self._journal, self.recent.observe, self.room.observe]
        routes, guest = self.room.routes, self.room.guest
        self.accounts = SenderAccounts()
        self.listener = Listener(
            "127.0.0.1",
            0,
            routes,
            self.sessions.serves,
            guest,
            both=True,
            accounts=self.accounts,
        )
        self.url = ""

    def _keys_of(self, name: str) -> set[str]:
        return self.people.keys() & {name}

    def _today(self) -> date:
        return self.clock.now().at.date()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        self.url = await self.listener.start()
        try:
            yield
        finally:
            await self.listener.stop()

    async def work(self) -> None:
        while True:
            await self.wired.mailbox.wait()
            await self._write()

    async def answer_questions(self) -> None:
        while True:
            await self.wired.mailbox.wait_for_question()
            await self._write()
            await anyio.lowlevel.checkpoint()

    @asynccontextmanager
    async def browser(self, name: str = "") -> AsyncIterator["Browser"]:
        """Open a browser, signed in as `name` if given."""
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(self.url, cookie_jar=jar) as session:
            browser = Browser(self, session)
            if name:
                await browser.sign_in(name)
            yield browser

    def link(self, name: str = "alice", *, numeric: bool = True) -> str:
        """Return the path of a sign-in link."""
        url = self.entrance.sign_in(name, SignInQuestion(numeric=numeric)).url
        return urlsplit(url).path

    def asks(self, id: str = "p1", **fields: object) -> str:  # noqa: A002
        """Let an agent propose something that needs approval; return the request's id."""
        said = {"text": f"git push origin {id}", "digest": f"sha256:{id:0>64}", **fields}
        return self.wired.asks(id, **said)

    def happens(self, *events: Event) -> None:
        self.wired.happens(*events)

    def proposes(self, id: str = "p1", **fields: object) -> None:  # noqa: A002
        """Let an agent propose something that is allowed."""
        before = len(self.wired.queue.journal)
        given = {"type": "read_file", "text": "cat notes", **fields}
        self.wired.queue.proposes(push(self.clock.t, id, **given))  # type: ignore[arg-type]
        self.wired._published(self.wired.queue.journal[before:])

    def journalled(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self.wired.queue.journal if type(event) in kinds]

    def digest(self, request_id: str) -> str:
        return self.wired.queue.request(request_id).asked.digest

    def state(self, request_id: str) -> str:
        return self.wired.queue.request(request_id).state

    async def _write(self) -> None:
        if self.stuck:
            await anyio.sleep_forever()
        self.wired.write()

    def _journal(self, events: Iterable[Event]) -> None:
        for event in events:
            self.audit.append([encode(event)], event.seq)

    def _facts(self) -> DaemonFacts:
        return msgspec.structs.replace(FACTS, problem=self.problem)

    async def _health(self) -> HealthAnswer:
        return HealthAnswer(ok=True, at=self.clock.now().at, state="good", checks=self.checks)

    async def _reload(self, by: str) -> list[str]:
        raise AssertionError(f"{by} has no button for this")


class Browser:
    """`token` is in the forms of its pages; its origin stores `proof`."""

    def __init__(self, site: RoomSite, session: aiohttp.ClientSession) -> None:
        self.site = site
        self.session = session
        self.token = self.proof = ""

    @property
    def cookie(self) -> str:
        return next(cookie.value for cookie in self.session.cookie_jar)

    async def sign_in(self, name: str) -> Heard:
        heard = await self.hear("POST", self.site.link(name))
        found = re.search(r'data-proof="([^"]*)"', heard.text)
        assert found is not None, heard.text
        self.proof = found[1]
        self.token = (await self.get("/")).value("token")
        return heard

    async def get(self, path: str, **headers: str) -> Heard:
        return await self.hear("GET", path, headers=headers)

    async def post(self, path: str, *, proof: bool = True, **fields: object) -> Heard:
        """Send a form as a page does, and return the page that is shown then."""
        headers = {"X-Safetyd-Proof": self.proof} if proof else {}
        return await self.send(path, {"token": self.token, **fields}, headers)

    async def led_to(self, path: str) -> str:
        """Return where a form leads that says nothing."""
        form = {"token": self.token, "do": "nothing"}
        async with self.session.post(
            self.site.url + path, data=form, allow_redirects=False
        ) as response:
            return response.headers.get("Location", "")

    async def send(self, path: str, fields: dict[str, object], headers: dict[str, str]) -> Heard:
        return await self.hear("POST", path, data=_pairs(fields), headers=headers)

    async def hear(self, method: str, path: str, **sent: Any) -> Heard:
        async with self.session.request(method, path, **sent) as response:
            return Heard(response.status, await response.text(), dict(response.headers))

    @asynccontextmanager
    async def live(self, page: str = "/", **headers: str) -> AsyncIterator["LiveStream"]:
        async with self.session.ws_connect(
            "/live", params={"page": page}, headers=headers, autoclose=False
        ) as socket:
            yield LiveStream(socket)


class LiveStream:
    """The messages that a page receives."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def next(self) -> Pushed | None:
        """Return the next event, None at the end."""
        with anyio.fail_after(PATIENCE_S):
            message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            return None
        name, _, content = message.data.partition("\n")
        return Pushed(name, content)

    async def until(self, name: str, text: str = "") -> list[Pushed]:
        """Return all messages up to one with this name and text."""
        told: list[Pushed] = []
        while True:
            pushed = await self.next()
            assert pushed is not None, told
            told.append(pushed)
            if pushed.name == name and text in pushed.content:
                return told

    async def end(self) -> None:
        """Return once it ends."""
        while await self.next() is not None:
            pass


def addresses(request_id: str, agent: str = "code", decision: str = "p1") -> list[str]:
    """Return an address for each page of the control room, but for that of a commit.

    Here nothing is committed; tests/journeys/test_control_room_history.py looks at one.
    """
    named = {"/requests/{id}": f"/requests/{request_id}", "/answers": f"/answers?id={request_id}"}
    named |= {"/agents/{name}": f"/agents/{agent}", "/decisions/{id}": f"/decisions/{decision}"}
    return [named.get(page.path, page.path) for page in PAGES if "{commit}" not in page.path]


def _pairs(fields: dict[str, object]) -> list[tuple[str, str]]:
    """Return the fields of a form, of several values one after the other."""
    return [
        (name, str(value))
        for name, values in fields.items()
        for value in (values if isinstance(values, (list, tuple)) else [values])
    ]


@asynccontextmanager
async def room_site(directory: Path, *tables: str) -> AsyncIterator[RoomSite]:
    async with anyio.create_task_group() as tasks:
        site = RoomSite(tasks, directory, *tables)
        tasks.start_soon(site.work)
        tasks.start_soon(site.answer_questions)
        tasks.start_soon(site.room.run)
        async with site.listening():
            yield site
        tasks.cancel_scope.cancel()
