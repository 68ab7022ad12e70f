"""Calendars are read in another process, from this machine alone, and within limits."""

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from safetyd.extras.rota import calendar_process
from safetyd.extras.rota.calendar_process import CalendarRequest, answer_to
from safetyd.extras.rota.calendar_reader import place_of, place_problem, read_calendar
from safetyd.extras.rota.calendar_shifts import UnusableCalendar

GOOGLE = Path(__file__).parent / "calendars/google.ics"


def request(place: str | Path) -> CalendarRequest:
    return CalendarRequest(
        starts=datetime(2026, 10, 19, tzinfo=UTC),
        ends=datetime(2026, 12, 21, tzinfo=UTC),
        timezone="Europe/Berlin",
        place=str(place),
        people={"alice": (), "bob": ("bob@example.com",)},
    )


class Calendars(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/oncall.ics")
            self.end_headers()
        elif self.path == "/oncall.ics":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(GOOGLE.read_bytes())
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - its name there


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Calendars) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def test_a_file_and_an_address_of_this_machine_are_read_alike(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    from_file, from_server = (
        read_calendar(request(GOOGLE)),
        read_calendar(request(f"{server}/oncall.ics")),
    )

    assert from_file == from_server
    assert {shift.who for shift in from_file.shifts} == {"alice", "bob"}


def test_a_calendar_that_cannot_be_read_says_why(server: str, tmp_path: Path) -> None:
    (large := tmp_path / "large.ics").write_bytes(b" " * (4 * 1024**2 + 1))
    for place, why in (
        (tmp_path / "gone.ics", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (large, "it is larger than 4 MiB"),
        (f"{server}/other", "Not Found"),
        (f"{server}/moved", "Found"),
        ("http://127.0.0.1:1/oncall.ics", "Connection refused"),
    ):
        assert answer_to(request(place)).problem == why, place


def test_a_calendar_that_never_ends_is_given_up(tmp_path: Path) -> None:
    endless = tmp_path / "endless.ics"
    endless.write_bytes(
        GOOGLE.read_bytes().replace(b"FREQ=DAILY;COUNT=20", b"FREQ=SECONDLY;INTERVAL=1")
    )
    os.mkfifo(silent := tmp_path / "silent.ics")

    for place in (endless, silent):
        with pytest.raises(UnusableCalendar, match=r"^reading it takes longer than 1 s$"):
            read_calendar(request(place), timeout_s=1.0)


def test_without_the_packages_the_answer_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "recurring_ical_events", None)

    assert answer_to(request(GOOGLE)).problem == (
        "recurring-ical-events is not installed: run `pip install 'safetyd[rota]'`"
    )


def test_too_much_memory_is_an_error_of_the_calendar(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(calendar_process, "shifts_in", exhausted)

    assert answer_to(request(GOOGLE)).problem == "it needs too much memory"


def test_only_this_machine_can_have_the_calendar(tmp_path: Path) -> None:
    for calendar in (
        *("", "oncall.ics", "/srv/oncall.ics", "file:///srv/oncall.ics"),
        *("http://127.0.0.1:8080/a.ics", "http://localhost/a.ics", "http://[::1]:80/a.ics"),
    ):
        assert place_problem(calendar) == "", calendar
    for calendar in (
        *("https://calendar.google.com/a.ics", "http://10.0.0.1/a.ics", "webcal://127.0.0.1/a"),
        *("file://server/a.ics", "file:a.ics", "http://[::1/a.ics", "http://127.0.0.1:99999/a"),
        *("http://127.0.0.1.example.com/a.ics", "http://localhost@example.com/a.ics"),
    ):
        assert place_problem(calendar).startswith("must be a file or an address"), calendar

    assert place_of("oncall.ics", tmp_path) == f"{tmp_path}/oncall.ics"
    assert place_of("/srv/oncall.ics", tmp_path) == "/srv/oncall.ics"
    assert place_of("file:///srv/on%20call.ics", tmp_path) == "/srv/on call.ics"
    assert place_of("http://localhost/a.ics", tmp_path) == "http://localhost/a.ics"
