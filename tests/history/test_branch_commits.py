"""Commits on the user's own branch: only what is safe, and nothing of the user's along with it."""

import os
import subprocess
from pathlib import Path
from typing import IO

import pytest

from safetyd.history import branch_commits
from safetyd.history.file_restore import FileRestore
from safetyd.history.history_records import Change, Entry
from safetyd.history.project_history import HistoryError, ProjectHistory
from tests.history.project_folder import USER, ProjectFolder, files


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    project = ProjectFolder(tmp_path, "branch")
    project.user_commits()
    return project


def test_a_commit_is_on_the_current_branch_and_nowhere_else(project: ProjectFolder) -> None:
    head = project.git("rev-parse", "HEAD")
    project.git("branch", "other")
    project.write("a", "1\n")

    made = project.commit(ticket="T-7", description="adds a")

    assert project.git("log", "-1", "--format=%H %P %s", "main") == (
        f"{made.commit} {head} feat: T-7 adds a"
    )
    assert project.git("rev-parse", "other") == head
    assert project.git("rev-parse", "refs/safetyd/code/s1") == made.commit
    assert project.git("status", "--porcelain") == ""
    assert project.git("reflog", "-1", "--format=%H %gs") == f"{made.commit} safetyd"
    assert project.git("fsck", "--strict", "--no-dangling") == ""
    assert project.history.commit(project.order()) is None


def test_the_first_commit_of_a_repository_can_be_safetyds(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path, "branch")
    assert project.history.commit(project.order()) is None
    project.write("a", "1\n")

    made = project.commit()

    assert project.git("rev-list", "HEAD") == made.commit
    assert project.git("status", "--porcelain") == ""


def test_a_subfolder_commits_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = ProjectFolder(tmp_path, "branch", root="project/part")
    project.user_commits()
    (project.top / "beside").write_text("x\n")
    project.write("a", "1\n")

    made = project.commit()

    assert project.kept(made.commit).keys() == {"part/readme", "part/a"}
    assert project.git("status", "--porcelain") == "?? beside"


def test_a_worktree_commits_on_its_own_branch(project: ProjectFolder) -> None:
    place = project.top.parent
    project.git("worktree", "add", "-q", str(place / "tree"))
    (place / "tree" / "new").write_text("x\n")
    history = ProjectHistory("tree", place / "tree", "branch", (), project.store)

    made = history.commit(project.order())

    assert made is not None
    assert project.git("rev-parse", "refs/heads/tree") == made.commit
    assert project.git("status", "--porcelain", at=place / "tree") == ""


def test_submodules_stay_in_the_tree(project: ProjectFolder) -> None:
    inner = project.root / "inner"
    project.git("init", "-q", str(inner))
    project.git("commit", "-q", "--allow-empty", "-m", "x", at=inner)
    project.git("add", "inner")
    project.git("commit", "-q", "-m", "with a repository")
    project.write("a", "1\n")

    assert project.kept(project.commit().commit)["inner"] == "160000"


def test_line_ends_are_as_the_repository_wants_them(project: ProjectFolder) -> None:
    project.write(".gitattributes", "*.txt text eol=crlf\n")
    file = project.root / "a.txt"
    file.write_bytes(b"1\r\n2\r\n")
    made = project.commit()
    file.unlink()

    project.history.roll_back("soft", made.commit, (), project.order())

    size = project.git("cat-file", "-s", f"{made.commit}:a.txt")
    assert (size, file.read_bytes()) == ("4", b"1\r\n2\r\n")


@pytest.mark.parametrize("kind", ["merge", "rebase", "cherry-pick"])
def test_in_the_middle_of_something_it_refuses(project: ProjectFolder, kind: str) -> None:
    project.git("checkout", "-q", "-b", "other")
    project.user_commits("theirs\n")
    project.git("checkout", "-q", "main")
    project.user_commits("ours\n")
    stopped = subprocess.run(
        ["git", kind, "other"],
        cwd=project.root,
        capture_output=True,
        check=False,
        env={**os.environ, **USER},
    )
    assert stopped.returncode == 1, "it stops at a conflict"

    refuses(project, f"a {kind} is under way in .*; finish or abort it")


def test_with_a_locked_index_it_refuses(project: ProjectFolder) -> None:
    (project.root / ".git" / "index.lock").write_text("")

    refuses(project, r"index\.lock is there: another git is at work")


