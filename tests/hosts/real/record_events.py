"""Record the events that a real host sends: `python -m tests.hosts.real.record_events NAME...`.

NAME is a program such as `codex-0.169.0`. A relay in front of the daemon's socket writes each event
to `tests/hosts/recorded/`, with other paths. With `--questions` before the names, it records the
questions that the host would ask its user, in another folder.
"""

import json
import re
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Final

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.conftest import RunningDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome

RECORDED: Final = Path(__file__).parents[1] / "recorded"
QUESTIONS: Final = RECORDED / "questions"
HOME: Final = "/home/me"
OF_SUBAGENT: Final = 2  # events

Event = dict[str, object]


class _Relay(ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.events: list[tuple[str, str, str]] = []  # dialect, kind and content
        self.daemon_path = path.rename(path.with_name("daemon.sock"))
        super().__init__(str(path), _Handler)


class _Handler(StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Relay)
        head = b""
        while not head.endswith(b"\r\n\r\n") and (line := self.rfile.readline()):
            head += line
        fields = dict(line.lower().split(b": ", 1) for line in head.splitlines() if b": " in line)
        body = self.rfile.read(int(fields.get(b"content-length", b"0")))
        if head:
            dialect, kind = head.split()[1].decode().split("/")[-2:]
            self.server.events.append((dialect, kind, body.decode()))
            with socket.socket(socket.AF_UNIX) as daemon:
                daemon.connect(str(self.server.daemon_path))
                daemon.sendall(head + body)
                with suppress(BrokenPipeError):  # a hook that reports does not wait
                    while more := daemon.recv(65536):
                        self.wfile.write(more)


@contextmanager
def _relayed(path: Path) -> Iterator[_Relay]:
    with _Relay(path) as relay:
        thread = threading.Thread(target=relay.serve_forever)
        thread.start()
        try:
            yield relay
        finally:
            relay.shutdown()
            thread.join()


def record(program: Program, folder: Path, *, questions: bool) -> Path:
    """Run a host through its sample calls; return the file with its events."""
    home = HostHome(program, folder)
    daemon = RunningDaemon(folder, CONFIG)
    try:
        with home.with_model():
            run_safetyd(home, daemon, "protect", program.host, "--yes")
            with _relayed(daemon.data_dir / "hook.sock") as relay:
                if questions:
                    _ask(home)
                else:
                    home.talk(home.samples())
    finally:
        daemon.stop()
    (dialect,) = {dialect for dialect, _, _ in relay.events}
    path = (QUESTIONS if questions else RECORDED) / f"{dialect}-{program.version}.jsonl"
    events = ((kind, json.loads(_moved(content, home))) for _, kind, content in relay.events)
    lines = (json.dumps({"kind": kind, "event": event}) for kind, event in _fewer(events))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _ask(home: HostHome) -> None:
    """Let a host ask its user and, if it has a mode for that, refuse a call itself."""
    assert home.host.asking is not None
    home.talk_as(home.host.asking.arguments, _call(home, "touch made"))
    if home.program.host == "claude-code":
        home.talk_as(("-p", "go", "--permission-mode", "auto"), _call(home, "pytest -q"))
    if home.program.host == "copilot":
        home.talk_as(home.host.asking.arguments, _first_edit(home))


def _call(home: HostHome, command: str) -> Conversation:
    assert home.host.asking is not None
    yield home.host.asking.shell(command)


def _first_edit(home: HostHome) -> Conversation:
    yield next(call for call in home.samples() if call.tool == "create")


def _fewer(events: Iterable[tuple[str, Event]]) -> Iterator[tuple[str, Event]]:
    """Leave out what a subagent repeats: the stand-in lets it make the same calls again."""
    seen: Counter[str] = Counter()
    for kind, event in events:
        subagent = str(event.get("agentId") or event.get("agent_id") or "")
        seen[subagent] += 1
        if not subagent or seen[subagent] <= OF_SUBAGENT:
            yield kind, event


def _moved(content: str, home: HostHome) -> str:
    moved = content.replace(str(home.project), f"{HOME}/project").replace(str(home.home), HOME)
    # Claude Code names a folder after the project's path.
    moved = moved.replace(re.sub(r"\W|_", "-", str(home.project)), "-home-me-project")
    assert str(home.project.parent) not in moved, moved
    return moved


def main(names: list[str]) -> None:
    for program in PROGRAMS:
        if program.name in names:
            with tempfile.TemporaryDirectory() as folder:
                print(record(program, Path(folder), questions="--questions" in names))


if __name__ == "__main__":
    main(sys.argv[1:])
