"""Telegram's Bot API on this machine, as its documentation describes it, and people who tap.

https://core.telegram.org/bots/api: getMe, getUpdates, sendMessage, editMessageText and
answerCallbackQuery. What the documentation forbids is answered 400.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

TOKEN: Final = "8200000001:AAF-not-a-real-token_0123456789abcde"
MAX_TEXT: Final = 4096  # units of UTF-16
PATIENCE_S: Final = 20.0


class BotError(Exception):
    """What a method answers instead of a result."""

    def __init__(self, code: int, description: str, **parameters: object) -> None:
        super().__init__(description)
        self.answer = {"ok": False, "error_code": code, "description": description}
        if parameters:
            self.answer["parameters"] = parameters


class Shown(NamedTuple):
    """A message as somebody sees it now."""

    chat: int
    id: int
    text: str
    buttons: dict[str, str]  # callback data by label
    edits: int


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class Telegram:
    """`then` are errors for the next calls of a method; `taps` were pressed and not confirmed."""

    def __init__(self) -> None:
        self.then: dict[str, list[BotError]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[int, Shown] = {}
        self.taps: dict[int, dict[str, Any]] = {}
        self.answers: dict[str, str] = {}  # what a person was shown, by query
        self.blocked: set[int] = set()  # chats
        self._open: set[str] = set()  # queries that wait for their answer
        self._numbers = 100
        self._polls = 0
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def tap(self, user: int, message: Shown, label: str) -> str:
        """Let somebody press a button; return the query by which they are answered."""
        return self.forge(user, message.buttons[label])

    def forge(self, user: int, data: str) -> str:
        """Let a client send any data."""
        with self._changed:
            number, query = self._number(), f"query-{self._numbers}"
            self._open.add(query)
            sender = {"id": user, "is_bot": False, "first_name": "Somebody"}
            pressed = {"id": query, "from": sender, "chat_instance": "1", "data": data}
            self.taps[number] = {"update_id": number, "callback_query": pressed}
            self._changed.notify_all()
        return query

    def write(self, user: int) -> None:
        """Let somebody write to the bot."""
        with self._changed:
            number = self._number()
            sender = {"id": user, "is_bot": False, "first_name": "Somebody"}
            said = {"message_id": number, "date": 0, "from": sender, "text": "/start"}
            self.taps[number] = {"update_id": number, "message": said}
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[Shown]:
        """Return the messages, as soon as there are so many."""
        self.until(lambda: len(self.messages) >= count)
        return list(self.messages.values())

    def told(self, query: str) -> str:
        """Return what a person is shown after a tap, as soon as they are."""
        self.until(lambda: query in self.answers)
        return self.answers[query]

    def edited(self, message: Shown) -> Shown:
        """Return a message, as soon as it has been edited since."""
        self.until(lambda: self.messages[message.id].edits > message.edits)
        return self.messages[message.id]

    def until(self, so: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(so, PATIENCE_S), self.calls[-5:]

    # -- methods -----------------------------------------------------------------------------------

    def _get_me(self, _fields: dict[str, Any]) -> object:
        return {"id": 8200000001, "is_bot": True, "first_name": "safetyd", "username": "a_bot"}

    def _get_updates(self, fields: dict[str, Any]) -> object:
        self._polls += 1
        poll = self._polls
        for number in [each for each in self.taps if each < fields.get("offset", 0)]:
            del self.taps[number]
        self._changed.notify_all()
        self._changed.wait_for(lambda: self.taps or self._polls > poll, fields.get("timeout", 0))
        if self._polls > poll:
            raise BotError(409, "Conflict: terminated by other getUpdates request")
        return list(self.taps.values())

    def _send_message(self, fields: dict[str, Any]) -> object:
        chat = fields["chat_id"]
        if chat in self.blocked:
            raise BotError(403, "Forbidden: bot was blocked by the user")
        _check(fields)
        shown = Shown(chat, self._number(), fields["text"], _buttons(fields), 0)
        self.messages[shown.id] = shown
        return {"message_id": shown.id, "date": 0, "chat": {"id": chat, "type": "private"}}

    def _edit_message_text(self, fields: dict[str, Any]) -> object:
        _check(fields)
        before = self.messages.get(fields["message_id"])
        if before is None or before.chat != fields["chat_id"]:
            raise BotError(400, "Bad Request: message to edit not found")
        text, buttons = fields["text"], _buttons(fields)
        if (text, buttons) == (before.text, before.buttons):
            raise BotError(400, "Bad Request: message is not modified")
        after = before._replace(text=text, buttons=buttons, edits=before.edits + 1)
        self.messages[after.id] = after
        return {"message_id": after.id, "date": 0, "chat": {"id": after.chat, "type": "private"}}

    def _answer_callback_query(self, fields: dict[str, Any]) -> object:
        query = fields["callback_query_id"]
        if query not in self._open or len(fields["text"]) > 200:
            raise BotError(400, "Bad Request: query is too old or query ID is invalid")
        self._open.remove(query)
        self.answers[query] = fields["text"]
        return True

    # -- HTTP --------------------------------------------------------------------------------------

    def call(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        _, token, method = path.split("/")
        if token != f"bot{TOKEN}":
            return BotError(401, "Unauthorized").answer
        methods = {
            "getMe": self._get_me,
            "getUpdates": self._get_updates,
            "sendMessage": self._send_message,
            "editMessageText": self._edit_message_text,
            "answerCallbackQuery": self._answer_callback_query,
        }
        with self._changed:
            self.calls.append((method, fields))
            try:
                if self.then.get(method):
                    raise self.then[method].pop(0)
                return {"ok": True, "result": methods[method](fields)}
            except BotError as exc:
                return exc.answer
            finally:
                self._changed.notify_all()

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _handler(telegram) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                answer = telegram.call(self.path, json.loads(self.rfile.read(length) or b"{}"))
                body = json.dumps(answer).encode()
                try:
                    self.send_response(answer.get("error_code", 200))
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # whoever polled has gone

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        return Handler

    @contextmanager
    def serving(self) -> Iterator["Telegram"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            with self._changed:
                self._polls += 1
                self._changed.notify_all()
            self._server.shutdown()
            self._server.server_close()


def _buttons(fields: dict[str, Any]) -> dict[str, str]:
    rows = fields.get("reply_markup", {}).get("inline_keyboard", [])
    return {
        button["text"]: button.get("callback_data") or button["url"]
        for row in rows
        for button in row
    }


def _check(fields: dict[str, Any]) -> None:
    text = fields["text"]
    if not text.strip():
        raise BotError(400, "Bad Request: message text is empty")
    if units(text) > MAX_TEXT:
        raise BotError(400, "Bad Request: message is too long")
    for entity in fields.get("entities", ()):
        if entity["length"] < 1 or entity["offset"] + entity["length"] > units(text):
            raise BotError(400, "Bad Request: entity is out of the text")
    for data in _buttons(fields).values():
        if not 1 <= len(data.encode()) <= 64 and not data.startswith("https://"):
            raise BotError(400, "Bad Request: BUTTON_DATA_INVALID")


@contextmanager
def telegram() -> Iterator[Telegram]:
    with Telegram().serving() as serving:
        yield serving


def table(api: Telegram, token_file: str, to: str) -> str:
    return f"""
[notifications.telegram]
enabled = true
token_file = "{token_file}"
api_url = "{api.url}"
to = {to}
"""
