"""The hook that a coding agent runs before and after each tool call, and before it asks its user.

The hook sends the call to the daemon over a Unix socket and prints the daemon's answer. If anything
goes wrong, it refuses the call; a question is left to the user. The hook itself has no rules and
knows no tools.

Agents run this file by its path, with any Python from 3.9 on, and wait for it at every call. So it
imports nothing from safetyd, and only modules that are part of the interpreter: with `socket` and
`json`, it would take twice as long to start.
"""

import _signal  # type: ignore[import-not-found] # it has no stubs
import _socket
import os
import sys
import time

MAX_EVENT_BYTES = 8 * 1024 * 1024
MAX_ANSWER_BYTES = 2 * MAX_EVENT_BYTES  # it can contain the arguments of the call
CONNECT_S = 2.0
FIRST_S = 5.0  # until the first line of the answer
SILENCE_S = 15.0  # between two lines
LOOK = 75  # instead of an exit code: the daemon asks where some paths lead
LAST_WORDS = 5  # in the last line: safetyd/1, nonce, exit code, sizes of both outputs
PATIENCE_S = 600.0  # until the last line; hosts end a hook after 660 s

# Variables that say where the host finds its settings.
FOLDERS = ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME")
EVENTS = ("before", "permission", "denied", "after", "start", "end")
Answer = tuple[bytes, bytes, int]  # standard output, standard error, exit code


class Refused(Exception):
    """The daemon gave no valid answer; the text says why."""


def main(arguments: list[str]) -> int:
    """Ask or report, print the answer, and return the exit code."""
    dialect, event = "".join(arguments[:1]), "before"
    try:
        options = dict(zip(arguments[1::2], arguments[2::2]))  # noqa: B905 - Python 3.10 added it
        event = options.get("--event", event)
        answer = _ask(dialect, event, options)
    except BaseException as problem:  # noqa: BLE001 - a signal refuses the call, too
        if event in EVENTS and event != "before":
            return 0  # a question without an answer stays with the user
        why = str(problem) if isinstance(problem, Refused) else repr(problem)
        answer = _refusal(dialect, f"safetyd: {why}, so this call is blocked.")
    return _print(*answer)


def _refusal(dialect: str, words: str) -> Answer:
    """Return a refusal in the format of the host."""
    plain = "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in words)
    deny = f'"permissionDecision": "deny", "permissionDecisionReason": "{plain}"'
    if dialect in {"claude", "codex"}:
        deny = f'{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", {deny}}}}}'
    elif dialect == "gemini":
        deny = f'{{"decision": "deny", "reason": "{plain}"}}'
    elif dialect == "copilot":
        deny = f"{{{deny}}}"
    else:
        return b"", plain.encode(), 2
    return deny.encode(), b"", 0


def _ask(dialect: str, event: str, options: dict[str, str]) -> Answer:
    """Send the event and return the daemon's answer."""
    for name in ("SAFETYD_ENABLED", "AI_COMPANY_ENABLED"):
        if os.environ.get(name, "").strip().lower() in {"false", "0", "no", "off"}:
            raise Refused(f"agents are switched off by {name}={os.environ[name]}")
    if event not in EVENTS:
        raise Refused(f"the hook does not know the event {event}")
    _signal.signal(_signal.SIGTERM, _terminated)
    until = time.monotonic() + min(float(options.get("--patience", PATIENCE_S)), PATIENCE_S)
    content = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(content) > MAX_EVENT_BYTES:
        raise Refused(f"the call has more than {MAX_EVENT_BYTES} bytes")
    answer = _exchange(dialect, event, options, content, until)
    if answer[2] == LOOK:
        links = b"".join(b"\0" + part for path in answer[0].split(b"\0") for part in _link(path))
        answer = _exchange(dialect, event, options, content + links, until)
        if answer[2] == LOOK:
            raise Refused("the daemon asked for the same links again")
    return answer


def _link(path: bytes) -> tuple[bytes, bytes]:
    """Return a path and where it leads."""
    return path, os.path.realpath(os.path.expanduser(path))  # noqa: PTH111 - of bytes


