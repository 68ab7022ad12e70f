"""The hook lets a call pass only with the daemon's own answer to exactly this call."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd import hook
from safetyd.hosts import hook_answer
from tests.hosts.socket_stand_in import HEAD, Answer, answering

CALL: Final = b'{"tool_name": "Bash", "tool_input": {"command": "touch x"}}'
DIALECTS: Final = ("claude", "codex", "copilot", "gemini", "opencode")


class Ran(NamedTuple):
    stdout: str
    stderr: str
    code: int

    @property
    def refuses(self) -> bool:
        """Whether every host skips the call, and its model gets to know why."""
        if self.code == 2:
            return self.stdout == "" and self.stderr.strip() != ""
        if self.code != 0 or self.stderr:
            return False
        try:
            answer = json.loads(self.stdout)
        except ValueError:
            return False
        said = answer.get("hookSpecificOutput", answer)
        words = said.get("permissionDecisionReason") or said.get("reason")
        return "deny" in {said.get("permissionDecision"), said.get("decision")} and bool(words)


UNANSWERED: Final = Ran("", "", 0)


def good(nonce: str, stdout: str = "", stderr: str = "", code: object = 0) -> bytes:
    """Return the daemon's answer: alive, then the last line and the texts."""
    texts = stdout.encode(), stderr.encode()
    alive = f"safetyd/1 {nonce} alive\n"
    last = f"safetyd/1 {nonce} {code} {len(texts[0])} {len(texts[1])}\n"
    return HEAD + alive.encode() + last.encode() + b"".join(texts)


def run(path: Path, *options: str, dialect: str = "claude", content: bytes = CALL) -> Ran:
    """Run the hook in this process, which a property test can do a thousand times."""
    printed = {1: b"", 2: b""}

    def write(descriptor: int, data: bytes) -> int:
        printed[descriptor] += data
        return len(data)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        patch.setattr(os, "write", write)
        try:
            code = hook.main([dialect, "--socket", str(path), "--agent", "claude-code", *options])
        finally:
            signal.signal(signal.SIGTERM, before)
    return Ran(printed[1].decode(), printed[2].decode(), code)


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # tmp_path may be too long for a socket
        yield Path(folder) / "hook.sock"


def answered(answer: Answer, *options: str, dialect: str = "claude") -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hook.sock"
        with answering(path, answer):
            return run(path, *options, dialect=dialect)


def test_an_allow_prints_nothing_and_a_refusal_what_the_daemon_says() -> None:
    assert answered(good) == Ran("", "", 0)
    assert answered(lambda nonce: good(nonce, "no ÿ", "x")) == Ran("no ÿ", "x", 0)
    assert answered(lambda nonce: good(nonce, stderr="no", code=2)) == Ran("", "no", 2)


def test_the_daemon_gets_the_event_the_agent_and_the_token(path: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("claude-code.secret\n")

    with answering(path, good) as daemon:
        assert run(path, "--token-file", str(token)).code == 0

    head, _, body = daemon.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /hooks/v1/claude/before HTTP/1.0"
    assert {"Safetyd-Agent: claude-code", "Authorization: Bearer claude-code.secret"} <= {*lines}
    assert body == CALL


@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_let_nothing_pass(answer: bytes, head: bool) -> None:  # noqa: FBT001
    assert answered(lambda _nonce: HEAD * head + answer).refuses


def test_every_beginning_of_a_good_answer_is_a_refusal() -> None:
    for size in range(len(good("0" * 16, "yes", "no"))):
        assert answered(partial(_beginning, size)).refuses


def _beginning(size: int, nonce: str) -> bytes:
    return good(nonce, "yes", "no")[:size]


def test_a_question_gets_a_yes_only_by_a_whole_answer_to_it() -> None:
    ask = ("--event", "permission")
    for size in range(len(good("0" * 16, "yes", "no"))):
        assert answered(partial(_beginning, size), *ask) == UNANSWERED
    assert answered(lambda _nonce: good("0123456789abcdef", "yes"), *ask) == UNANSWERED
    assert answered(lambda nonce: good(nonce, "yes"), *ask) == Ran("yes", "", 0)


@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_answer_no_question(answer: bytes, head: bool) -> None:  # noqa: FBT001
    assert answered(lambda _nonce: HEAD * head + answer, "--event", "permission") == UNANSWERED


@pytest.mark.parametrize(
    "line",
    [
        "safetyd/1 0123456789abcdef 0 0 0",
        "safetyd/2 {} 0 0 0",
        "safetyd/1 {} False 0 0",
        "safetyd/1 {} 0.0 0 0",
        "safetyd/1 {} 0 0",
        "safetyd/1 {} 0 0 0 0",
        "safetyd/1 {}  0 0",
        "safetyd/1 {} 1 0 0",
        "safetyd/1 {} -1 0 0",
        "safetyd/1 {} 0 1 0",
        "safetyd/1 {} 0 0 9999999",
        '{{"safetyd": 1, "nonce": "{}", "exit": 0}}',
    ],
)
def test_a_line_that_is_not_quite_right_is_a_refusal(line: str) -> None:
    assert answered(lambda nonce: HEAD + line.format(nonce).encode() + b"\n").refuses


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>It works</html>\n",
        HEAD + b'{"hookSpecificOutput": {"permissionDecision": "allow"}}\n',
        HEAD + b" " * (hook.MAX_ANSWER_BYTES + 1),
    ],
    ids=["closed", "500", "empty", "html", "an allow without a nonce", "long"],
)
def test_other_programs_on_the_socket_are_refused_in_every_dialect(
    dialect: str, answer: bytes
) -> None:
    assert answered(lambda _nonce: answer, dialect=dialect).refuses


