"""A real desktop session: a screen that nobody sees, its D-Bus, and dunst to show notifications.

The bus starts nothing by itself, so that what shows notifications is what a test started.
"""

import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final, Self, TypeVar

import anyio
import anyio.to_thread
import pytest

T = TypeVar("T")

PACKAGES: Final = {
    "Xvfb": "xvfb",
    "dbus-daemon": "dbus-daemon",
    "dbus-send": "dbus-bin",
    "dunst": "dunst",
    "xdotool": "xdotool",
}
WAIT_S: Final = 60.0

BUS: Final = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={bus}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
# A left click opens the menu of buttons, which a script answers; a middle click is the default.
DUNST: Final = """[global]
origin = top-left
offset = 0x0
width = 400
height = 300
markup = full
stack_duplicates = false
dmenu = {menu}
mouse_left_click = context
mouse_middle_click = do_action
mouse_right_click = close_current
"""
MENU: Final = """#!/bin/sh
tee {offered} | grep --max-count=1 "^#$(cat {choice}) "
"""


class Session:
    """One person's desktop. What was stopped or killed is started again by the test."""

    def __init__(self, directory: Path) -> None:
        _check_packages()
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._write()
        try:
            self._display = self._start_screen()
            self.start_bus()
            self.start_dunst()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        return f"unix:path={self._directory / 'bus'}"

    @property
    def variables(self) -> dict[str, str]:
        """Return what a program of this session has in its environment."""
        return {"DISPLAY": self._display, "DBUS_SESSION_BUS_ADDRESS": self.address}

    def press(self, label: str) -> list[str]:
        """Click on what is up, choose a button of its menu, and return what the menu offered."""
        (self._directory / "choice").write_text(label)
        offered = self._directory / "offered"
        offered.write_text("")
        self._click(1)
        _wait(lambda: "]" in offered.read_text(), "no menu came up")
        return [line[1:].split(" (")[0] for line in offered.read_text().splitlines()]

    def click(self) -> None:
        """Click on the notification as such."""
        self._click(2)

    def dismiss(self) -> None:
        self._click(3)

    def count(self) -> int:
        """Return how many notifications are up."""
        return int(self._dunst("count", "displayed"))

    def wait_for_count(self, count: int) -> None:
        _wait(lambda: self.count() == count, f"there are not {count} notifications")

    def wait_for_shown(self, summary: str) -> None:
        """Return when such a notification is up; what is up is closed to look at it."""
        _wait(lambda: summary in dict(self.closed()), f"{summary!r} is not shown")

    def wait_for_closed(self, summary: str) -> None:
        _wait(lambda: summary in dict(self._history()), f"{summary!r} was not closed")

    def closed(self) -> list[tuple[str, str]]:
        """Close what is up, and return the summaries and bodies of all that was, latest first."""
        self._dunst("close-all")
        self.wait_for_count(0)
        return self._history()

    def forge(self, listener: str, number: int, action: str) -> None:
        """Say as another program that a button was pressed."""
        signal_ = ("/org/freedesktop/Notifications", "org.freedesktop.Notifications.ActionInvoked")
        about = (f"uint32:{number}", f"string:{action}")
        self._run("dbus-send", "--type=signal", f"--dest={listener}", *signal_, *about)

    def _history(self) -> list[tuple[str, str]]:
        entries = json.loads(self._dunst("history"))["data"][0]
        return [(entry["summary"]["data"], entry["body"]["data"]) for entry in entries]

    def start_bus(self) -> None:
        socket = self._directory / "bus"
        socket.unlink(missing_ok=True)
        config = self._directory / "bus.conf"
        self._start("dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile")
        _wait(socket.is_socket, "the bus does not start")

    def start_dunst(self) -> None:
        self._start("dunst", "-conf", str(self._directory / "dunstrc"))
        _wait(self._dunst_answers, "dunst does not start")

    @contextmanager
    def standing_still(self, name: str = "dunst") -> Iterator[None]:
        """Stop a program where it is, and let it go on."""
        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait(WAIT_S)

    def close(self) -> None:
        for name in reversed(tuple(self._processes)):
            self.kill(name)

    def _write(self) -> None:
        menu, bus = self._directory / "menu", self._directory / "bus"
        offered, choice = self._directory / "offered", self._directory / "choice"
        (self._directory / "bus.conf").write_text(BUS.format(bus=bus))
        (self._directory / "dunstrc").write_text(DUNST.format(menu=menu))
        menu.write_text(MENU.format(offered=offered, choice=choice))
        menu.chmod(0o755)

    def _start_screen(self) -> str:
        reader, writer = os.pipe()
        try:
            screen = ("-displayfd", str(writer), "-screen", "0", "640x480x24", "-nolisten", "tcp")
            self._start("Xvfb", *screen, pass_fds=(writer,))
            return f":{_line(reader).strip()}"
        finally:
            os.close(reader)
            os.close(writer)

    def _start(self, name: str, *arguments: str, pass_fds: tuple[int, ...] = ()) -> None:
        with (self._directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment() if name == "dunst" else dict(os.environ),
                pass_fds=pass_fds,
            )

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **self.variables}

    def _click(self, button: int) -> None:
        self._run("xdotool", "search", "--sync", "--onlyvisible", "--class", "Dunst")
        self._run("xdotool", "mousemove", "60", "12", "click", str(button))

    def _dunst(self, *words: str) -> str:
        return self._run("dunstctl", *words)

    def _dunst_answers(self) -> bool:
        command = ["dunstctl", "is-paused"]
        asked = subprocess.run(
            command, env=self._environment(), capture_output=True, check=False, timeout=WAIT_S
        )
        return asked.returncode == 0

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, check=False, timeout=WAIT_S
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout.decode()


async def in_thread(act: Callable[..., T], *arguments: object) -> T:
    """Let the desktop do something while this program listens."""
    with anyio.fail_after(2 * WAIT_S):
        return await anyio.to_thread.run_sync(act, *arguments)


def _check_packages() -> None:
    missing = [package for command, package in PACKAGES.items() if not shutil.which(command)]
    if missing:
        pytest.fail(f"run: sudo apt-get install --no-install-recommends {' '.join(missing)}")


def _line(reader: int) -> str:
    """Return a whole line, however many writes it takes."""
    said = ""
    while not said.endswith("\n"):
        ready, _, _ = select.select([reader], [], [], WAIT_S)
        assert ready, "Xvfb does not start"
        said += os.read(reader, 16).decode()
    return said


def _wait(happens: Callable[[], bool], complaint: str) -> None:
    """Return once something is so, which no process announces."""
    end = monotonic() + WAIT_S
    while not happens():
        assert monotonic() < end, complaint
        sleep(0.02)
