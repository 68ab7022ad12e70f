"""Names that an agent can plant in a folder: they take neither commits nor the way back away."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import pytest

from safetyd.extras.file_history.file_restore import FileRestore
from safetyd.extras.file_history.history_records import Change, Entry, HistoryError
from tests.extras.file_history.project_folder import ProjectFolder

DEPTH: Final = 1010  # more than Python calls itself


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    project = ProjectFolder(tmp_path)
    project.write("cart.py", "one\n")
    return project


def undone(project: ProjectFolder, commit: str) -> dict[str, str]:
    """Go back to a commit; return what was left alone and why."""
    done = project.history.roll_back("soft", commit, (), project.order(why="rollback"))
    assert (project.root / "cart.py").read_text() == "one\n"
    return {left.path: left.why for left in done.left}


@pytest.mark.parametrize("name", [".GIT", "src/.Git", "src/.GIT/config"])
def test_a_name_that_only_looks_like_a_repository_is_left_alone_and_listed(
    project: ProjectFolder, name: str
) -> None:
    first = project.commit().commit
    planted = project.write(name, "planted\n")
    project.write("cart.py", "two\n")
    assert project.commit().files == 1

    assert undone(project, first) == {name: "has a name that git rejects"}
    assert planted.exists()


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_a_pipe_that_git_would_read_holds_nobody_up(project: ProjectFolder, name: str) -> None:
    first = project.commit().commit
    (project.root / "src").mkdir()
    os.mkfifo(project.root / "src" / name)
    project.write("src/new.py", "new\n")
    project.write("cart.py", "two\n")

    assert project.commit().files == 2
    undone(project, first)

    assert not (project.root / "src/new.py").exists()


@pytest.fixture
def nested(project: ProjectFolder) -> Iterator[str]:
    """A file in a thousand folders, which Python cannot remove by itself."""
    place = Path.cwd()
    os.chdir(project.root)
    for _ in range(DEPTH):
        Path("d").mkdir()
        os.chdir("d")
    Path("leaf").write_text("deep\n")
    os.chdir(place)
    yield "d/" * DEPTH + "leaf"
    subprocess.run(["rm", "-rf", str(project.root / "d")], check=True)


def test_folders_may_be_nested_deeply(project: ProjectFolder, nested: str) -> None:
    first = project.commit()
    assert nested in project.kept(first.commit)
    (project.root / nested).unlink()
    project.write("cart.py", "two\n")

    undone(project, first.commit)

    assert (project.root / nested).read_text() == "deep\n"


@pytest.mark.parametrize("where", [".gitignore", ".git/info/exclude"])
def test_what_is_ignored_is_listed_by_a_rollback(project: ProjectFolder, where: str) -> None:
    first = project.commit().commit
    project.write(where, "*\n")
    project.write("cart.py", "two\n")
    project.write("new.py", "hidden\n")
    project.commit()

    left = undone(project, first)

    assert left["new.py"] == "is ignored by git"
    assert (project.root / "new.py").exists()


def test_what_a_rollback_makes_visible_is_listed_and_not_its_own_change(
    project: ProjectFolder,
) -> None:
    first = project.commit().commit
    project.write(".gitignore", "new.py\n")
    project.write("cart.py", "two\n")
    project.write("new.py", "hidden\n")
    project.commit()

    assert undone(project, first) == {"new.py": "was not in the file history"}
    assert "new.py" not in project.kept(project.history.rows(1)[0].commit)


def test_repositories_within_are_listed_by_a_rollback(project: ProjectFolder) -> None:
    first = project.commit().commit
    project.write("cart.py", "two\n")
    project.write("inner/file", "of another repository\n")
    project.git("init", "-q", "inner")
    project.commit()

    assert undone(project, first) == {"inner/": "is a repository"}


def nothing(_change: Change, _into: IO[bytes]) -> None:
    raise AssertionError("nothing is written")


@pytest.mark.parametrize("path", [b"../x", b"a/../../x", b".git/hooks/x", b"a//x"])
def test_a_path_that_leads_elsewhere_is_neither_written_nor_removed(
    project: ProjectFolder, tmp_path: Path, path: bytes
) -> None:
    (tmp_path / "x").write_text("mine")
    file = Entry("120000", "0" * 40)
    restore = FileRestore(project.root)

    for change in (Change(path, None, file), Change(path, file, None)):
        with pytest.raises(HistoryError, match="is not a valid path"):
            restore.check([change])
    if b".." in path:
        with pytest.raises(HistoryError, match="is outside of the folder"):
            restore.apply([Change(b"../x", file, None)], nothing)
    assert (tmp_path / "x").read_text() == "mine"
