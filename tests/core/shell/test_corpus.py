"""Commands of the corpus, each labelled as allowed, needing approval or blocked."""

import functools
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from safetyd.core.shell import judge, programs
from safetyd.core.shell.places import Project
from safetyd.core.shell.programs import ShippedRow
from tests.core.shell.verdicts import stopping, verdict

CORPUS = Path(__file__).parents[2] / "corpus"


class Labelled(NamedTuple):
    command: str
    expect: str
    category: str
    why: str


@functools.cache
def labelled() -> list[Labelled]:
    files = [*sorted(CORPUS.glob("*.jsonl")), *sorted(CORPUS.glob("details/*.jsonl"))]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [Labelled(**json.loads(line)) for line in lines]


@pytest.mark.parametrize("category", sorted({case.category for case in labelled()}))
def test_labelled_commands_get_their_verdicts(category: str) -> None:
    cases = [case for case in labelled() if case.category == category]

    wrong = [
        (case.command, case.expect, found, _reasons(case.command))
        for case in cases
        if (found := verdict(case.command)) != case.expect
    ]

    assert wrong == []


def _reasons(command: str) -> list[str]:
    return [finding.why for finding in stopping(command)]


def test_dangerous_commands_are_not_allowed_in_a_project_either() -> None:
    dangerous = [case.command for case in labelled() if case.expect != "pass"]
    project = Project("/home/me/project")

    assert [command for command in dangerous if verdict(command, project) == "pass"] == []


def test_every_labelled_command_has_a_reason_and_is_unique() -> None:
    cases = labelled()
    assert all(case.category and case.why for case in cases)
    assert len({case.command for case in cases}) == len(cases)


def test_each_program_is_in_only_one_row() -> None:
    names = Counter(name for row in programs.shipped_rows().programs for name in row.names)
    assert [name for name, count in names.items() if count > 1] == []


@functools.cache
def proven() -> dict[str, set[str]]:
    """Return the expected verdicts of labelled commands, by the programs that they run."""
    verdicts: dict[str, set[str]] = defaultdict(set)
    for case in labelled():
        findings = judge.read(case.command, programs.shipped()).findings
        for said in {name for found in findings for name in (found.program, *found.way)}:
            words = said.split()
            for count in range(1, len(words) + 1):
                verdicts[" ".join(words[:count])].add("pass" if case.expect == "pass" else "stop")
    return verdicts


def test_the_corpus_has_an_allowed_and_another_command_for_every_row() -> None:
    unproven = [row.names[0] for row in programs.shipped_rows().programs if not _is_proven(row)]

    assert unproven == []


def _is_proven(row: ShippedRow) -> bool:
    return {verdict for name in row.names for verdict in proven().get(name, ())} == {"pass", "stop"}
