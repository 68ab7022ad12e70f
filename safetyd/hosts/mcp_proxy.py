"""A proxy in front of an MCP server on standard input and output: it asks before each tool call.

Other messages are forwarded. The server is a child process that shares the proxy's standard error.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.abc

from safetyd.client import Decision, Safety
from safetyd.client.guard_scope import Stopwatch
from safetyd.hosts.blocking_pipe import lines, read_some, write_all
from safetyd.hosts.call_clearance import CallClearance, Unused
from safetyd.hosts.hook_answer import words_for
from safetyd.hosts.mcp_message import (
    LONG_LINE,
    CallMessage,
    Cancellation,
    Id,
    OtherMessage,
    Rejected,
    read_client_line,
    read_server_line,
    refused_call,
)
from safetyd.hosts.tool_call import MAX_LINE, mcp_tool
from safetyd.hosts.tool_report import MAX_ERROR

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
MAX_CALLS: Final = 256  # that wait or run at the same time
END_S: Final = 5.0  # how long a server that has closed its output may take to end
SIGNALLED: Final = 128  # a shell's exit code for a process that a signal ended, less the signal

_STDIN: Final = 0
_STDOUT: Final = 1
_TOO_MANY: Final = (
    f"safetyd: not now. {MAX_CALLS} calls are under way. Wait until some of them have ended."
)

log = logging.getLogger("safetyd.mcp")


class _RunningCall:
    """A call that the server has received."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.watch = Stopwatch()


