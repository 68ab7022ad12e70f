"""Prints the results of these tests as a matrix."""

import re
from collections import defaultdict
from typing import Final

import pytest

from tests.hosts.real.host_programs import PROGRAMS

_TEST: Final = re.compile(r"::test_(\w+)\[(.+)\]$")

CELL: Final = "cell"  # a property of tests: what is shown instead of "yes"

_cells: dict[str, dict[str, str]] = defaultdict(dict)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    found = _TEST.search(report.nodeid)
    if found is None or "hosts/real/" not in report.nodeid:
        return
    for program in PROGRAMS:
        if program.name in found[2]:
            first, _, last = found[2].partition(program.name)
            case = first.removesuffix("-") + last.removeprefix("-")
            row = found[1].replace("_", " ") + (f": {case}" if case else "")
            if report.when == "call" or report.failed:
                _cells[row][program.name] = _shown(report)


def _shown(report: pytest.TestReport) -> str:
    return str(dict(report.user_properties).get(CELL, "yes")) if report.passed else "NO"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _cells:
        return
    names = [program.name for program in PROGRAMS]
    terminalreporter.write_line("")
    terminalreporter.write_line(f"| | {' | '.join(names)} |")
    terminalreporter.write_line(f"|---|{'---|' * len(names)}")
    for row, cells in _cells.items():
        shown = " | ".join(cells.get(name, "") for name in names)
        terminalreporter.write_line(f"| {row} | {shown} |")
