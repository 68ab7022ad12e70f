"""An agent that uses the HTTP API with a token."""

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from tests.conftest import RunningDaemon
from tests.console.console_rig import told


class Heard(NamedTuple):
    status: int
    content: dict[str, Any]
    headers: dict[str, str]


class HttpAgent:
    """One agent with a given token or a new one."""

    def __init__(self, daemon: RunningDaemon, name: str, token: str | None = None) -> None:
        self.daemon = daemon
        self.name = name
        self.token = new_token(daemon, "add", name) if token is None else token

    def propose(self, name: str = "", /, **fields: object) -> Heard:
        return self.post(f"propose/{name or self.name}", fields)

    def wait(self, request: str, timeout_s: float = 10.0) -> Heard:
        return self.ask(f"wait/{request}?timeout_s={timeout_s}")

    def post(self, path: str, fields: object) -> Heard:
        return self.ask(path, json.dumps(fields).encode())

    def ask(self, path: str, body: bytes | None = None, **headers: str) -> Heard:
        """Send a GET, or a POST if there is a body."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{self.daemon.endpoint.web}/api/v1/{path}"
        request = urllib.request.Request(url, body, sent)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return Heard(response.status, json.load(response), dict(response.headers))
        except urllib.error.HTTPError as exc:
            with exc:
                text = exc.read().decode()
                content = json.loads(text) if text.startswith("{") else {"text": text}
                return Heard(exc.code, content, dict(exc.headers))


def new_token(daemon: RunningDaemon, command: str, name: str, *options: str) -> str:
    """Make a token with `safetyd agent add` or `rotate` and return what it prints."""
    said = told(daemon, "agent", command, name, "--token", *options)
    assert said.returncode == 0, said.stderr
    (token,) = (line.strip() for line in said.stdout.splitlines() if f"  {name}." in line)
    return token
