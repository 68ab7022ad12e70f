"""A server on loopback that a host takes for its model. It makes the tool calls of a test."""

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, cast

FAREWELL: Final = "done"

Body = dict[str, Any]


class ToolCall(NamedTuple):
    tool: str
    arguments: dict[str, object]


# A conversation yields calls, and gets the result of each as the host passed it to the model.
Conversation = Generator[ToolCall, str, None]


class Reply(NamedTuple):
    """What the model says: a call, or a text that ends the turn."""

    number: int  # of results before it
    call: ToolCall | None = None
    text: str = FAREWELL


class Talk:
    """The state of a conversation. A host that repeats a request gets the same reply."""

    def __init__(self, conversation: Conversation) -> None:
        self.problem: BaseException | None = None
        self._conversation = conversation
        self._calls: list[ToolCall | None] = []
        self._lock = threading.Lock()

    def reply(self, results: list[str]) -> Reply:
        """Return the reply to a request that holds the results of all calls so far."""
        with self._lock:
            index = len(results)
            if index == len(self._calls):
                self._calls.append(self._next(results))
            call = self._calls[index] if index < len(self._calls) else None
            return Reply(index, call)

    def _next(self, results: list[str]) -> ToolCall | None:
        try:
            if not results:
                return next(self._conversation)
            return self._conversation.send(results[-1])
        except StopIteration:
            return None
        except BaseException as problem:  # noqa: BLE001 - the test raises it
            self.problem = problem
            return None

    @property
    def ended(self) -> bool:
        return bool(self._calls) and self._calls[-1] is None

    def end(self) -> None:
        """Finish the conversation; raise what went wrong in it."""
        self._conversation.close()
        if self.problem is not None:
            raise self.problem


class ModelApi(NamedTuple):
    """How an API encodes results in requests, and replies in responses."""

    results: Callable[[Body], list[str]]
    events: Callable[[Reply], list[tuple[str, Body]]]  # name and content of each
    streams: Callable[[str, Body], bool]
    unstreamed: Callable[[Body], Body]  # the answer to everything else


class ModelServer(ThreadingHTTPServer):
    """An API on a free port of loopback, and its current conversation."""

    daemon_threads = True

    def __init__(self, api: ModelApi) -> None:
        self.api = api
        self.talk = Talk(_nothing())
        self.bodies: list[str] = []  # the requests of the conversation
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast("ModelServer", self.server)
        api, body = server.api, self._body()
        if not api.streams(self.path, body):
            self._send("application/json", json.dumps(api.unstreamed(body)))
            return
        if body.get("tools"):
            server.bodies.append(json.dumps(body, ensure_ascii=False))
        # Requests without tools are for titles and the like, not part of the conversation.
        reply = server.talk.reply(api.results(body)) if body.get("tools") else Reply(0)
        lines = (
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(content)}\n\n"
            for name, content in api.events(reply)
        )
        self._send("text/event-stream", "".join(lines))

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"data": [], "models": []}))

    def do_HEAD(self) -> None:
        self._send("application/json", "")

    def log_message(self, *_arguments: object) -> None:
        pass

    def _body(self) -> Body:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            return cast("Body", json.loads(content or b"{}"))
        except ValueError:
            return {}

    def _send(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


@contextmanager
def model(api: ModelApi) -> Iterator[ModelServer]:
    with ModelServer(api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _nothing() -> Conversation:
    yield from ()


def text_of(content: object) -> str:
    """Return all texts in a result, however it is nested."""
    match content:
        case str(text):
            return text
        case list(parts):
            return "\n".join(filter(None, map(text_of, parts)))
        case dict(named):
            return "\n".join(filter(None, (text_of(value) for value in named.values())))
    return ""
