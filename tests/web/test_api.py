import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import anyio
import pytest

from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import SafeModeEntered, SafeModeExited
from safetyd.core.policy import Policy
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import Mailbox
from safetyd.monitoring.metrics import Metrics
from safetyd.web.api import Api
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.http_server import Listener, Vitals
from tests.captured_connection import work_off
from tests.story import play, propose

BEARER = "a-token-of-no-daemon-that-ever-ran-anywhere"
LOOK = "/api/agent/safe-mode"
EXIT = "/api/agent/safe-mode/exit"


class Heard(NamedTuple):
    status: int
    content: dict[str, Any]
    headers: dict[str, str]


class Site:
    """The API over a real engine, whose envelopes are opened only while it is `at_work`."""

    def __init__(self) -> None:
        self.engine = Engine(Policy())
        self.clock = Clock()
        self.mailbox = Mailbox()
        self.problem = ""
        self.displaced = False
        self.events: list[Event] = []
        gateway = EngineGateway(self.mailbox, lambda: self.problem, lambda: self.displaced)
        self.bearer = BEARER
        api = Api(lambda: self.bearer, gateway)
        vitals = Vitals(Metrics("1"), Mailbox(), str, str)
        self._server = Listener("127.0.0.1", 0, [vitals.routes, api.routes])
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        self.url = await self._server.start()
        async with aiohttp.ClientSession() as self._browser:
            yield
        await self._server.stop()

    async def work(self) -> None:
        while True:
            await self.mailbox.wait()
            self.write()

    def write(self) -> None:
        self.events += work_off(self.mailbox, self.engine, self.clock)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = b"",
        bearer: str | None = f"Bearer {BEARER}",
        **headers: str,
    ) -> Heard:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = headers if bearer is None else {"Authorization": bearer, **headers}
        request = self._browser.request(method, self.url + path, data=data, headers=sent)
        async with request as response:
            text = await response.text()
            content = json.loads(text) if text else {}
            return Heard(response.status, content, dict(response.headers))

    async def get(self, path: str = LOOK) -> Heard:
        return await self.ask("GET", path)

    async def leave(self, body: object = b"", query: str = "") -> Heard:
        return await self.ask("POST", EXIT + query, body)

    def hold(self, agent: str | None, *, for_s: float = 61.0) -> None:
        """Put a kernel in safe mode, so long ago."""
        now = self.clock.now()
        entered = SafeModeEntered(at=now.at, t=now.t - for_s, agent=agent, by="alice")
        play(self.engine, entered)

    def hear(self, agent: str) -> None:
        play(self.engine, propose(0, agent=agent))

    def exits(self) -> list[SafeModeExited]:
        return [event for event in self.events if isinstance(event, SafeModeExited)]


@pytest.fixture
async def stuck() -> AsyncIterator[Site]:
    """A site whose envelopes are not opened."""
    site = Site()
    async with site.listening():
        yield site


@pytest.fixture
async def site(stuck: Site) -> AsyncIterator[Site]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stuck.work)
        yield stuck
        tasks.cancel_scope.cancel()


@pytest.mark.req("S0.15")
async def test_safe_mode_of_one_agent_is_shown_with_the_fields_of_the_contract(site: Site) -> None:
    site.hold("code", for_s=20.0)

    heard = await site.get(f"{LOOK}?agent=code")

    assert heard.status == 200
    left_ms = heard.content.pop("cooldown_remaining_ms")
    assert 30_000 < left_ms <= 40_000
    assert heard.content.pop("since").endswith("Z")
    assert heard.content == {
        "active": True,
        "state": "safe_mode",
        "consecutive_errors": 0,
        "threshold": 3,
        "agent": "code",
    }


@pytest.mark.req("S0.15")
async def test_without_an_agent_it_is_active_if_any_kernel_is_and_names_those(site: Site) -> None:
    nobody = await site.get()
    site.hear("ops")
    site.hold("code")
    site.hold(None)
    several = await site.get()

    assert (nobody.content["active"], nobody.content["agents"]) == (False, [])
    assert (nobody.content["state"], nobody.content["since"]) == ("ready", None)
    assert (several.content["active"], several.content["agents"]) == (True, ["*", "code"])
    assert several.content["agent"] is None


