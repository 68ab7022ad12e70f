from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.requirements import Mark, Requirement, marks, missing, requirements, tell, unknown

PROMISES = ROOT / "docs" / "promises.md"
LISTED = {
    "S1.1": Requirement("S1.1", "A", done=True),
    "S1.2": Requirement("S1.2", "B", done=False),
}


def test_every_done_requirement_has_a_test() -> None:
    assert [str(late) for late in missing(requirements(), marks()) if late.done] == []


def test_every_mark_names_a_requirement() -> None:
    assert unknown(requirements(), marks()) == []


def test_requirements_are_read_from_both_headings(tmp_path: Path) -> None:
    path = tmp_path / "list.md"
    path.write_text("# R\n\n## Done\n\n### Part\n\n- S1.1 A\n\n## To come\n\n- S1.2 B\n")

    assert requirements(path) == LISTED


def test_a_duplicate_number_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "list.md"
    path.write_text("## Done\n- S1.1 A\n- S1.1 B\n")

    with pytest.raises(ValueError, match=r"S1\.1 stands there twice"):
        requirements(path)


def test_only_marks_on_collected_tests_count(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        'pytestmark = pytest.mark.req("S1.1")\n'
        '@pytest.mark.req("S1.2")\ndef helper(): ...\n'
        '@pytest.mark.req("S1.3")\ndef test_a(): ...\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("S1.4"))])\n'
        "async def test_b(x): ...\n"
        '@pytest.mark.req("S1.5")\nclass TestC:\n'
        '    @pytest.mark.req("S1.6")\n    def test_d(self): ...\n'
        'TestE = pytest.mark.req("S1.7")(Story.TestCase)\n'
    )
    (tmp_path / "story.py").write_text('@pytest.mark.req("S1.8")\ndef test_f(): ...\n')

    found = marks(tmp_path)

    assert [mark.number[-1] for mark in found] == ["1", "3", "4", "5", "6", "7"]
    assert found[1].where == "test_a.py:4"


def test_planned_requirements_are_listed_and_do_not_fail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = tell(LISTED, [Mark("S1.1", "test_a.py:1")])

    said = "To come, without a test:\n  S1.2   B\n1 of 2 requirements have a test.\n"
    assert (code, *capsys.readouterr()) == (0, said, "")


@pytest.mark.parametrize(
    ("number", "complaint"),
    [
        ("S1.2", "done, but no test proves it: S1.1   A\n"),
        ("S9.9", "test_a.py:1: there is no requirement S9.9\n"),
    ],
)
def test_a_missing_test_or_requirement_fails(
    number: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tell(LISTED, [Mark(number, "test_a.py:1")])

    assert code == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.req("S4.27")
def test_documents_say_what_the_gate_cannot_do() -> None:
    limits = PROMISES.read_text().partition("## Limits")[2]

    assert "Rules about text can be evaded" in limits
    assert "`SafetyGate`" in limits
