"""Local receivers for every channel that accept, refuse or hang."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self
from urllib.parse import parse_qs

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon
from tests.notify.email.mail_servers import HANG, Login, MailServer, mail_server
from tests.notify.sms.twilio_stand_in import ACCOUNT, AUTH_TOKEN

PATIENCE_S: Final = 25.0
CHANNELS: Final = ("email", "sms", "webhook", "ntfy", "team")

# Accept; hang before accepting; hang after accepting; refuse for now.
Mode = Literal["takes", "deaf", "mute", "refuses"]


class Arrival(NamedTuple):
    at: float
    id: str  # of the message, where the channel transmits one
    words: str


class Targets:
    """The receivers; `mode` applies to every channel that is not in `modes`."""

    def __init__(self, mail: MailServer) -> None:
        self.modes: dict[str, Mode] = {}
        self.mail = mail
        self._posted: dict[str, list[Arrival]] = {}
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    def set(self, mode: Mode, *channels: str) -> None:
        """Set the mode of these channels, or of all; deliveries that already hang go on hanging."""
        for channel in channels or CHANNELS:
            self.modes[channel] = mode
        asked = self.modes.get("email", "takes")
        answers = {"deaf": ("MAIL", HANG), "mute": ("DATA", HANG), "refuses": ("MAIL", "451 later")}
        self.mail.script = dict([answers[asked]]) if asked != "takes" else {}

    def arrivals(self, channel: str) -> list[Arrival]:
        if channel == "email":
            return [
                Arrival(0.0, str(mail.message["Message-ID"]).strip("<>").split("@")[0], mail.text)
                for mail in self.mail.received
            ]
        return list(self._posted.get(channel, ()))

    def wait(self, channel: str, count: int) -> list[Arrival]:
        """Wait for this many messages and return them."""
        until(lambda: len(self.arrivals(channel)) >= count, f"{count} on {channel}")
        return self.arrivals(channel)

    def serve(self) -> threading.Thread:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def configure(self, directory: Path) -> str:
        """Write the secrets into a directory and return the configuration."""
        directory.mkdir(parents=True, exist_ok=True)
        base = f"http://127.0.0.1:{self.port}"
        (directory / "smtp.password").write_text("sesame")
        (directory / "twilio.token").write_text(AUTH_TOKEN)
        (directory / "webhook.secret").write_text("a-secret-of-some-length")
        (directory / "team.url").write_text(f"json://127.0.0.1:{self.port}/team")
        return f"""
[notifications.email]
enabled = true
to = "alice@example.com"
from = "safetyd@example.com"
smtp_host = "localhost"
smtp_port = {self.mail.port}
username = "safetyd"
password_file = "{directory}/smtp.password"
ca_file = "{self.mail.ca_file}"
[notifications.sms]
enabled = true
to = "+15550100"
from = "+15550199"
account_sid = "{ACCOUNT}"
auth_token_file = "{directory}/twilio.token"
api_url = "{base}"
[notifications.webhook]
enabled = true
url = "{base}/webhook"
secret_file = "{directory}/webhook.secret"
include_links = true
[notifications.ntfy]
enabled = true
url = "{base}/topic"
[[notifications.apprise]]
name = "team"
url_file = "{directory}/team.url"
"""

    def _handler(targets) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                channel = _channel(self.path)
                mode = targets.modes.get(channel, "takes")
                if mode in {"takes", "mute"}:
                    arrival = _arrival(channel, self.headers["webhook-id"] or "", body)
                    targets._posted.setdefault(channel, []).append(arrival)
                if mode in {"deaf", "mute"}:
                    targets._released.wait(PATIENCE_S * 2)
                    return
                taken = 201 if channel == "sms" else 200
                self._answer(503 if mode == "refuses" else taken)

            def _answer(self, status: int) -> None:
                body = json.dumps({"sid": "SM1", "id": "n1", "status": "queued"}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _channel(path: str) -> str:
    if path.startswith("/2010"):
        return "sms"
    return {"/webhook": "webhook", "/team": "team"}.get(path, "ntfy")


def _arrival(channel: str, id_: str, body: bytes) -> Arrival:
    now = time.monotonic()
    if channel == "sms":
        return Arrival(now, "", parse_qs(body.decode())["Body"][0])
    fields: dict[str, Any] = json.loads(body)
    if channel == "webhook":
        return Arrival(now, id_, body.decode())
    return Arrival(now, fields.get("sequence_id", ""), fields["message"])


@contextmanager
def targets() -> Iterator[Targets]:
    with mail_server(login=Login("safetyd", "sesame")) as mail:
        found = Targets(mail)
        thread = found.serve()
        try:
            yield found
        finally:
            found.close()
            thread.join(PATIENCE_S)


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds, up to a limit."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


def outbox(daemon: RunningDaemon) -> list[dict[str, Any]]:
    """Return the daemon's messages, newest first."""
    own = daemon.data_dir / "keys" / "operator.nk"
    with Peer(daemon.endpoint.bus, own, "_INBOX.op.local") as peer:
        reply = peer.ask("safety.v1.query.local", b'{"command":"outbox"}').fields
    rows: list[dict[str, Any]] = reply["deliveries"]
    return rows


class Helper:
    """A desktop helper as the daemon sees it."""

    def __init__(self, daemon: RunningDaemon) -> None:
        own = daemon.data_dir / "keys" / "operator.nk"
        self._peer = Peer(daemon.endpoint.bus, own, "_INBOX.op.local")
        self._notices = self._peer.subscribe("safety.v1.event.DESKTOP_NOTICE")
        self._peer.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def hears(self) -> dict[str, Any]:
        """Return the next message to show."""
        notice: dict[str, Any] = self._peer.heard(self._notices, PATIENCE_S).fields["notice"]
        return notice

    def shows(self, notice: dict[str, Any]) -> None:
        """Confirm to the daemon that a message is shown."""
        shown = {"command": "notify_shown", "delivery": notice["delivery"]}
        self._peer.ask("safety.v1.control.local", json.dumps(shown).encode())
