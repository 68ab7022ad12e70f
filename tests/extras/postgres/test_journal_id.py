from pathlib import Path

import pytest

from safetyd.extras.postgres.export_problem import ExportProblem
from safetyd.extras.postgres.journal_id import journal_id


def test_a_data_directory_has_one_name_for_ever_and_no_two_have_the_same(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    assert journal_id(tmp_path) == journal_id(tmp_path)
    assert journal_id(tmp_path) != journal_id(tmp_path / "other")


def test_who_only_looks_gives_no_name(tmp_path: Path) -> None:
    assert journal_id(tmp_path, make=False) == ""
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal-id").write_text("mine\n")

    with pytest.raises(ExportProblem, match="does not contain a journal id"):
        journal_id(tmp_path)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportProblem, match=f"{tmp_path}/none/journal-id"):
        journal_id(tmp_path / "none")
