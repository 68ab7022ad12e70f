"""A relay in its own process, on an external bus with the printed accounts, and its daemon."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import msgspec

from safetyd.bus.keyring import Keyring
from safetyd.console.terminal_text import CTRL_C
from safetyd.core.events.request_events import Answered
from tests.bus.peer import Peer
from tests.conftest import RunningDaemon, environment, safetyd
from tests.free_ports import free_ports
from tests.journeys.asking_agent import Asker
from tests.journeys.audit_record import events
from tests.journeys.delivery_targets import Targets, until
from tests.nats_process import NatsProcess

SERVER: Final = """
jetstream {{ store_dir: "{store}", max_file: 2GB, sync_interval: always }}
max_payload: 256KB
include "accounts.conf"
"""
CONFIG: Final = """
[bus]
url = "{bus}"
key_file = "{key}"
[web]
port = 0
links_port = 0
public_url = "{public}"
[notifications]
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
"""
PATIENCE_S: Final = 60.0


class Sent(NamedTuple):
    """A request, and the link and code in its notification."""

    id: str
    link: str
    code: str

    @property
    def token(self) -> str:
        return self.link.rpartition("/")[2]


class Shown(NamedTuple):
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def nonce(self) -> str:
        return self.text.partition('name="n" value="')[2].partition('"')[0]


class Relay:
    """`safetyd relay` as a process."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.log_file = directory / "relay.log"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "safetyd", "relay", *options],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                cwd=directory,
                text=True,
            )
        assert self._process.stdout is not None
        while CTRL_C not in (line := self._process.stdout.readline()):
            assert line, self.log_file.read_text()

    def stop(self) -> int:
        self._process.terminate()
        try:
            return self._process.wait(PATIENCE_S)
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()


class RelayRig:
    """An agent `code` asks over the bus; its requests go to a webhook, with links to the relay."""

    def __init__(self, directory: Path, targets: Targets) -> None:
        self._directory = directory
        self._targets = targets
        self._asked = 0
        data_dir = directory / "data"
        self.keys = Keyring(data_dir / "keys")
        self.keys.make_own()
        self.agent_key = self.keys.add("agents", "code")
        self.relay_key = self.keys.add("relays", "edge")
        printed = safetyd("nats-config", "--data-dir", str(data_dir))
        (directory / "accounts.conf").write_text(printed.stdout)
        self.bus = NatsProcess(directory, SERVER.format(store=directory / "store"))
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        settings = CONFIG.format(bus=self.bus.url, key=self.keys.daemon, public=self.url)
        self.daemon = RunningDaemon(directory, settings + targets.configure(directory))
        self.relay = self.start_relay()

    def start_relay(self, bus: str = "") -> Relay:
        return Relay(
            self._directory,
            *("--url", bus or self.bus.url, "--key-file", str(self.relay_key)),
            *("--public-url", self.url, "--listen", self.url.removeprefix("http://")),
        )

    def stop(self) -> None:
        self.relay.stop()
        self.daemon.stop()
        self.bus.stop()

    def asks(self, text: str = "git push origin main") -> Sent:
        """Propose a push that needs approval. Return its notification."""
        self._asked += 1
        with Asker(self.daemon, "code", self.agent_key) as asker:
            request_id = asker.propose(f"p{self._asked}", text=text)["request_id"]
        found = list[Sent]()

        def arrived() -> bool:
            found.extend(self._sent(request_id))
            return bool(found)

        until(arrived, f"the notification of {request_id}")
        return found[0]

    def _sent(self, request_id: str) -> Iterator[Sent]:
        for arrival in self._targets.arrivals("webhook"):
            for topic in json.loads(arrival.words)["data"]["topics"]:
                if topic.get("id") == request_id:
                    yield Sent(request_id, topic["link"], topic["code"])

    def post(self, link: str, answer: str, **fields: str) -> Shown:
        """Open a link and send its form."""
        return fetch(link, {"v": answer, "n": fetch(link).nonce, **fields})

    def speak(self, **message: object) -> dict[str, Any]:
        """Return the daemon's answer to a message with the relay's key."""
        with self.attacker() as peer:
            return peer.ask("safety.v1.link.edge", msgspec.json.encode(message)).fields

    def attacker(self) -> Peer:
        """Connect with the relay's key."""
        return Peer(self.bus.url, self.relay_key, "_INBOX.relay.edge")

    def answers(self, sent: Sent) -> list[Answered]:
        """Return the recorded answers to a request."""
        answers = (one for one in events(self.daemon.data_dir) if isinstance(one, Answered))
        return [one for one in answers if one.request_id == sent.id]


def fetch(url: str, form: Mapping[str, str] | None = None, **headers: str) -> Shown:
    data = None if form is None else urlencode(form).encode()
    try:
        with urlopen(Request(url, data, headers), timeout=PATIENCE_S) as found:
            return Shown(found.status, found.read().decode(), dict(found.headers))
    except HTTPError as exc:
        with exc:
            return Shown(exc.code, exc.read().decode(), dict(exc.headers))


@contextmanager
def relay_rig(directory: Path, targets: Targets) -> Iterator[RelayRig]:
    rig = RelayRig(directory, targets)
    try:
        yield rig
    finally:
        rig.stop()
