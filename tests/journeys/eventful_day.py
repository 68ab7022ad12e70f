"""A simulated day with everything that the control room can show, played over the bus.

It begins two minutes ago, so that its first requests are already overdue for delivery.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, Reply
from tests.journeys.delivery_targets import outbox, until
from tests.journeys.people import control
from tests.journeys.wall_clock import WallClock

CONFIG: Final = """
[safe_mode]
cooldown_ms = 600_000
global_after_agents = 0
[breaker]
open_s = 600
[cooldown]
dispatch_s = 600
[budget]
day_usd = 20
agent_usd = 10
[anomaly.files_per_commit]
severity = "high"
[notifications]
batch_interval_seconds = 0
strategy = "all"
patience_minutes = []
next_person_minutes = 0
quiet_start = "00:00"
quiet_end = "00:00"
summaries = "off"
[notifications.webhook]
enabled = true
url = "http://127.0.0.1:{port}/webhook"
secret_file = "{secret}"
[notifications.ntfy]
enabled = true
url = "http://127.0.0.1:{port}/topic"
"""
AGO_S: Final = 120.0
UNHEARD: Final = "shop"  # no channel delivers its requests
KEYED: Final = "release"
SECOND: Final = "bob"  # a second operator
DIFF: Final = "--- a/pay.py\n+++ b/pay.py\n@@ -1 +1 @@\n-fee = 0.02\n+fee = 0.03\n"
LATENCIES_MS: Final = (*(100 + n % 3 for n in range(12)), 9_000)


class Day(NamedTuple):
    """The daemon's addresses and the pending requests."""

    daemon: RunningDaemon
    unheard: str
    asked: tuple[str, str, str]


class _Receiver(ThreadingHTTPServer):
    """Accepts webhook messages except those about one agent, and refuses ntfy."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self._handler())
        self.barred = False

    def _handler(receiver) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                unheard = f'"agent":"{UNHEARD}"'.encode() in body
                ntfy = 401 if receiver.barred else 410
                self.send_response(ntfy if self.path != "/webhook" else 410 if unheard else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def eventful_day(start: StartDaemon, directory: Path) -> Iterator[Day]:
    """Play the day and return it."""
    server = _Receiver()
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    secret = directory / "webhook.secret"
    secret.write_text("a-secret-of-some-length")
    wall = WallClock(directory)
    wall.step(-AGO_S)
    config = CONFIG.format(port=server.server_address[1], secret=secret)
    daemon = start(config, wall.variables)
    for command in (("agent", "add", KEYED), ("operator", "add", SECOND)):
        assert daemon.safetyd(*command).returncode == 0
    unheard = _ask_in_vain(daemon)
    daemon.stop()  # otherwise the daemon would see a clock step
    wall.step(AGO_S)
    server.barred = True
    daemon.start()
    try:
        yield Day(daemon, unheard, _live(daemon))
    finally:
        server.shutdown()
        server.server_close()


def _ask_in_vain(daemon: RunningDaemon) -> str:
    """Make a request that no channel delivers."""
    with Asker(daemon, UNHEARD) as shop:
        asked = shop.propose("sale", type="deploy", text="deploy the sale to staging")
    request: str = asked["request_id"]
    until(lambda: _told_of(daemon, "dead").count(request) == 2, "messages to fail")
    return request


def _live(daemon: RunningDaemon) -> tuple[str, str, str]:
    _build(daemon)
    _fetch(daemon)
    _fail(daemon)
    with Asker(daemon, "planner") as planner:
        planner.ask("propose", {"type": "dispatch", "target": {"name": "ops"}, "id": "plan-1"})
        for _ in range(5):
            planner.ask("telemetry", {"type": "iteration", "session": "sprint"})
    with Asker(daemon, "formatter") as formatter:
        _act(formatter, "format-1")
        formatter.ask("telemetry", {"type": "metrics", "files_changed_per_commit": 40})
    with Asker(daemon, "idle") as idle:
        _act(idle, "idle-1")
    control(daemon, "pause", agent="idle", reason="until the meeting is over")
    control(daemon, "stop", agent="halted", reason="it talks too much")
    return _ask(daemon)


def _build(daemon: RunningDaemon) -> None:
    """Spend money on two models in two sessions, get blocked, and be slow once."""
    with Asker(daemon, "builder") as builder:
        for session, model in (("morning", "llama-70b"), ("noon", "qwen-32b")):
            started = {"type": "session_started", "session": session, "model": model}
            builder.ask("telemetry", started)
        for number, latency_ms in enumerate(LATENCIES_MS):
            took = {"latency_ms": latency_ms, "cost_usd": 0.25}
            _act(builder, f"read-{number}", took, model="llama-70b", session="morning")
        _act(builder, "noon-1", {"cost_usd": 1.5}, model="qwen-32b", session="noon")
        builder.ask("propose", {"type": "run_shell", "text": "rm -rf /", "id": "wipe"})
        builder.ask("propose", {"type": "read_file", "text": "last.txt", "id": "open-1"})


def _fetch(daemon: RunningDaemon) -> None:
    """Call a failing dependency until its breaker opens, and one that works."""
    with Asker(daemon, "crawler") as crawler:
        for number in range(8):
            call = {"type": "web_fetch", "dependency": "search-api"}
            _act(crawler, f"search-{number}", {"ok": number < 3}, **call)
        _act(crawler, "index-1", type="web_fetch", dependency="index")
        crawler.ask("propose", {**call, "text": "search-9.txt", "id": "search-9"})


def _fail(daemon: RunningDaemon) -> None:
    with Asker(daemon, "flaky") as flaky:
        for number in range(3):
            _act(flaky, f"try-{number}", {"ok": False, "error": "the test bench is offline"})


def _ask(daemon: RunningDaemon) -> tuple[str, str, str]:
    key = daemon.data_dir / "keys" / "agents" / f"{KEYED}.nk"
    with Asker(daemon, KEYED, key) as release:
        _act(release, "check-1", {"cost_usd": 0.5}, model="qwen-32b", session="night")
        first, second, third = (
            release.propose(f"push-{n}", text=f"git push origin r{n}", context={"diff": DIFF})
            for n in range(3)
        )
    asked = first["request_id"], second["request_id"], third["request_id"]
    until(lambda: {*asked} <= {*_told_of(daemon, "delivered")}, "messages to arrive")
    until(lambda: bool(_told_of(daemon, "parked")), "a message to be parked")
    return asked


def _told_of(daemon: RunningDaemon, state: str) -> list[str]:
    """Return the requests named in the messages that arrived here."""
    return [ref for row in outbox(daemon) if row["state"] == state for ref in row["refs"]]


def _act(agent: Asker, id_: str, outcome: Reply | None = None, **about: str) -> None:
    """Propose an allowed action and report its outcome."""
    proposal = {"type": "read_file", "text": f"{id_}.txt", "id": id_, **about}
    decided = agent.ask("propose", proposal)
    assert decided["decision"] == "allow", decided
    told = {name: said for name, said in about.items() if name != "type"}
    agent.ask("telemetry", {"type": "outcome", "id": id_, "ok": True, **told, **(outcome or {})})
