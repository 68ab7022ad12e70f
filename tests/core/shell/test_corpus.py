"""Labelled commands: what passes, what is asked about, what is blocked."""

import functools
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from safetyd.core.shell import judge, programs
from safetyd.core.shell.programs import ShippedRow

CORPUS = Path(__file__).parents[2] / "corpus"


class Labelled(NamedTuple):
    command: str
    expect: str
    category: str
    why: str


def labelled() -> list[Labelled]:
    lines = [line for file in sorted(CORPUS.glob("*.jsonl")) for line in _lines(file)]
    return [Labelled(**json.loads(line)) for line in lines]


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def verdict(command: str) -> str:
    stopping = judge.read(command, programs.shipped()).stopping
    if any(finding.blocks for finding in stopping):
        return "block"
    return "ask" if stopping else "pass"


@pytest.mark.parametrize("case", labelled(), ids=lambda case: case.command[:60])
def test_a_labelled_command_gets_its_verdict(case: Labelled) -> None:
    stopping = judge.read(case.command, programs.shipped()).stopping
    assert verdict(case.command) == case.expect, [f.why for f in stopping]


def test_every_labelled_command_says_why_and_stands_there_once() -> None:
    cases = labelled()
    assert all(case.category and case.why for case in cases)
    assert len({case.command for case in cases}) == len(cases)


def test_a_program_stands_in_one_row() -> None:
    names = Counter(name for row in programs.shipped_rows().programs for name in row.names)
    assert [name for name, count in names.items() if count > 1] == []


@functools.cache
def proven() -> dict[str, set[str]]:
    """Return the verdicts that labelled commands get, by the programs that they run."""
    verdicts: dict[str, set[str]] = defaultdict(set)
    for case in labelled():
        findings = judge.read(case.command, programs.shipped()).findings
        for said in {name for found in findings for name in (found.program, *found.way)}:
            words = said.split()
            for count in range(1, len(words) + 1):
                verdicts[" ".join(words[:count])].add("pass" if case.expect == "pass" else "stop")
    return verdicts


@pytest.mark.parametrize("row", programs.shipped_rows().programs, ids=lambda row: row.names[0])
def test_every_row_has_a_command_that_passes_and_one_that_does_not(row: ShippedRow) -> None:
    seen = {verdict for name in row.names for verdict in proven().get(name, ())}
    assert seen == {"pass", "stop"}