async def test_agent_that_is_well_is_ready(site: Site) -> None:
    site.hear("ops")
    site.hold("code")

    heard = await site.get(f"{LOOK}?agent=ops")

    assert (heard.content["active"], heard.content["cooldown_remaining_ms"]) == (False, 0)


async def test_kernel_of_everybody_can_be_looked_at_alone(site: Site) -> None:
    site.hold(None)

    assert (await site.get(f"{LOOK}?agent=*")).content["active"]


@pytest.mark.req("S0.8")
@pytest.mark.req("S0.16")
async def test_exit_is_recorded_as_the_local_operators_and_shows_how_it_is_then(site: Site) -> None:
    site.hold("code")

    heard = await site.leave({"agent": "code", "reason": "mended"})

    assert (heard.status, heard.content["active"]) == (200, False)
    assert heard.content["state"] == "ready"
    (left,) = site.exits()
    assert (left.agent, left.by, left.reason, left.forced) == ("code", "local", "mended", False)


@pytest.mark.parametrize(
    ("body", "query"),
    [(b"", ""), ({}, ""), (b"", "?agent=code"), ({"agent": "code"}, "?agent=code")],
)
async def test_only_kernel_in_safe_mode_need_not_be_named(
    site: Site, body: object, query: str
) -> None:
    site.hold("code")

    assert (await site.leave(body, query)).status == 200
    assert [left.agent for left in site.exits()] == ["code"]


@pytest.mark.req("S0.16")
async def test_exit_before_the_cooldown_is_over_is_a_conflict(site: Site) -> None:
    site.hold("code", for_s=20.0)

    heard = await site.leave({"agent": "code"})

    assert heard.status == 409
    assert 30_000 < heard.content.pop("cooldown_remaining_ms") <= 40_000
    assert heard.content == {"error": "cooling_down"}
    assert site.exits() == []


async def test_exit_that_could_mean_several_is_a_conflict(site: Site) -> None:
    site.hold("code")
    site.hold(None)

    heard = await site.leave()

    assert (heard.status, heard.content) == (409, {"error": "several", "agents": ["*", "code"]})
    assert site.exits() == []


async def test_all_leave_by_force_and_with_a_reason(site: Site) -> None:
    site.hold("code", for_s=0)
    site.hold(None, for_s=0)

    heard = await site.leave({"all": True, "force": True, "reason": "drill is over"})

    assert (heard.status, heard.content["active"], heard.content["agents"]) == (200, False, [])
    assert [(left.agent, left.forced) for left in site.exits()] == [(None, True), ("code", True)]


async def test_exit_of_what_is_not_in_safe_mode_changes_nothing(site: Site) -> None:
    site.hear("ops")

    heard = await site.leave({"agent": "ops"})

    assert (heard.status, heard.content["active"]) == (200, False)
    assert site.events == []


@pytest.mark.parametrize(
    ("body", "query", "why"),
    [
        (b"{", "", "not a JSON object: Input data was truncated"),
        (b"\xff", "", "not a JSON object: "),
        (b'{"reason": "\xff"}', "", "not a JSON object: "),
        (b"[" * 5000, "", ""),
        (b'{"x":' * 5000, "", "nested deeper than 32 levels"),
        (b'{"force": false, "force": true}', "", 'the key "force" twice'),
        ([], "", "Expected `object`, got `array`"),
        ({"force": 1}, "", "Expected `bool`, got `int` - at `$.force`"),
        ({"reason": None}, "", "at `$.reason`"),
        ({"agent": 7}, "", "at `$.agent`"),
        ({"force": True}, "", "force needs a reason"),
        ({"force": True, "reason": " "}, "", "force needs a reason"),
        ({"agent": "a b"}, "", "'a b' is not a valid agent name"),
        ({"agent": ""}, "", "'' is not a valid agent name"),
        ({}, "?agent=", "'' is not a valid agent name"),
        ({}, "?agent=a.b", "'a.b' is not a valid agent name"),
        ({"agent": "ops"}, "?agent=code", "'code' and 'ops' are different agents"),
        ({}, "?agent=code&agent=ops", "'code' and 'ops' are different agents"),
        ({"agent": "nobody"}, "", "unknown agent 'nobody'"),
    ],
)
async def test_wrong_exit_is_refused_with_what_is_wrong(
    site: Site, body: object, query: str, why: str
) -> None:
    site.hold("code")

    heard = await site.leave(body, query)

    assert heard.status == 400
    assert why in heard.content["error"]
    assert heard.content.keys() == {"error"}
    assert site.events == []


