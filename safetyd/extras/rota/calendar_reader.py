"""Finds the rota's calendar on this machine and reads it in another process."""

import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from safetyd.extras.rota.calendar_process import CalendarAnswer, CalendarRequest
from safetyd.extras.rota.calendar_shifts import CalendarShifts, UnusableCalendar
from safetyd.host import THIS_MACHINE

TIMEOUT_S: Final = 20.0
COMMAND: Final = (sys.executable, "-P", "-m", "safetyd.extras.rota.calendar_process")

_ELSEWHERE: Final = (
    "must be a file or an address of this machine, such as oncall.ics or "
    "http://127.0.0.1:8080/oncall.ics"
)


def place_problem(calendar: str) -> str:
    """Return why a calendar cannot be on this machine, or an empty text."""
    try:
        url = urlsplit(calendar)
        local = url.hostname in THIS_MACHINE and url.port != 0
    except ValueError:
        return _ELSEWHERE
    match url.scheme:
        case "":
            return ""
        case "http" if local:
            return ""
        case "file" if url.netloc in {"", "localhost"} and url.path.startswith("/"):
            return ""
    return _ELSEWHERE


def place_of(calendar: str, data_dir: Path) -> str:
    """Return the path or the address of a calendar. A relative path is in the data directory."""
    url = urlsplit(calendar)
    if url.scheme == "http":
        return calendar
    return str(data_dir.absolute() / (unquote(url.path) if url.scheme else calendar))


def read_calendar(request: CalendarRequest, *, timeout_s: float = TIMEOUT_S) -> CalendarShifts:
    """Read a calendar. If it cannot be used, raise `UnusableCalendar`. This blocks."""
    try:
        done = subprocess.run(  # noqa: S603 - our own module, and no shell
            COMMAND,
            input=msgspec.json.encode(request),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=True,
        )
        answer = msgspec.json.decode(done.stdout, type=CalendarAnswer)
    except subprocess.TimeoutExpired:
        raise UnusableCalendar(f"reading it takes longer than {timeout_s:.0f} s") from None
    except OSError as exc:
        raise UnusableCalendar(f"the process cannot be started: {exc.strerror}") from None
    except (subprocess.CalledProcessError, msgspec.DecodeError):
        raise UnusableCalendar("the process that read it failed") from None
    if answer.problem:
        raise UnusableCalendar(answer.problem)
    return answer
