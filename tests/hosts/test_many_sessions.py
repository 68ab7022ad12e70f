"""Twenty coding sessions at once: every call is answered by its own decision."""

import json
import re
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from safetyd.core.events.decision_events import Decided
from tests.conftest import UNLIMITED, StartDaemon
from tests.hosts.hook_process import Ran, bash
from tests.journeys.audit_record import events

pytestmark = pytest.mark.journey

SESSIONS: Final = 20
CALLS: Final = 50
CONFIG: Final = (
    f"{UNLIMITED}\n[hosts]\nwait_s = 0\ntokens_per_minute = 1_000_000\nburst = 100_000\n"
)
KINDS: Final = ("ls", "rm -rf ~", "git push origin main", "git status --short", "pytest -q")


def ask(path: str, event: dict[str, object], nonce: str, agent: str = "claude-code") -> Ran:
    """Ask as the hook does, without a process for each call."""
    body = json.dumps(event).encode()
    head = (
        "POST /hooks/v1/claude/before HTTP/1.0\r\nHost: localhost\r\n"
        f"Safetyd-Agent: {agent}\r\nSafetyd-Nonce: {nonce}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(head.encode() + body)
        with connection.makefile("rb") as answer:
            said = answer.read()
    last = re.search(rb"^safetyd/1 %b (\d+) (\d+) (\d+)\n" % nonce.encode(), said, re.MULTILINE)
    assert last is not None, said
    code, out, err = map(int, last.groups())
    printed = said[last.end() :]
    assert len(printed) == out + err
    return Ran(printed[:out].decode(), printed[out:].decode(), code)


def test_twenty_sessions_at_once_lose_no_call_and_equal_calls_join_one_request(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(CONFIG)

    def session(number: int) -> list[tuple[str, Ran]]:
        answers = []
        for call in range(CALLS):
            command = KINDS[(call + number) % len(KINDS)]
            event = {**bash(command, f"t{number}-{call}"), "session_id": f"s{number}"}
            nonce = f"{number:08x}{call:08x}"
            answers.append((command, ask(daemon.endpoint.hook, event, nonce)))
        return answers

    with ThreadPoolExecutor(SESSIONS) as pool:
        answers = [one for done in pool.map(session, range(SESSIONS)) for one in done]

    assert len(answers) == SESSIONS * CALLS
    stopped = {"rm -rf ~", "git push origin main"}
    assert [(text, ran) for text, ran in answers if ran.refuses != (text in stopped)] == []
    pushes = {id_ for _, ran in answers for id_ in re.findall(r"req_\w+", ran.stdout)}
    assert len(pushes) == 1
    decided = [event for event in events(daemon.data_dir) if isinstance(event, Decided)]
    calls = Counter((event.proposal.session, event.id) for event in decided)
    assert len(calls) == SESSIONS * CALLS
    assert set(calls.values()) == {1}
    opened = [event for event in decided if event.asks is not None and not event.asks.joins]
    assert len(opened) == 1
