"""Record the telemetry of a real host: `python -m tests.hosts.real.record_telemetry NAME...`.

NAME is a program such as `codex-0.169.0`. A relay in front of the daemon writes each body to
`tests/hosts/telemetry/`. Every text that safetyd does not read is replaced by a canary.
"""

import gzip
import json
import re
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation, ToolCall
from tests.conftest import RunningDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome
from tests.hosts.recorded_telemetry import CANARY, READ, RECORDED

_SESSION: Final = re.compile(r"session ID (\d+)")


class _Relay(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, daemon: str) -> None:
        self.daemon_url = daemon
        self.bodies: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: _Relay

    def do_POST(self) -> None:
        content = b"".join(self._chunks())
        plain = content
        if self.headers.get("Content-Encoding") == "gzip":
            plain = gzip.decompress(content)
        self.server.bodies.append((self.path, json.loads(plain)))
        names = ("Content-Type", "Content-Encoding", "Authorization")
        headers = {name: self.headers[name] for name in names if self.headers[name]}
        url = f"{self.server.daemon_url}{self.path}"
        with urllib.request.urlopen(urllib.request.Request(url, content, headers)) as answer:
            said = answer.read()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_arguments: object) -> None:
        pass

    def _chunks(self) -> Iterator[bytes]:
        if (length := self.headers.get("Content-Length")) is not None:
            yield self.rfile.read(int(length))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()


@contextmanager
def _relayed(daemon: str) -> Iterator[_Relay]:
    with _Relay(daemon) as relay:
        thread = threading.Thread(target=relay.serve_forever)
        thread.start()
        try:
            yield relay
        finally:
            relay.shutdown()
            thread.join()


def _calls(home: HostHome) -> Conversation:
    yield home.headless.shell(f"echo {CANARY}; exit 3")
    yield ToolCall("no_such_tool", {})
    if home.program.host == "codex":
        running = yield ToolCall("exec_command", {"cmd": "cat", "tty": True, "yield_time_ms": 500})
        found = _SESSION.search(running)
        assert found is not None, running
        typing = {"session_id": int(found[1]), "yield_time_ms": 300}
        yield ToolCall("write_stdin", {**typing, "chars": ""})
        yield ToolCall("write_stdin", {**typing, "chars": f"{CANARY}\n"})


def record(program: Program, folder: Path) -> Path:
    """Run a host; return the file with its telemetry."""
    home, daemon = HostHome(program, folder), RunningDaemon(folder, CONFIG)
    web = daemon.endpoint.web
    try:
        with home.with_model(), _relayed(web) as relay:
            said = run_safetyd(home, daemon, "protect", program.host, "--yes")
            for name in home.files():
                path = home.home / name
                path.write_text(path.read_text().replace(f"{web}/otlp", f"{relay.url}/otlp"))
            variable = re.search(r"(OTEL_\w+)=(\S+)", said)
            more = {variable[1]: variable[2].replace(web, relay.url)} if variable else {}
            home.talk(_calls(home), variables={"GEMINI_TELEMETRY_ENABLED": "", **more})
    finally:
        daemon.stop()
    path = RECORDED / f"{program.name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    signals = ((sent.rpartition("/")[2], _replaced(body)) for sent, body in relay.bodies)
    lines = [json.dumps({"signal": signal, "body": body}) for signal, body in signals]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _replaced(value: Any, key: str = "") -> Any:
    """Return a body in which every text that is not read is the canary."""
    match value:
        case {"key": str(name), "value": dict(inner)}:
            return {"key": name, "value": _replaced(inner, name)}
        case dict():
            return {name: _replaced(inner, key or _top(name)) for name, inner in value.items()}
        case list():
            return [_replaced(inner, key) for inner in value]
        case str() if key == "arguments":
            said = json.loads(value)
            return json.dumps({name: _typed(inner) for name, inner in said.items()})
        case str() if key not in READ and value:
            return CANARY
    return value


def _top(name: str) -> str:
    """Return the name of a field outside attributes, if it is read."""
    return name if name in READ else ""


def _typed(value: object) -> object:
    return CANARY if isinstance(value, str) and value else value


def main(names: list[str]) -> None:
    for program in PROGRAMS:
        if program.name in names:
            with tempfile.TemporaryDirectory() as folder:
                print(record(program, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
