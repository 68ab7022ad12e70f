"""How large commits may become, and what happens to the files that do not fit."""

from pathlib import Path

import pytest

from safetyd.extras.file_history.folder_changes import CommitLimits
from safetyd.extras.file_history.history_records import HistoryError
from safetyd.extras.file_history.project_history import ProjectHistory
from safetyd.host import Spare
from safetyd.operators.contract.history_contract import LeftAlone
from tests.extras.file_history.project_folder import ProjectFolder


def limited(project: ProjectFolder, limits: CommitLimits) -> None:
    where = (project.root, project.state_paths, project.store)
    project.history = ProjectHistory("shop", *where, lambda: limits)


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    project = ProjectFolder(tmp_path)
    project.user_commits()
    project.history.commit(project.order())
    return project


def test_a_file_that_became_too_large_is_left_out_and_no_rollback_overwrites_it(
    project: ProjectFolder,
) -> None:
    limited(project, CommitLimits(file_bytes=100))
    project.write("a", "small\n")
    project.write("data", "one\n")
    first = project.commit()
    project.write("a", "changed\n")
    data = project.write("data", "x" * 101)

    second = project.commit()
    (left,) = second.left_out
    assert str(left) == "data (101 B): larger than 100 B (history.max_file_bytes)"
    assert project.kept(second.commit)["data"] == project.kept(first.commit)["data"]
    assert project.history.rows(1)[0].left_out == f"1 file: {left}"
    assert project.history.commit(project.order()) is None, "nothing is new"

    done = project.history.roll_back("soft", first.commit, (), project.order(why="rollback"))
    assert done.paths == ("a",)
    assert done.left == (LeftAlone("data", left.why),)
    assert data.read_text() == "x" * 101
    data.unlink()
    done = project.history.roll_back("soft", second.commit, (), project.order(why="rollback"))
    lacking = LeftAlone(f"1 file: {left}", f"(left out of {second.commit[:12]})")
    assert done.left == (lacking,)


def test_an_action_that_changed_only_a_large_file_has_a_commit_that_names_it(
    project: ProjectFolder,
) -> None:
    limited(project, CommitLimits(file_bytes=100))
    project.write("data", "x" * 101)

    made = project.commit()

    assert [left.path for left in made.left_out] == [b"data"]
    assert "Safetyd-Left-Out: 1 file: data (101 B)" in project.history.show(made.commit)


def test_the_smallest_files_of_a_large_change_are_committed_first_and_the_rest_later(
    project: ProjectFolder,
) -> None:
    limited(project, CommitLimits(commit_bytes=250))
    for name, size in (("large", 200), ("middle", 150), ("small", 50)):
        project.write(name, "x" * size)

    first, second = project.commit(), project.commit()

    assert [left.path for left in first.left_out] == [b"large"]
    assert "the commit would exceed 250 B" in str(first.left_out[0])
    assert (second.files, second.left_out) == (1, ())


@pytest.mark.parametrize("spare", [Spare(1e9, 3), Spare(14_000, 1e6)])
def test_files_for_which_the_disk_has_no_room_are_left_out(
    project: ProjectFolder, spare: Spare
) -> None:
    limited(project, CommitLimits(spare=lambda _directory: spare))
    for name in ("one", "two", "three", "four"):
        project.write(name, name)

    assert len(project.commit().left_out) == 1


def test_nothing_is_committed_to_a_disk_that_is_nearly_full(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    kept = project.commit()
    limited(project, CommitLimits(spare=lambda _directory: Spare(-1.0, 1e6)))
    project.write("a", "2\n")

    with pytest.raises(HistoryError, match="is nearly full"):
        project.history.commit(project.order())

    assert project.history.rows(1)[0].commit == kept.commit
