"""The examples of docs/openapi.yaml; `python -m tests.http_examples` records them again."""

import asyncio
import json
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from docs.openapi import EXAMPLES, FEED, PREFIX, SAFE_MODE, Example, ExampleRecord
from safetyd.client import SyncSafety
from safetyd.web.hook_routes import HOOKS
from safetyd.web.v1.agent_routes import CLAIM, OUTCOME, PROPOSE, WAIT
from safetyd.web.v1.question_routes import ROUTES
from tests.conftest import RunningDaemon
from tests.journeys.agents import until
from tests.journeys.http_agent import HttpAgent

CONFIG: Final = """
[notifications]
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
[notifications.desktop]
helper = true
[web]
port = 0
"""
PATIENCE_S: Final = 60.0
SHOWN_ROWS: Final = 2
SHOP: Final = "shop"  # the agent that uses HTTP
TOKEN_FILE: Final = "shop-token"  # where its token is during a test
BY_AGENT: Final = tuple(path.partition("{")[0] for path in (PROPOSE, WAIT, CLAIM, OUTCOME, HOOKS))
REQUEST: Final = "{request}"  # placeholder for the id of the pending request
COMMIT: Final = "{change}"  # placeholder for the commit after an action
PROJECT: Final = """
[projects.shop]
root = "{root}"
history = "shadow"
"""
# Paths to request; a path without parameters is also requested as it is.
ASKED: Final = {
    "/agents": ("?limit=2&after=code", "?limit=0"),
    "/requests": ("?agent=shop",),
    "/requests/{id}": (f"/{REQUEST}", "/req_000000000000"),
    "/commits": ("?project=shop&limit=5", "?path=cart.py&since=2026-01-01T00:00:00Z"),
    "/commits/{commit}": (f"/{COMMIT}", "/0000000000"),
    "/decisions": ("?verdict=block&limit=1", "?since=yesterday"),
    "/decisions/{id}": ("/clean-1", "/no-such-id"),
    "/agents/{agent}": ("/shop", "/nobody"),
    "/agents/{last}/explain": ("/shop/explain",),
    "/safe-mode": ("?agent=code",),
    "/report": ("?date=soon",),
    "/outbox": ("?limit=1",),
    "/preview": ("?channel=desktop",),
}


class Answer(NamedTuple):
    status: int
    content: dict[str, Any]


class Fetched(NamedTuple):
    status: int
    content_type: str
    body: bytes


def ask(daemon: RunningDaemon, example: Example) -> Answer:
    """Send an example's request."""
    if example.path == FEED:
        return Answer(101, asyncio.run(first_frame(daemon, example.target)))
    data = None if example.body is None else json.dumps(example.body).encode()
    heard = fetch(daemon, example.target, data)
    return Answer(heard.status, json.loads(heard.body))


async def first_frame(daemon: RunningDaemon, target: str) -> dict[str, Any]:
    url = daemon.endpoint.web + target
    async with (
        aiohttp.ClientSession(headers=bearer(daemon)) as session,
        session.ws_connect(url) as socket,
        asyncio.timeout(PATIENCE_S),
    ):
        return dict(await socket.receive_json())


def bearer(daemon: RunningDaemon) -> dict[str, str]:
    token = (daemon.data_dir / "keys/operator.token").read_text().strip()
    return {"Authorization": f"Bearer {token}"}


def _agent_token(daemon: RunningDaemon) -> dict[str, str]:
    return {"Authorization": f"Bearer {(daemon.directory / TOKEN_FILE).read_text()}"}


def fetch(daemon: RunningDaemon, target: str, data: bytes | None = None) -> Fetched:
    """Send a GET, or a POST if there is data."""
    sent = _agent_token(daemon) if target.startswith(BY_AGENT) else bearer(daemon)
    request = urllib.request.Request(daemon.endpoint.web + target, data, sent)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return Fetched(response.status, response.headers.get_content_type(), response.read())
    except urllib.error.HTTPError as exc:
        with exc:
            return Fetched(exc.code, exc.headers.get_content_type(), exc.read())


class Played(NamedTuple):
    """The ids of the pending request, and of the commit after an action."""

    request: str
    commit: str