def test_without_a_branch_it_refuses(project: ProjectFolder) -> None:
    project.git("checkout", "-q", "--detach")

    refuses(project, "is on no branch; switch to one")


def test_with_changes_that_the_user_staged_it_refuses(project: ProjectFolder) -> None:
    project.write("mine", "half done\n")
    project.git("add", "mine")

    refuses(project, "mine is staged in .*, and the commit would take it along")


def test_staged_changes_before_the_first_commit_are_the_users_too(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path, "branch")
    project.write("mine", "half done\n")
    project.git("add", "mine")

    refuses(project, "mine is staged")


def refuses(project: ProjectFolder, reason: str) -> None:
    """Nothing in the repository changes, not even for a while after."""
    project.write("a", "1\n")
    before = files(project.root / ".git")

    with pytest.raises(HistoryError, match=reason):
        project.history.commit(project.order())
    with pytest.raises(HistoryError):
        project.history.roll_back("hard", "0" * 40, (), project.order())

    after = files(project.root / ".git")
    objects = {path for path in after if path.startswith(b"objects/")}
    assert {path: after[path] for path in after.keys() - (objects - before.keys())} == before


def test_a_ref_that_cannot_be_moved_leaves_the_index_as_it_was(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    lock = project.root / ".git" / "refs" / "heads" / "main.lock"
    lock.write_text("")
    index = (project.root / ".git" / "index").read_bytes()

    with pytest.raises(HistoryError, match="update-ref"):
        project.history.commit(project.order())

    assert (project.root / ".git" / "index").read_bytes() == index
    lock.unlink()
    assert project.commit().files == 1


def test_a_lock_that_safetyd_left_does_not_block_it(project: ProjectFolder) -> None:
    (project.root / ".git" / "index.lock").write_text("safetyd\n")
    project.write("a", "1\n")

    assert project.commit().files == 1
    assert not (project.root / ".git" / "index.lock").exists()


def test_an_index_that_is_a_link_is_neither_read_nor_written(project: ProjectFolder) -> None:
    elsewhere = project.top.parent / "elsewhere"
    index = project.root / ".git" / "index"
    index.rename(elsewhere)
    index.symlink_to(elsewhere)
    content = elsewhere.read_bytes()

    refuses(project, "index is no plain file")

    assert elsewhere.read_bytes() == content
    assert index.is_symlink()


def test_messages_that_others_write_are_no_commits_of_ours(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    ours = project.commit()
    project.write("a", "2\n")
    forged = project.git("log", "-1", "--format=%B", ours.commit)
    project.git("commit", "-q", "-a", "-m", forged)

    assert [row.commit for row in project.history.rows()] == [ours.commit]
    with pytest.raises(HistoryError, match="no commit of this history"):
        project.history.show(project.git("rev-parse", "HEAD"))


def test_hard_moves_the_branch_back_and_the_way_back_stays(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit()
    project.write("a", "2\n")
    project.commit()
    project.write("b", "not committed\n")
    there = files(project.root)

    done = project.history.roll_back("hard", first.commit, (), project.order(why="rollback"))

    assert project.git("rev-parse", "main") == first.commit
    assert project.git("status", "--porcelain") == ""
    assert (project.root / "a").read_text() == "1\n"
    assert not (project.root / "b").exists()
    project.git("gc", "-q", "--prune=now")
    again = project.history.roll_back("hard", done.kept, (), project.order(why="rollback"))
    assert files(project.root) == there
    assert project.git("rev-parse", "main") == done.kept
    assert again.kept == first.commit
    newest, before, *_ = project.history.rows()
    assert [newest.commit, before.commit] == [again.made, done.made], "on no branch, and listed"
    assert (newest.author, newest.files) == ("rollback", 2)


def test_hard_does_not_change_files_outside_the_project(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = ProjectFolder(tmp_path, "branch", root="project/part")
    project.write("a", "1\n")
    first = project.commit()
    (project.top / "beside").write_text("x\n")
    project.git("add", "-A", at=project.top)
    project.git("commit", "-q", "-m", "beside", at=project.top)

    with pytest.raises(HistoryError, match="nothing was changed: beside is not in"):
        project.history.roll_back("hard", first.commit, (), project.order())

    assert (project.top / "beside").exists()


def test_soft_is_a_commit_on_the_branch_too(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit()
    project.write("a", "2\n")
    second = project.commit()

    done = project.history.roll_back("soft", first.commit, (), project.order())

    assert done.kept == second.commit == project.git("rev-parse", "main^")
    assert done.made == project.git("rev-parse", "main")
    assert project.git("status", "--porcelain") == ""


def test_a_revert_is_a_commit_on_the_branch(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit()
    project.write("b", "1\n")
    project.commit()

    done = project.history.roll_back("revert", first.commit, (), project.order(why="rollback"))

    assert project.git("rev-parse", "main") == done.made
    assert project.kept(done.made).keys() == {"readme", "b"}
    assert project.git("status", "--porcelain") == ""


def test_a_folder_without_a_repository_has_no_branch(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path, "branch", repository=False)

    assert "is in no repository; run git init" in project.history.problems()[0]
    with pytest.raises(HistoryError, match="is in no repository"):
        project.history.commit(project.order())


def test_a_repository_with_sha256_has_commits_on_its_branch(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path, "branch", repository=False)
    project.git("init", "-q", "-b", "main", "--object-format=sha256")
    project.write("a", "1\n")

    made = project.commit()

    assert len(made.commit) == 64
    assert project.git("rev-parse", "main") == made.commit == project.history.rows()[0].commit


def test_a_copy_of_an_index_is_as_old_as_the_index(tmp_path: Path) -> None:
    """By its age git knows which files may have changed in the second in which it was written."""
    index, copy, back = tmp_path / "index", tmp_path / "copy", tmp_path / "back"
    index.write_bytes(b"DIRC")
    os.utime(index, ns=(1, 10**9))

    branch_commits._copy(index, copy)
    branch_commits._replace(back, copy)

    assert copy.stat().st_mtime_ns == back.stat().st_mtime_ns == 10**9


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
        with pytest.raises(HistoryError, match="is no path of files"):
            restore.check([change])
    if b".." in path:
        with pytest.raises(HistoryError, match="leads out of the folder"):
            restore.apply([Change(b"../x", file, None)], nothing)
    assert (tmp_path / "x").read_text() == "mine"


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_files_that_git_shall_not_look_at_refuse(project: ProjectFolder, flag: str) -> None:
    project.write("hidden", "1\n")
    project.write("a", "1\n")
    project.commit()
    project.git("update-index", flag, "hidden")
    project.write("a", "2\n")

    with pytest.raises(HistoryError, match="hidden is marked as one that git shall not look at"):
        project.commit()


@pytest.mark.parametrize("name", ["logs/HEAD", "logs/refs/heads/main", "logs", "refs/heads"])
def test_links_in_the_repository_are_not_written_through(
    project: ProjectFolder, tmp_path: Path, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    place = project.root / ".git" / name
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    before = files(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()
    project.write("a", "1\n")

    with pytest.raises(HistoryError, match="is a link, and git would write where it leads"):
        project.commit()

    assert (files(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()) == before


@pytest.mark.parametrize("link", [True, False])
def test_a_repository_of_another_folder_refuses(tmp_path: Path, *, link: bool) -> None:
    theirs = ProjectFolder(tmp_path / "theirs", "branch")
    theirs.user_commits()
    head = theirs.git("rev-parse", "HEAD")
    mine = ProjectFolder(tmp_path / "mine", "branch", repository=False)
    pointer, there = mine.root / ".git", theirs.root / ".git"
    if link:
        pointer.symlink_to(there)
    else:
        pointer.write_text(f"gitdir: {there}\n")
    mine.write("a", "1\n")

    with pytest.raises(HistoryError, match="leads to a repository that is not of this folder"):
        mine.commit()

    assert theirs.git("rev-parse", "HEAD") == head


def test_a_commit_of_any_date_can_be_listed(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    made = project.commit()
    parts = project.git("cat-file", "commit", made.commit).splitlines()
    dated = [
        line.replace(line.split()[-2], "99999999999999") if " <" in line else line for line in parts
    ]
    asked = ["git", "hash-object", "-t", "commit", "-w", "--stdin"]
    text = "\n".join(dated) + "\n"
    done = subprocess.run(
        asked, cwd=project.root, input=text, check=True, capture_output=True, text=True
    )
    with (project.bare / "commits").open("a") as noted:
        noted.write(f"\n{done.stdout.strip()}\n")

    assert {row.at.year for row in project.history.rows(5)} == {2026, 9999}
