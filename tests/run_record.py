"""A pytest plugin that records failed tests with their first error, and the seconds of each file.

`tests/run` reads the record. An environment variable names the file; each run appends to it.
"""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

import pytest

RECORD: Final = "SAFETYD_TEST_RECORD"


class Failure(NamedTuple):
    test: str
    error: str


class Ran(TypedDict):
    """One line of the record."""

    failures: list[tuple[str, str]]
    seconds: dict[str, float]


class Record:
    """Collects the results of one pytest run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failures: dict[str, str] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration
        if report.failed:
            self._failures.setdefault(report.nodeid, first_error(report.longreprtext))

    def pytest_sessionfinish(self) -> None:
        ran = Ran(failures=list(self._failures.items()), seconds=self._seconds)
        with self._path.open("a") as file:
            file.write(json.dumps(ran) + "\n")


def first_error(text: str) -> str:
    """Return the first error line of a report."""
    lines = text.splitlines() or ["no error was reported"]
    return next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1].strip())


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(RECORD)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(Path(path)))


def failures(path: Path) -> list[Failure]:
    """Return the failures of all runs so far, each test once."""
    found = {test: error for run in _runs(path) for test, error in reversed(run["failures"])}
    return [Failure(test, error) for test, error in found.items()]


def longest(path: Path, most: int) -> list[tuple[float, str]]:
    """Return the slowest files, with their seconds."""
    total: defaultdict[str, float] = defaultdict(float)
    for run in _runs(path):
        for file, seconds in run["seconds"].items():
            total[file] += seconds
    return sorted(((seconds, file) for file, seconds in total.items()), reverse=True)[:most]


def _runs(path: Path) -> list[Ran]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
