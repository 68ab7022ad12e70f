"""How long a coding agent waits for safetyd's hook, compared with starting the interpreter."""

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import msgspec

import safetyd
from benchmarks.processes import Unmeasured, end
from benchmarks.rig import Place, running
from benchmarks.scale import Bench
from safetyd.host import SOCKET
from safetyd.hosts.hook_answer import is_refusal
from safetyd.hosts.hook_command import HookCommand

HOOK = Path(safetyd.__file__).with_name("hook.py")
BARE = (sys.executable, "-I", "-S", "-c", "pass")
BUSY_LOOPS = 2
AT_ONCE = 50


class Waits(msgspec.Struct, frozen=True):
    """Milliseconds of each start of the interpreter and of each call of the hook."""

    interpreter: list[float]
    hook: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.hook) / statistics.median(self.interpreter)

    def __str__(self) -> str:
        hook, bare = map(_spread, (self.hook, self.interpreter))
        return f"{hook}; interpreter {bare}; {self.ratio:.1f} times the interpreter"


def hook(bench: Bench) -> None:
    """Measure calls one after the other, alone and beside busy loops, and many at once."""
    with running(Place(bench.place, "hook")) as daemon:
        calls = Calls(
            HookCommand(sys.executable, str(HOOK), f"{daemon.place.data_dir}/{SOCKET}", "coder")
        )
        alone = calls.in_turn(bench.scale.hook_calls)
        with _busy():
            loaded = calls.in_turn(bench.scale.hook_calls)
            crowd = calls.at_once(AT_ONCE)
    for name, waits in (("alone", alone), (f"beside {BUSY_LOOPS} busy loops", loaded)):
        bench.report.tell(f"hook, {name}", str(waits))
        bench.report.raw[f"hook, {name}"] = waits
    bench.report.tell(f"hook, {AT_ONCE} at once beside busy loops", _spread(crowd))
    bench.report.at_most("hook / interpreter", alone.ratio, 3.0)


class Calls:
    """Runs the command line that hosts run. Every call must be answered by the daemon."""

    def __init__(self, command: HookCommand) -> None:
        self._line = ("/bin/sh", "-c", command.ask("claude"))
        self._number = 0

    def in_turn(self, count: int) -> Waits:
        """Start the interpreter and call the hook, by turns."""
        waits = Waits([], [])
        for _ in range(count):
            waits.interpreter.append(_timed(lambda: subprocess.run(BARE, check=True)))
            waits.hook.append(_timed(lambda: self._call("touch allowed", refused=False)))
        return waits

    def at_once(self, count: int) -> list[float]:
        """Call the hook from many threads; half of the calls must be refused."""

        def call(number: int) -> float:
            refused = bool(number % 2)
            command = "rm -rf ~" if refused else "touch allowed"
            return _timed(lambda: self._call(command, refused=refused))

        with ThreadPoolExecutor(count) as threads:
            return list(threads.map(call, range(count)))

    def _call(self, command: str, *, refused: bool) -> None:
        self._number += 1
        event = {
            "session_id": "bench",
            "cwd": "/home/me/project",
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": f"call{self._number}",
        }
        given = msgspec.json.encode(event).decode()
        done = subprocess.run(self._line, input=given, capture_output=True, text=True, check=False)
        if is_refusal(done.stdout, done.stderr, done.returncode) != refused:
            raise Unmeasured(f"`{command}` got {done.returncode}: {done.stdout or done.stderr}")


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    loop = (sys.executable, "-I", "-S", "-c", "while True: pass")
    loops = [subprocess.Popen(loop) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for one in loops:
            end(one)


def _timed(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return (perf_counter() - began) * 1000


def _spread(waits: Sequence[float]) -> str:
    ordered = sorted(waits)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return f"p50 {statistics.median(ordered):.0f} ms, p99 {p99:.0f} ms"