def _exchange(
    dialect: str, event: str, options: dict[str, str], content: bytes, until: float
) -> Answer:
    nonce = os.urandom(8).hex()
    head = [
        f"POST /hooks/v1/{dialect}/{event} HTTP/1.0",
        "Host: localhost",
        f"Content-Length: {len(content)}",
        f"Safetyd-Agent: {options.get('--agent', '')}",
        f"Safetyd-Nonce: {nonce}",
        "Safetyd-Looks: 1",
        f"Safetyd-Patience: {max(0.0, until - time.monotonic())}",
        *_folders(),
    ]
    if "--lock" in options:
        head.append(f"Safetyd-Lock: {options['--lock']}")
    if "--token-file" in options:
        with open(options["--token-file"], encoding="ascii") as file:  # noqa: PTH123 - see above
            head.append(f"Authorization: Bearer {file.read().strip()}")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        connection.connect(options.get("--socket", ""))
        connection.settimeout(FIRST_S)
        connection.sendall("\r\n".join([*head, "", ""]).encode() + content)
        waits = event in {"before", "permission", "start"}
        return _Reader(connection, until).answer(nonce) if waits else (b"", b"", 0)
    except OSError as problem:
        raise Refused(_unreached(problem)) from problem
    finally:
        connection.close()


def _unreached(problem: OSError) -> str:
    if isinstance(problem, (FileNotFoundError, ConnectionRefusedError)):
        return f"safetyd is not running (start it with: {_start()})"
    return f"the daemon does not answer ({problem.strerror or problem})"


def _start() -> str:
    """Return the command that starts the daemon: that of its service, if one is installed."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    if os.path.exists(f"{home}/systemd/user/safetyd.service"):  # noqa: PTH110
        return "systemctl --user start safetyd"
    system = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
    if any(os.path.exists(f"{folder}/safetyd.service") for folder in system):  # noqa: PTH110
        return "sudo systemctl start safetyd"
    return "safetyd run"


def _folders() -> list[str]:
    """Return headers with the folders in which the host looks for its settings."""
    named = [(name.replace("_", "-"), os.environ.get(name, "")) for name in FOLDERS]
    return [f"Safetyd-{name}: {folder}" for name, folder in named if folder.isprintable()]


def _terminated(_number: int, _frame: object) -> None:
    raise Refused("the hook was terminated")


class _Reader:
    """Reads the answer, each part of which must arrive in time."""

    def __init__(self, connection: _socket.socket, until: float) -> None:
        self._connection = connection
        self._until = until
        self._wait_s = FIRST_S
        self._ahead = b""
        self._size = 0

    def answer(self, nonce: str) -> Answer:
        """Return the answer with our nonce. Lines before it only say that the daemon is alive."""
        status = self._line()
        if status.split()[1:2] != [b"200"]:
            raise Refused(f"the daemon answered {status[:80]!r}")
        while self._line():
            pass
        while True:
            words = self._line().split(b" ")
            if words[:2] != [b"safetyd/1", nonce.encode()]:
                raise Refused("the answer does not come from safetyd")
            if words[2:] != [b"alive"]:
                break
        if len(words) != LAST_WORDS or not all(word.isdigit() for word in words[2:]):
            raise Refused("the answer is not complete")
        code, stdout, stderr = map(int, words[2:])
        return self._bytes(stdout), self._bytes(stderr), code if code in {0, LOOK} else 2

    def _line(self) -> bytes:
        while b"\n" not in self._ahead:
            self._receive()
        line, _, self._ahead = self._ahead.partition(b"\n")
        self._wait_s = SILENCE_S
        return line.rstrip(b"\r")

    def _bytes(self, size: int) -> bytes:
        while len(self._ahead) < size:
            self._receive()
        found, self._ahead = self._ahead[:size], self._ahead[size:]
        return found

    def _receive(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise Refused("no answer came in time")
        self._connection.settimeout(min(self._wait_s, left))
        more = self._connection.recv(65536)
        self._size += len(more)
        if not more or self._size > MAX_ANSWER_BYTES:
            raise Refused("the answer is too long" if more else "the answer is cut off")
        self._ahead += more


def _print(stdout: bytes, stderr: bytes, code: int) -> int:
    try:
        _write(1, stdout)
        # Some hosts run the call if a refusal has no text.
        _write(2, stderr or (b"safetyd: not allowed" if code else b""))
    except OSError:
        return 2
    return code


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    # Not sys.exit: no code that runs while Python exits may change the exit code.
    os._exit(main(sys.argv[1:]))