def play(daemon: RunningDaemon) -> Played:
    """Let agents do a bit of everything."""
    (root := daemon.directory / "shop").mkdir()
    with daemon.config_path.open("a") as config:
        config.write(PROJECT.format(root=root))
    assert daemon.safetyd("reload").returncode == 0
    with SyncSafety("code", url=daemon.endpoint.bus) as code:
        (cart := root / "cart.py").write_text("total = 0\n")
        edit = code.propose("edit_file", paths=[str(cart)], description="a total", id="edit-1")
        code.report(edit.id, ok=True)
        read = code.propose("read_file", paths=[str(root / "app.py")], id="read-1")
        code.report(read.id, ok=True)
        code.propose("run_shell", text="rm -rf /", id="clean-1")
    shop = HttpAgent(daemon, SHOP)
    (daemon.directory / TOKEN_FILE).write_text(shop.token)
    asked = shop.propose(type="click", text="Submit order", id="order-1").content
    until(lambda: _commits(daemon))
    return Played(asked["request_id"], _commits(daemon)[0]["commit"])


def _commits(daemon: RunningDaemon) -> list[dict[str, Any]]:
    return list(json.loads(fetch(daemon, f"{PREFIX}/commits").body)["commits"])


def requests(played: Played) -> Iterator[Example]:
    """Yield the requests, without answers."""
    for below in (route.path for route in ROUTES):
        path = f"{PREFIX}{below}"
        start = path.partition("/{")[0]
        if start == path:
            yield _asked(path, path)
        for rest in ASKED.get(below, ()):
            yield _asked(path, start + _filled(rest, played))
    read = {"type": "read_file", "text": "cart.py", "id": "read-2"}
    yield _asked(PROPOSE, PROPOSE.format(agent=SHOP), read)
    yield _asked(PROPOSE, PROPOSE.format(agent=SHOP), {"text": "no type"})
    yield _asked(PROPOSE, PROPOSE.format(agent="code"), read)
    yield _asked(WAIT, f"{WAIT.format(request=played.request)}?timeout_s=0")
    yield _asked(WAIT, f"{WAIT.format(request='req_000000000000')}?timeout_s=0")
    yield _asked(CLAIM, CLAIM.format(agent=SHOP), {"id": "order-1", "digest": "sha256:0"})
    yield _asked(OUTCOME, OUTCOME.format(id="read-2"), {"ok": True, "latency_ms": 12})
    yield _asked(HOOKS, HOOKS.format(dialect="claude"), _tool_call("rm -rf /"))
    yield _asked(HOOKS, HOOKS.format(dialect="codex"), _tool_call("ls"))
    yield _asked(FEED, f"{FEED}?after=0")
    yield _asked(FEED, f"{FEED}?after=1&agent=shop&event_type=PERMISSION_REQUESTED")
    yield _asked(SAFE_MODE, f"{SAFE_MODE}?agent=code")
    yield _asked(SAFE_MODE, SAFE_MODE)
    yield _asked(SAFE_MODE, f"{SAFE_MODE}?agent=nobody")
    left = f"{SAFE_MODE}/exit"
    yield _asked(left, left, {"all": True, "force": True, "reason": "the drill is over"})


def _tool_call(command: str) -> dict[str, Any]:
    return {
        "hook_event_name": "PreToolUse",
        "session_id": "one",
        "cwd": "/srv/project",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": command[:2],
    }


def _filled(text: str, played: Played) -> str:
    return text.replace(REQUEST, played.request).replace(COMMIT, played.commit)


def _asked(path: str, target: str, body: dict[str, Any] | None = None) -> Example:
    method = "GET" if body is None else "POST"
    return Example(method=method, path=path, target=target, body=body, status=0, answer={})


def record(daemon: RunningDaemon) -> ExampleRecord:
    played = play(daemon)
    examples = []
    for example in requests(played):
        example.status, content = ask(daemon, example)
        example.answer = _anonymous(_short(content), daemon)
        examples.append(example)
    return ExampleRecord(request=played.request, commit=played.commit, examples=tuple(examples))


def _short(value: Any) -> Any:
    """Keep only the first rows."""
    if isinstance(value, list):
        return [_short(row) for row in value[:SHOWN_ROWS]]
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return value


def _anonymous(answer: Any, daemon: RunningDaemon) -> Any:
    """Replace this daemon's paths by those of an installed one."""
    text = json.dumps(answer)
    for here, there in (
        (daemon.data_dir, "/var/lib/safetyd"),
        (daemon.directory, "/etc/safetyd"),
        (daemon.endpoint.web, "http://127.0.0.1:8787"),
        (Path.cwd(), "/srv/project"),
    ):
        text = text.replace(str(here), there)
    return json.loads(text)


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        daemon = RunningDaemon(Path(directory), CONFIG)
        try:
            text = json.dumps(msgspec.to_builtins(record(daemon)), indent=1, ensure_ascii=False)
            EXAMPLES.write_text(f"{text}\n")
        finally:
            daemon.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
