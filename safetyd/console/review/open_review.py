"""`safetyd review`: open the review screen."""

import os
import select
import signal
import sys
import threading

import anyio

from safetyd.console.failure import WrongUsage
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import reaches_daemon
from safetyd.console.review.screen import ReviewScreen
from safetyd.operators.contract.request_contract import PendingQuestion


@command()
@reaches_daemon
def review(location: Location) -> int:
    """Review and answer pending requests in a full-screen terminal.

    The list updates automatically. Keys: a approve, d deny, v view, ? help, q quit.
    """
    if why := _unfit():
        raise WrongUsage(f"{why}; use `safetyd list`, `safetyd approve` and `safetyd deny`")
    ask(location, PendingQuestion(limit=1))  # if this fails, the screen does not open
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the parent process may have disabled this signal
    threading.Thread(target=_end_with_terminal, args=(sys.stdin.fileno(),), daemon=True).start()
    screen = ReviewScreen(location)
    anyio.run(screen.run_async)
    return screen.return_code or 0


def _unfit() -> str:
    """Return why the screen cannot be drawn here, or an empty string."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "review needs a terminal"
    if os.environ.get("TERM", "dumb") in {"", "dumb"}:
        return "this terminal cannot draw a screen (TERM is dumb)"
    return ""


def _end_with_terminal(number: int) -> None:
    """Wait until the terminal is closed, then end this process with SIGHUP.

    The kernel does not always send a signal, and the screen's event loop may hang while it writes
    to the terminal. So this runs in another thread.
    """
    terminal = select.poll()
    terminal.register(number, 0)  # POLLHUP is always reported
    if any(what & select.POLLHUP for _, what in terminal.poll()):
        os.kill(os.getpid(), signal.SIGHUP)
