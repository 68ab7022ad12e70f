"""Slack on this machine, as its documentation describes it, and people who tap.

https://docs.slack.dev: auth.test, apps.connections.open, conversations.open, chat.postMessage,
chat.update and chat.postEphemeral, and Socket Mode. What the documentation forbids is refused.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from aiohttp import WSMsgType, web

BOT_TOKEN: Final = "xoxb-0000-not-a-real-bot-token"
APP_TOKEN: Final = "xapp-1-A000-not-a-real-app-token"
SCOPES: Final = {"bot": {"chat:write", "im:write"}, "app": {"connections:write"}}
NEEDED: Final = {
    "auth.test": ("bot", ""),
    "apps.connections.open": ("app", "connections:write"),
    "conversations.open": ("bot", "im:write"),
    "chat.postMessage": ("bot", "chat:write"),
    "chat.update": ("bot", "chat:write"),
    "chat.postEphemeral": ("bot", "chat:write"),
}
MAX_TEXT: Final = 3000  # of one text in a block
MAX_SUMMARY: Final = 4000
MAX_BLOCKS: Final = 50
MAX_ALL: Final = 13_200  # of all blocks as JSON: not documented, but measured
MAX_CONNECTIONS: Final = 10
PATIENCE_S: Final = 20.0


class SlackError(Exception):
    """What a method answers instead of a result."""

    def __init__(self, error: str, *, status: int = 200, retry_after: int = 0, **more: str) -> None:
        super().__init__(error)
        self.status = status
        self.headers = {"Retry-After": str(retry_after)} if retry_after else {}
        self.answer = {"ok": False, "error": error, **more}


class Hang(Exception):
    """The method never answers."""


RATE_LIMITED: Final = SlackError("ratelimited", status=429, retry_after=1)


class Shown(NamedTuple):
    """A message as its readers see it now."""

    channel: str
    ts: str
    summary: str
    text: str
    buttons: dict[str, str]  # values or URLs, by label
    links: list[str]
    edits: int


class Press(NamedTuple):
    """A tap, and what its user had been shown before."""

    envelope: str
    user: str
    whispers: int


class Slack:
    """`then` are errors for the next calls of a method. `ack_s`: how long Slack waits."""

    def __init__(self) -> None:
        self.then: dict[str, list[Exception]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[str, Shown] = {}
        self.people = {"U00ALICE", "U00BOB", "U0STRANGER"}
        self.members: dict[str, set[str]] = {}  # users by channel; the app is in each of these
        self.scopes = {kind: set(scopes) for kind, scopes in SCOPES.items()}
        self.acked: list[str] = []  # envelopes, each time that they are acknowledged
        self.failed: set[str] = set()  # envelopes whose users were told that the tap failed
        self.hellos: list[int] = []  # connections that were open, each time one was opened
        self.ack_s = 3.0
        self.url = ""
        self._whispers: dict[str, list[str]] = {}
        self._tickets: set[str] = set()
        self._sockets: list[web.WebSocketResponse] = []
        self._envelopes: dict[str, dict[str, Any]] = {}  # not acknowledged
        self._all: dict[str, dict[str, Any]] = {}
        self._deliveries: dict[str, int] = {}
        self._numbers = 1000
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()

    # -- people ------------------------------------------------------------------------------------

    def tap(self, user: str, message: Shown, label: str) -> Press:
        """Let somebody press a button."""
        return self.forge(user, message.buttons[label], message.channel)

    def forge(self, user: str, value: str, channel: str) -> Press:
        """Let somebody press a button with any value; one that opens a URL has none."""
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": user.lower(), "team_id": "T0000001"},
            "api_app_id": "A0000001",
            "container": {"type": "message", "message_ts": "1.0", "channel_id": channel},
            "trigger_id": "1.2.3",
            "response_url": "https://hooks.slack.example/actions/secret",
            "actions": [{"type": "button", "action_id": "x", "block_id": "y"}],
        }
        if value:
            payload["actions"][0] |= {"value": value, "action_ts": f"{self._number()}.5"}  # type: ignore[index]
        whispers = len(self._whispers.get(user, ()))
        return Press(self.deliver("interactive", payload), user, whispers)

    def visit(self, user: str) -> str:
        """Let somebody open the app."""
        event = {"type": "app_home_opened", "user": user, "channel": "D1", "tab": "messages"}
        return self.deliver("events_api", {"type": "event_callback", "event": event})

    def repeat(self, press: Press) -> None:
        """Deliver an envelope again, as Slack does if it did not see the acknowledgement."""
        self._loop.call_soon_threadsafe(self._push, press.envelope)

    def delivered(self, id_: str) -> int:
        """Return how often an envelope was sent."""
        return self._deliveries.get(id_, 0)

    def wait(self, count: int = 1) -> list[Shown]:
        """Return the messages, as soon as there are so many."""
        self.until(lambda: len(self.messages) >= count)
        return list(self.messages.values())

    def told(self, press: Press) -> str:
        """Return what a user is shown after a tap, as soon as they are."""
        self.until(lambda: len(self._whispers.get(press.user, ())) > press.whispers)
        assert press.envelope in self.acked
        return self._whispers[press.user][press.whispers]

    def whispers(self, user: str) -> list[str]:
        return list(self._whispers.get(user, ()))

    def edited(self, message: Shown) -> Shown:
        """Return a message, as soon as it has been edited since."""
        self.until(lambda: self.messages[message.ts].edits > message.edits)
        return self.messages[message.ts]

    def until(self, so: Callable[[], Any]) -> None:
        with self._changed:
            assert self._changed.wait_for(so, PATIENCE_S), self.calls[-5:]

    def connected(self, count: int = 1) -> None:
        self.until(lambda: len(self._sockets) == count)

    # -- connections -------------------------------------------------------------------------------

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """Announce that the connections will be closed."""
        said = {"type": "disconnect", "reason": reason, "debug_info": {"host": "wss-1"}}

        async def announce() -> None:
            for socket in self._sockets:
                await socket.send_json(said)

        asyncio.run_coroutine_threadsafe(announce(), self._loop).result(PATIENCE_S)

    def drop(self) -> None:
        """Lose all connections, as when a network fails."""

        def abort() -> None:
            for socket in list(self._sockets):
                transport = socket._req.transport if socket._req is not None else None
                if transport is not None:
                    transport.abort()

        self._loop.call_soon_threadsafe(abort)

    def deliver(self, kind: str, payload: dict[str, Any]) -> str:
        """Send an envelope, and return its id."""
        id_ = f"env-{self._number()}"
        with self._changed:
            self._envelopes[id_] = self._all[id_] = {
                "envelope_id": id_,
                "type": kind,
                "accepts_response_payload": kind == "interactive",
                "payload": payload,
            }
        self._loop.call_soon_threadsafe(self._push, id_)
        return id_

    def _push(self, id_: str) -> None:
        """Send an envelope over one connection; without any, its user is told that it failed."""
        if not self._sockets:
            with self._changed:
                self.failed.add(id_)
                self._changed.notify_all()
            return
        socket = self._sockets[self._numbers % len(self._sockets)]
        self._tasks.create_task(self._send(socket, id_))

    async def _send(self, socket: web.WebSocketResponse, id_: str) -> None:
        with self._changed:
            envelope = self._all[id_]
            self._deliveries[id_] = self._deliveries.get(id_, 0) + 1
            self._changed.notify_all()
        with suppress(ConnectionError):
            await socket.send_json(envelope)
        await asyncio.sleep(self.ack_s)
        if id_ in self._envelopes:
            self._push(id_)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets or len(self._sockets) >= MAX_CONNECTIONS:
            return web.Response(status=403)
        self._tickets.remove(ticket)
        socket = web.WebSocketResponse(timeout=0.5)
        await socket.prepare(request)
        with self._changed:
            self._sockets.append(socket)
            self.hellos.append(len(self._sockets))
        await socket.send_json(
            {
                "type": "hello",
                "num_connections": len(self._sockets),
                "connection_info": {"app_id": "A0000001"},
                "debug_info": {"host": "wss-1", "approximate_connection_time": 18060},
            }
        )
        with self._changed:
            self._changed.notify_all()
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                self._acknowledged(json.loads(message.data)["envelope_id"])
        with self._changed:
            self._sockets.remove(socket)
            self._changed.notify_all()
        return socket

    def _acknowledged(self, id_: str) -> None:
        with self._changed:
            self._envelopes.pop(id_, None)
            self.acked.append(id_)
            self._changed.notify_all()

    # -- methods -----------------------------------------------------------------------------------

    def _auth_test(self, _fields: dict[str, Any]) -> dict[str, Any]:
        return {"url": "https://acme.slack.com/", "team": "Acme", "user": "safetyd"}

    def _connections_open(self, _fields: dict[str, Any]) -> dict[str, Any]:
        ticket = f"ticket-{self._number()}"
        self._tickets.add(ticket)
        return {"url": f"{self.url.replace('http', 'ws')}/link/?ticket={ticket}&app_id=A1"}

    def _conversations_open(self, fields: dict[str, Any]) -> dict[str, Any]:
        user = fields["users"]
        if user not in self.people:
            raise SlackError("user_not_found")
        channel = f"D{user}"
        self.members[channel] = {user}
        return {"channel": {"id": channel}}

    def _post_message(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["channel"] not in self.members:
            raise SlackError("channel_not_found")
        ts = f"17000.{self._number()}"
        self.messages[ts] = shown(fields, ts, 0)
        return {"channel": fields["channel"], "ts": ts, "message": {}}

    def _update(self, fields: dict[str, Any]) -> dict[str, Any]:
        before = self.messages.get(fields["ts"])
        if before is None or before.channel != fields["channel"]:
            raise SlackError("message_not_found")
        self.messages[before.ts] = shown(fields, before.ts, before.edits + 1)
        return {"channel": before.channel, "ts": before.ts, "text": fields["text"]}

    def _post_ephemeral(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["user"] not in self.members.get(fields["channel"], ()):
            raise SlackError("user_not_in_channel")
        self._whispers.setdefault(fields["user"], []).append(fields["text"])
        return {"message_ts": "1.0"}

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        fields = await request.json() if request.can_read_body else dict(request.query)
        with self._changed:
            self.calls.append((method, fields))
            try:
                if self.then.get(method):
                    raise self.then[method].pop(0)
                kind = self._authorised(request, method)
                result = self._methods()[method](fields)
            except SlackError as exc:
                return web.json_response(exc.answer, status=exc.status, headers=exc.headers)
            except Hang:
                result = None
            finally:
                self._changed.notify_all()
        if result is None:
            await self._over.wait()
            raise web.HTTPServiceUnavailable
        headers = {"x-oauth-scopes": ",".join(sorted(self.scopes[kind]))}
        return web.json_response({"ok": True, **result}, headers=headers)

    def _authorised(self, request: web.Request, method: str) -> str:
        """Return the kind of the token."""
        kinds = {f"Bearer {BOT_TOKEN}": "bot", f"Bearer {APP_TOKEN}": "app"}
        kind = kinds.get(request.headers.get("Authorization", ""), "")
        wanted, scope = NEEDED[method]
        if not kind:
            raise SlackError("invalid_auth")
        if kind != wanted:
            raise SlackError("not_allowed_token_type")
        if scope and scope not in self.scopes[kind]:
            provided = ",".join(sorted(self.scopes[kind]))
            raise SlackError("missing_scope", needed=scope, provided=provided)
        return kind

    def _methods(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {
            "auth.test": self._auth_test,
            "apps.connections.open": self._connections_open,
            "conversations.open": self._conversations_open,
            "chat.postMessage": self._post_message,
            "chat.update": self._update,
            "chat.postEphemeral": self._post_ephemeral,
        }

    # -- serving -----------------------------------------------------------------------------------

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def _serve(self, started: threading.Event) -> None:
        app = web.Application()
        app.router.add_post("/api/{method}", self._call)
        app.router.add_get("/link/", self._link)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with asyncio.TaskGroup() as self._tasks:
            stopping = self._tasks.create_task(self._over.wait())
            started.set()
            await stopping
            for socket in list(self._sockets):
                await socket.close()
            await runner.cleanup()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    @contextmanager
    def serving(self) -> Iterator["Slack"]:
        started = threading.Event()
        thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(started),), daemon=True
        )
        thread.start()
        assert started.wait(PATIENCE_S)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join(PATIENCE_S)
            self._loop.close()


def shown(fields: dict[str, Any], ts: str, edits: int) -> Shown:
    """Return a message as its readers see it; refuse what Slack refuses."""
    summary, blocks = fields["text"], fields["blocks"]
    if not summary:
        raise SlackError("no_text")
    if len(summary) > MAX_SUMMARY:
        raise SlackError("msg_too_long")
    if len(json.dumps(blocks, ensure_ascii=False)) > MAX_ALL:
        raise SlackError("msg_blocks_too_long")
    buttons: dict[str, str] = {}
    parts: list[str] = []
    links: list[str] = []
    _require(0 < len(blocks) <= MAX_BLOCKS)
    for block in blocks:
        if block["type"] == "actions":
            _require(0 < len(block["elements"]) <= 25)
            for button in block["elements"]:
                _check_button(button)
                label = button["text"]["text"]
                _require(label not in buttons)
                buttons[label] = button.get("value") or button["url"]
        else:
            _require(block["type"] == "rich_text" and len(block["elements"]) > 0)
            parts += [_text(element, links) for element in block["elements"]]
    return Shown(fields["channel"], ts, summary, "\n".join(parts), buttons, links, edits)


def _text(element: dict[str, Any], links: list[str]) -> str:
    _require(element["type"] in {"rich_text_section", "rich_text_preformatted"})
    _require(len(element["elements"]) > 0)
    said = ""
    for leaf in element["elements"]:
        if leaf["type"] == "link":
            _require(leaf["url"].startswith("https://") and len(leaf["url"]) <= 3000)
            links.append(leaf["url"])
            said += leaf["url"]
        else:
            _require(leaf["type"] == "text" and 0 < len(leaf["text"]) <= MAX_TEXT)
            said += leaf["text"]
    return said


def _check_button(button: dict[str, Any]) -> None:
    _require(button["type"] == "button" and button["text"]["type"] == "plain_text")
    _require(0 < len(button["text"]["text"]) <= 75)
    _require(0 < len(button["action_id"]) <= 255)
    _require(button.get("style") in {None, "primary", "danger"})
    _require(0 < len(button.get("value", "x")) <= 2000)
    _require(button.get("url", "https://x").startswith("https://"))


def _require(so: bool) -> None:  # noqa: FBT001
    if not so:
        raise SlackError("invalid_blocks")


@contextmanager
def slack() -> Iterator[Slack]:
    with Slack().serving() as serving:
        yield serving


def table(api: Slack, bot_file: str, app_file: str, to: str, more: str = "") -> str:
    return f"""
[notifications.slack]
enabled = true
bot_token_file = "{bot_file}"
app_token_file = "{app_file}"
api_url = "{api.url}/api"
to = {to}
{more}
"""