@pytest.mark.parametrize("agent", ["", "a%20b", "nobody", "%00", "a%2Fb", "code&agent=ops"])
async def test_status_of_a_name_that_nobody_has_is_refused(site: Site, agent: str) -> None:
    site.hold(None)
    site.hear("code")
    site.hear("ops")

    heard = await site.get(f"{LOOK}?agent={agent}")

    assert heard.status == 400
    assert heard.content["error"]


@pytest.mark.parametrize(
    "bearer",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        f"Bearer {BEARER[:-1]}",
        f"Bearer {BEARER}x",
        f"Bearer {BEARER} x",
        f"Basic {BEARER}",
        BEARER,
        "Bearer \udcff\udcfe",
        "Bearer é",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", LOOK), ("HEAD", LOOK), ("POST", EXIT), ("OPTIONS", EXIT), ("GET", "/api/nowhere")],
)
async def test_nobody_is_heard_without_the_operators_bearer(
    site: Site, bearer: str | None, method: str, path: str
) -> None:
    site.hold("code")

    heard = await site.ask(method, path, b"", bearer, Cookie=f"token={BEARER}")

    assert heard.status == 401
    assert heard.headers["WWW-Authenticate"] == 'Bearer realm="safetyd"'
    assert "Access-Control-Allow-Origin" not in heard.headers
    assert BEARER not in json.dumps(heard)
    assert site.events == []


async def test_bearer_that_was_replaced_is_heard_no_more(site: Site) -> None:
    site.bearer = "n" * 43

    assert (await site.get()).status == 401
    assert (await site.ask("GET", LOOK, bearer=f"Bearer {site.bearer}")).status == 200


async def test_word_bearer_is_taken_in_any_case(site: Site) -> None:
    assert (await site.ask("GET", LOOK, bearer=f"bearer  {BEARER}")).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example"])
async def test_bearer_does_not_help_under_another_hosts_name(site: Site, host: str) -> None:
    url, headers = site.url + LOOK, {"Authorization": f"Bearer {BEARER}", "Host": host}
    async with site._browser.get(url, headers=headers) as response:
        assert response.status == 403


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", LOOK, {"GET", "HEAD"}),
        ("DELETE", LOOK, {"GET", "HEAD"}),
        ("GET", EXIT, {"POST"}),
        ("HEAD", EXIT, {"POST"}),
        ("PUT", EXIT, {"POST"}),
    ],
)
async def test_other_methods_are_not_allowed_and_change_nothing(
    site: Site, method: str, path: str, allowed: set[str]
) -> None:
    site.hold("code")

    heard = await site.ask(method, path)

    assert heard.status == 405
    assert set(heard.headers["Allow"].split(",")) == allowed
    assert method == "HEAD" or heard.content == {"error": "method not allowed"}
    assert site.events == []


async def test_head_is_a_get_without_its_content(site: Site) -> None:
    head = await site.ask("HEAD", LOOK)
    get = await site.get()

    assert (head.status, head.content) == (200, {})
    assert head.headers["Content-Length"] == get.headers["Content-Length"]
    assert site.events == []


async def test_unknown_path_is_not_found_in_json(site: Site) -> None:
    heard = await site.get("/api/agent/nothing")

    assert (heard.status, heard.content) == (404, {"error": "not found"})


async def test_answers_are_json_that_nobody_keeps(site: Site) -> None:
    heard = await site.get()

    assert heard.headers["Content-Type"] == "application/json"
    assert heard.headers["Cache-Control"] == "no-store"


async def test_body_beyond_the_bound_is_not_taken(site: Site) -> None:
    site.hold("code")

    heard = await site.leave({"reason": "x" * 70_000})

    assert heard.status == 413
    assert heard.content == {"error": "request entity too large"}
    assert site.events == []


async def test_compressed_body_is_not_unpacked(site: Site) -> None:
    bomb = gzip.compress(b"{" + b" " * 10_000_000 + b"}")

    heard = await site.ask("POST", EXIT, bomb, **{"Content-Encoding": "gzip"})

    assert heard.status == 400
    assert heard.content["error"].startswith("not a JSON object: ")


