"""`safetyd review`: a screen to answer requests on."""

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
    """Review what waits for a person, on a screen of its own.

    Requests come and go by themselves. Keys: a approve, d deny, v view, ? help, q quit.
    """
    if why := _unfit():
        raise WrongUsage(f"{why}; use `safetyd list`, `safetyd approve` and `safetyd deny`")
    ask(location, PendingQuestion(limit=1))  # says what is wrong before the screen is taken
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever started this may have it ignored
    threading.Thread(target=_end_with_terminal, args=(sys.stdin.fileno(),), daemon=True).start()
    screen = ReviewScreen(location)
    anyio.run(screen.run_async)
    return screen.return_code or 0


def _unfit() -> str:
    """Say why no screen can be drawn here, if none can."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "review needs a terminal, and this is none"
    if os.environ.get("TERM", "dumb") in {"", "dumb"}:
        return "the terminal cannot draw a screen (TERM is dumb)"
    return ""


def _end_with_terminal(number: int) -> None:
    """Wait until a terminal is gone, and end as the kernel would have it.

    Nobody may have told this process, and the screen would go on reading what never comes. Its own
    loop may hang in writing, so this is done beside it.
    """
    terminal = select.poll()
    terminal.register(number, 0)  # nothing but its end
    if any(what & select.POLLHUP for _, what in terminal.poll()):
        os.kill(os.getpid(), signal.SIGHUP)
