"""The process that reads a calendar: `python -m safetyd.extras.rota.calendar_process`.

A hostile calendar may need endless time or memory, so this process has limits, and the daemon may
kill it at any time. It reads a request as JSON and prints the shifts.
"""

import resource
import signal
import sys
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Final
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from safetyd.extras.rota.calendar_shifts import (
    CalendarShifts,
    Period,
    UnusableCalendar,
    shifts_in,
)

LIFE_S: Final = 25  # longer than the daemon waits for it
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_MEMORY: Final = 1024 * 1024 * 1024
NOT_INSTALLED: Final = "recurring-ical-events is not installed"
INSTALL: Final = "run `pip install 'safetyd[rota]'`"


class CalendarRequest(Period, frozen=True, kw_only=True):
    """What to read. `place` is an absolute path or an HTTP address of this machine."""

    place: str
    people: dict[str, tuple[str, ...]]  # the addresses of every recipient


class CalendarAnswer(CalendarShifts, frozen=True, kw_only=True):
    problem: str = ""


class _NoRedirects(HTTPRedirectHandler):
    """Redirects could lead to another machine."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        del self, req, fp, code, msg, headers, newurl


def main() -> None:
    signal.alarm(LIFE_S)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=CalendarRequest)
    sys.stdout.buffer.write(msgspec.json.encode(answer_to(request)))


def answer_to(request: CalendarRequest) -> CalendarAnswer:
    try:
        found = shifts_in(_read(request.place), request, request.people)
    except UnusableCalendar as exc:
        return CalendarAnswer(problem=str(exc))
    except ImportError:
        return CalendarAnswer(problem=f"{NOT_INSTALLED}: {INSTALL}")
    except MemoryError:
        return CalendarAnswer(problem="it needs too much memory")
    return CalendarAnswer(shifts=found.shifts, unmatched=found.unmatched)


def _read(place: str) -> bytes:
    try:
        with _opened(place) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as exc:  # also of HTTP
        raise UnusableCalendar(_said(exc)) from exc
    except (HTTPException, ValueError) as exc:
        raise UnusableCalendar(f"the server's answer is invalid: {exc!r}") from exc
    if len(data) > MAX_BYTES:
        raise UnusableCalendar(f"it is larger than {MAX_BYTES // 1024**2} MiB")
    return data


def _said(error: OSError) -> str:
    """Return the reason of an error. Errors of HTTP contain another error or a text."""
    reason = getattr(error, "reason", error)
    return str(reason.strerror or reason) if isinstance(reason, OSError) else str(reason)


def _opened(place: str) -> IO[bytes]:
    if place.startswith("/"):
        return Path(place).open("rb")
    opened: IO[bytes] = build_opener(ProxyHandler({}), _NoRedirects()).open(place)
    return opened


if __name__ == "__main__":
    main()