async def test_peer_that_goes_away_within_its_body_leaves_no_trace(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.hold("code")
    address = urlsplit(site.url)
    async with await anyio.connect_tcp(str(address.hostname), int(address.port or 0)) as stream:
        head = f"POST {EXIT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {BEARER}\r\n"
        await stream.send(f"{head}Content-Length: 2\r\n\r\n{{".encode())

    assert (await site.get()).content["agents"] == ["code"]
    assert caplog.text == ""


async def test_body_that_never_comes_is_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.web.api.BODY_S", 0.01)
    address = urlsplit(site.url)
    async with await anyio.connect_tcp(str(address.hostname), int(address.port or 0)) as stream:
        head = f"POST {EXIT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {BEARER}\r\n"
        await stream.send(f"{head}Content-Length: 2\r\n\r\n".encode())

        assert b" 408 " in await stream.receive()


async def test_malformed_http_is_repeated_neither_in_the_log_nor_to_the_peer(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = urlsplit(site.url)
    async with await anyio.connect_tcp(str(address.hostname), int(address.port or 0)) as stream:
        bad = f"GET {LOOK} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {BEARER}\x01\r\n"
        await stream.send(f"{bad}\r\n".encode())
        said = await stream.receive()

    assert b" 400 " in said
    assert BEARER.encode() not in said
    assert BEARER not in caplog.text


async def test_answer_waits_until_it_is_durable(stuck: Site) -> None:
    stuck.hold("code")
    heard: list[Heard] = []

    async def leave() -> None:
        heard.append(await stuck.leave({"agent": "code"}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        while not len(stuck.mailbox):
            await anyio.lowlevel.checkpoint()
        assert heard == []
        stuck.write()

    assert heard[0].status == 200


@pytest.mark.parametrize(("method", "path"), [("GET", LOOK), ("POST", EXIT)])
async def test_daemon_that_cannot_answer_says_why_and_does_nothing(
    stuck: Site, method: str, path: str
) -> None:
    stuck.problem = "the journal has not answered for 3.0 s"
    problem = await stuck.ask(method, path)
    stuck.problem, stuck.displaced = "", True
    displaced = await stuck.ask(method, path)

    assert (problem.status, problem.content) == (
        503,
        {"error": "the journal has not answered for 3.0 s"},
    )
    assert (displaced.status, displaced.content) == (
        503,
        {"error": "another daemon may be writing the journal"},
    )
    assert len(stuck.mailbox) == 0


async def test_question_that_is_not_answered_soon_is_given_up(
    stuck: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.web.engine_gateway.PATIENCE_S", 0.01)

    heard = await stuck.get()

    assert (heard.status, heard.content) == (503, {"error": "no answer within 0.01 s"})
    stuck.write()


async def test_exit_that_was_given_up_does_not_happen_later(
    stuck: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.web.engine_gateway.PATIENCE_S", 0.01)
    stuck.hold("code")

    heard = await stuck.leave()
    stuck.write()

    assert heard.status == 503
    assert heard.content["error"].endswith("; nothing was done")
    assert stuck.exits() == []
    assert stuck.engine.guards.safe_mode.status("code", 0.0).active


async def test_exit_that_cannot_be_written_says_that_it_is_under_way(
    stuck: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.web.engine_gateway.PATIENCE_S", 0.2)
    stuck.hold("code")
    heard: list[Heard] = []

    async def leave() -> None:
        heard.append(await stuck.leave())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        while (envelope := stuck.mailbox.take()) is None:
            await anyio.lowlevel.checkpoint()
        put(stuck.engine, envelope, stuck.clock.now())
        stuck.problem = "the disk is full"

    assert heard[0].status == 503
    told = "the disk is full; check before you try again: it may still happen"
    assert heard[0].content == {"error": told}


async def test_answer_that_comes_after_the_journal_was_lost_does_not_leave(stuck: Site) -> None:
    heard: list[Heard] = []

    async def look() -> None:
        heard.append(await stuck.get())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        while not len(stuck.mailbox):
            await anyio.lowlevel.checkpoint()
        stuck.displaced = True
        stuck.write()

    assert heard[0].status == 503