@pytest.mark.parametrize("dialect", [*DIALECTS, "", "unknown"])
def test_without_a_daemon_every_dialect_refuses(path: Path, dialect: str) -> None:
    assert run(path, dialect=dialect).refuses


def test_without_a_daemon_the_refusal_says_how_to_start_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path.parent))

    assert "start it with: safetyd run" in run(path).stdout

    unit = path.parent / "systemd/user/safetyd.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    assert "start it with: systemctl --user start safetyd" in run(path).stdout


def test_silence_is_a_refusal_once_the_patience_is_over(path: Path) -> None:
    with answering(path, good, silent=True):
        assert run(path, "--patience", "0.2").refuses


@pytest.mark.parametrize(
    "options",
    [("--event", "sometimes"), ("--patience", "long"), ("--token-file", "/nonexistent")],
    ids=["event", "patience", "token"],
)
def test_wrong_options_are_a_refusal(path: Path, options: Sequence[str]) -> None:
    with answering(path, good):
        assert run(path, *options).refuses


def test_a_call_that_is_too_large_is_a_refusal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "MAX_EVENT_BYTES", len(CALL) - 1)
    with answering(path, good):
        assert run(path).refuses


@pytest.mark.parametrize("name", ["SAFETYD_ENABLED", "AI_COMPANY_ENABLED"])
def test_a_switch_in_the_environment_refuses_and_none_lets_pass(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(path, good):
        monkeypatch.setenv(name, "Off ")
        assert run(path).refuses
        monkeypatch.setenv(name, "true")
        assert not run(path).refuses


@pytest.mark.parametrize("event", ["permission", "denied", "after", "start", "end"])
def test_reports_never_block_and_say_nothing_if_there_is_no_daemon(path: Path, event: str) -> None:
    assert run(path, "--event", event) == Ran("", "", 0)


def test_a_report_does_not_wait_for_an_answer(path: Path) -> None:
    with answering(path, good, silent=True) as daemon:
        assert run(path, "--event", "after") == Ran("", "", 0)
    assert daemon.requests[0].startswith(b"POST /hooks/v1/claude/after ")


def process(path: Path, **streams: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", hook.__file__, "claude", "--socket", str(path)]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, **streams)  # type: ignore[call-overload]
    assert isinstance(started, subprocess.Popen)
    return started


def test_a_hook_that_is_terminated_refuses(path: Path) -> None:
    with answering(path, good, silent=True) as daemon:
        with process(path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdin is not None
            running.stdin.write(CALL)
            running.stdin.close()
            while not daemon.requests:
                pass
            running.terminate()
            assert running.stdout is not None
            assert running.stderr is not None
            out, err = running.stdout.read().decode(), running.stderr.read().decode()
        assert Ran(out, err, running.returncode).refuses


def test_a_host_that_does_not_read_the_answer_sees_a_failure(path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with process(path, stdout=writing, stderr=subprocess.DEVNULL) as running:
        os.close(writing)
        running.communicate(CALL)
    assert running.returncode == 2


def test_the_hook_and_the_daemon_agree_on_the_code_of_a_question() -> None:
    assert hook_answer.LOOK == hook.LOOK