class McpProxy:
    """Connects a client and a server. `server` is the name of the server in proposals."""

    def __init__(
        self, safety: Safety, server: str, wait_s: float, *, wait_if_unreachable: bool = False
    ) -> None:
        self._safety = safety
        self._server = server
        self._clearance = CallClearance(safety, wait_s, wait_if_unreachable=wait_if_unreachable)
        self._waiting: dict[Id, anyio.CancelScope] = {}
        self._running: dict[Id, _RunningCall] = {}
        self._to_client = anyio.Lock()
        self._to_server = anyio.Lock()

    async def run(self, command: Sequence[str]) -> int:
        """Run the server until it ends, and return its exit code.

        Raises `OSError` if it cannot be started.
        """
        async with await anyio.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
        ) as process:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pass_signals_on, process)
                tasks.start_soon(self._serve_client, process)
                await self._serve_server(process)
                tasks.cancel_scope.cancel()
            await self._lose_calls()
            code = process.returncode or 0
        return code if code >= 0 else SIGNALLED - code

    async def _serve_client(self, process: anyio.abc.Process) -> None:
        """Handle each line of the client. When the client leaves, end waits for operators."""
        async with anyio.create_task_group() as calls:
            async for line in lines(lambda: read_some(_STDIN), MAX_LINE_BYTES):
                await self._from_client(process, line, calls)
            self._clearance.stop_waiting()
        if process.stdin is not None:
            await process.stdin.aclose()

    async def _from_client(
        self, process: anyio.abc.Process, line: bytes | None, calls: anyio.abc.TaskGroup
    ) -> None:
        if line is not None and not line.strip():
            return
        message = LONG_LINE if line is None else read_client_line(line)
        match message:
            case CallMessage():
                await self._begin(process, message, calls)
            case Cancellation():
                await self._cancel(process, message)
            case OtherMessage(line=encoded):
                await self._forward(process, encoded)
            case Rejected(reason=reason, reply=reply):
                log.warning("a message from the client was not forwarded: %s", reason)
                await self._answer(reply)

    async def _begin(
        self, process: anyio.abc.Process, call: CallMessage, calls: anyio.abc.TaskGroup
    ) -> None:
        if call.id in self._waiting or call.id in self._running:
            # An answer would be taken for the answer to the first call.
            log.warning("the client used the id %.80r twice: the second call was dropped", call.id)
            return
        if len(self._waiting) + len(self._running) >= MAX_CALLS:
            await self._answer(refused_call(call, _TOO_MANY, {}))
            return
        cancelled = self._waiting[call.id] = anyio.CancelScope()
        calls.start_soon(self._handle, process, call, cancelled)

    async def _handle(
        self, process: anyio.abc.Process, call: CallMessage, cancelled: anyio.CancelScope
    ) -> None:
        """Propose a call, and forward it if it is allowed."""
        try:
            decision = await self._clearance.decide(self._fields(call), cancelled)
        except Unused:
            return
        except Exception:
            log.exception("there is no decision on a call of %.80r", call.name)
            words = "safetyd: there is no decision on this call, so it is blocked."
            await self._answer(refused_call(call, words, {}))
            return
        finally:
            del self._waiting[call.id]
        if decision.allowed:
            # There is no await since the end of the wait, so a cancellation finds the call here.
            self._running[call.id] = _RunningCall(decision)
            await self._forward(process, call.line)
            return
        await self._answer(refused_call(call, words_for(decision), _details(decision)))

    def _fields(self, call: CallMessage) -> Mapping[str, Any]:
        tool = mcp_tool(self._server, call.name)
        given = {"arguments": call.arguments, **call.more} if call.more else call.arguments
        fields: dict[str, Any] = {"type": tool.type, **tool.fields(given)}
        if call.more:
            fields["context"] = {**fields.get("context", {}), "params": sorted(call.more)}
        return {**fields, "cwd": os.getcwd()[:MAX_LINE]}  # noqa: PTH109 - a text is needed

    async def _cancel(self, process: anyio.abc.Process, message: Cancellation) -> None:
        """Give up a waiting call, which the server has not seen. Forward other cancellations."""
        named = message.request
        if isinstance(named, int | str):
            if (waiting := self._waiting.get(named)) is not None:
                waiting.cancel()
                return
            if (running := self._running.pop(named, None)) is not None:
                await self._report(running, {"interrupted": True})
        await self._forward(process, message.line)

    async def _serve_server(self, process: anyio.abc.Process) -> None:
        """Handle each line of the server until the server ends."""

        async def read() -> bytes:
            try:
                return b"" if process.stdout is None else await process.stdout.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return b""

        async for line in lines(read, MAX_LINE_BYTES):
            if line is None:
                log.warning("the server sent a line of more than %d bytes", MAX_LINE_BYTES)
            else:
                await self._from_server(line)
        with anyio.move_on_after(END_S):
            await process.wait()
            return
        process.terminate()
        with anyio.move_on_after(END_S):
            await process.wait()
            return
        process.kill()
        await process.wait()

    async def _from_server(self, line: bytes) -> None:
        outcome = read_server_line(line) if self._waiting or self._running else None
        if outcome is not None:
            if outcome.id in self._waiting:
                log.warning("the server answered a call that it has not received: dropped")
                return
            if (running := self._running.pop(outcome.id, None)) is not None:
                error = {"tool_error": outcome.error[:MAX_ERROR]} if outcome.error else {}
                await self._report(running, error)
        await self._answer(line + b"\n")

    async def _report(self, call: _RunningCall, details: Mapping[str, object]) -> None:
        """Report an outcome. A tool error is a result, not a failure of the agent."""
        await self._safety.report(
            call.decision.id, ok=True, latency_ms=call.watch.ms, details=details or None
        )

    async def _lose_calls(self) -> None:
        for call in self._running.values():
            await self._safety.report(
                call.decision.id,
                ok=False,
                latency_ms=call.watch.ms,
                error="the MCP server ended before it answered",
            )

    async def _forward(self, process: anyio.abc.Process, line: bytes) -> None:
        if process.stdin is None:
            return
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with self._to_server:
                await process.stdin.send(line)

    async def _answer(self, line: bytes) -> None:
        with suppress(OSError):  # the client has left
            async with self._to_client:
                await write_all(_STDOUT, line)


def _details(decision: Decision) -> dict[str, object]:
    """Return the machine-readable details of a refusal."""
    pending = {"request_id": decision.request_id} if decision.status == "pending" else {}
    return {"cause": decision.cause, "status": decision.status, **pending}


async def _pass_signals_on(process: anyio.abc.Process) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        async for number in received:
            with suppress(ProcessLookupError):
                process.send_signal(number)
