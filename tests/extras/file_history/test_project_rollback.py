"""Rollbacks: what was there is kept first, and what would be lost refuses."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetyd.extras.file_history.history_records import HistoryError
from safetyd.operators.contract.history_contract import RollbackDone
from tests.extras.file_history.project_folder import Files, ProjectFolder, files, put


def rolled_back(project: ProjectFolder, kind: Any, commit: str, *paths: str) -> RollbackDone:
    return project.history.roll_back(kind, commit, paths, project.order(why="rollback"))


def refused(project: ProjectFolder, kind: Any, commit: str, reason: str, *paths: str) -> None:
    """Nothing that is there changes."""
    before = files(project.root)
    with pytest.raises(HistoryError, match=reason):
        rolled_back(project, kind, commit, *paths)
    assert files(project.root) == before


def test_soft_brings_back_all_files_and_commits_what_was_there(project: ProjectFolder) -> None:
    project.write(".gitignore", "*.log\n")
    project.write("changed", "1\n")
    project.write("folder/removed", "1\n")
    first = project.commit()
    project.write("changed", "2\n")
    (project.root / "folder" / "removed").unlink()
    project.write("later/new", "1\n")
    project.write("x.log", "ignored\n")

    done = rolled_back(project, "soft", first.commit)

    assert files(project.root).keys() == {b".gitignore", b"changed", b"folder/removed", b"x.log"}
    assert (project.root / "changed").read_text() == "1\n"
    assert not (project.root / "later").exists()
    assert project.kept(done.kept).keys() == {".gitignore", "changed", "later/new"}
    assert project.kept(done.made).keys() == {".gitignore", "changed", "folder/removed"}
    assert [(effect.path, effect.what) for effect in done.changes] == [
        ("changed", "restored"),
        ("folder/removed", "created"),
        ("later/new", "deleted"),
    ]
    assert (done.created, done.deleted, done.restored) == (1, 1, 1)
    assert [(left.path, left.why) for left in done.left] == [("x.log", "is ignored by git")]
    newest, before, _ = project.history.rows()
    assert (newest.commit, newest.author) == (done.made, "rollback")
    assert (before.commit, before.author, before.agent) == (done.kept, "human", "")
    message = project.history.show(done.made)
    assert f"Safetyd-Target: {first.commit}" in message


def test_soft_with_paths_changes_nothing_else(project: ProjectFolder) -> None:
    for name in ("a", "ab", "folder/x", "folder/y"):
        project.write(name, "1\n")
    first = project.commit()
    for name in ("a", "ab", "folder/x", "folder/y", "folder/z"):
        project.write(name, "2\n")

    done = rolled_back(project, "soft", first.commit[:10], "a", str(project.root / "folder"))

    assert done.files == 4
    assert {path for path, (_, text) in files(project.root).items() if text == b"2\n"} == {b"ab"}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../x", "is not in"),
        ("/etc/passwd", "is not in"),
        ("a/../../x", "is not in"),
        ("nowhere", "nowhere is in neither commit"),
        ("*", "is in neither commit"),
    ],
)
def test_paths_that_are_not_there_refuse(project: ProjectFolder, path: str, reason: str) -> None:
    project.write("a", "1\n")
    first = project.commit()

    refused(project, "soft", first.commit, reason, path)


@pytest.mark.parametrize(
    ("paths", "still", "back"),
    [
        ((), 2, ("data/kept.csv", "good")),
        (("data",), 1, ("data/kept.csv",)),
        (("good",), 0, ("good",)),
    ],
)
def test_soft_counts_what_the_commit_itself_had_deleted(
    project: ProjectFolder, paths: tuple[str, ...], still: int, back: tuple[str, ...]
) -> None:
    for name in ("data/orders.csv", "data/kept.csv", "notes", "good"):
        project.write(name, "1\n")
    project.commit()
    (project.root / "data/orders.csv").unlink()
    (project.root / "notes").unlink()
    bad = project.commit()
    project.write("data/kept.csv", "2\n")
    project.write("good", "2\n")

    done = rolled_back(project, "soft", bad.commit, *paths)

    assert (done.still_deleted, done.paths) == (still, back)
    assert rolled_back(project, "revert", bad.commit).still_deleted == 0
    assert (project.root / "data/orders.csv").exists()


def test_a_rollback_names_at_most_20_files(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit()
    for number in range(21):
        project.write(f"new{number:02}", "1\n")

    done = rolled_back(project, "soft", first.commit)

    assert (done.files, done.paths) == (21, tuple(f"new{number:02}" for number in range(20)))


def test_a_subfolder_of_a_repository_names_paths_from_itself(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = ProjectFolder(tmp_path, root="project/part")
    project.write("a", "1\n")
    first = project.commit()
    project.write("a", "2\n")
    assert rolled_back(project, "soft", first.commit, "a").paths == ("a",)
    project.write("a", "3\n")
    rolled_back(project, "soft", first.commit, ".")

    assert (project.root / "a").read_text() == "1\n"


def test_a_revert_undoes_one_commit_and_keeps_what_came_later(project: ProjectFolder) -> None:
    lines = [f"{number}\n" for number in range(9)]
    project.write("a", "".join(lines))
    project.write("only", "1\n")
    project.commit()
    project.write("a", "".join(["first\n", *lines[1:]]))
    project.write("added", "1\n")
    (project.root / "only").unlink()
    second = project.commit()
    project.write("a", "".join(["first\n", *lines[1:8], "last\n"]))
    project.write("later", "1\n")

    done = rolled_back(project, "revert", second.commit)

    assert (project.root / "a").read_text() == "".join([*lines[:8], "last\n"])
    assert files(project.root).keys() == {b"a", b"only", b"later"}
    assert project.kept(done.made).keys() == {"a", "only", "later"}
    assert project.history.rows()[0].commit == done.made
    assert project.git("rev-parse", f"{done.made}^", at=project.bare) == done.kept
    again = rolled_back(project, "revert", second.commit)
    nothing: dict[str, Any] = {"made": "", "files": 0, "agents": (), "project": "shop", "ok": True}
    assert again == RollbackDone(kept=done.made, **nothing), "there is nothing to change"


def test_a_revert_that_conflicts_names_the_files(project: ProjectFolder) -> None:
    for name in ("a", "b", "binary", "gone", "link"):
        project.write(name, "1\n")
    project.commit()
    for name in ("a", "b", "binary", "gone", "link"):
        project.write(name, "2\0\n" if name == "binary" else "2\n")
    second = project.commit()
    project.write("a", "3\n")
    project.write("binary", "3\0\n")
    (project.root / "gone").unlink()
    (project.root / "link").unlink()
    (project.root / "link").symlink_to("a")

    refused(project, "revert", second.commit, "a, binary, gone, link changed again since")


def test_the_first_commit_cannot_be_undone(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit()

    project.write("a", "2\n")
    refused(project, "revert", first.commit, "has no previous commit")

    assert project.history.rows(1)[0].subject == "human: before a rollback: does it"


def test_kinds_and_paths_that_do_not_fit_are_refused(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit()

    refused(project, "revert", first.commit, "revert works only for whole commits", "a")
    refused(project, "soft", "HEAD", "'HEAD' is not a commit of this project")
    refused(project, "soft", "--all", "is not a commit of this project")
    refused(project, "soft", "0" * 40, "is not a commit of this project")


def test_an_ignored_file_in_the_way_is_not_overwritten(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    project.write("folder/b", "1\n")
    first = project.commit()
    (project.root / "a").unlink()
    (project.root / "folder" / "b").unlink()
    (project.root / "folder").rmdir()
    project.commit()
    project.write(".gitignore", "a\nfolder\n")
    project.write("a", "ignored\n")

    refused(project, "soft", first.commit, "this would be lost: a is not in the file history")

    (project.root / "a").unlink()
    project.write("folder", "ignored\n")
    refused(project, "soft", first.commit, "folder is not a folder, and not in the file history")


def test_a_folder_where_a_file_must_be_is_not_removed(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit()
    (project.root / "a").unlink()
    project.write(".gitignore", "*.log\n")
    project.write("a/kept", "1\n")
    project.write("a/b/x.log", "ignored\n")

    refused(project, "soft", first.commit, "a/b/x.log is in a folder that a file would replace")

    (project.root / "a" / "b" / "x.log").unlink()
    rolled_back(project, "soft", first.commit)
    assert (project.root / "a").read_text() == "1\n"


def test_a_pipe_in_the_way_is_left_alone(project: ProjectFolder) -> None:
    file = project.write("a", "1\n")
    project.write("b", "1\n")
    first = project.commit()
    file.unlink()
    os.mkfifo(file)

    refused(project, "soft", first.commit, "a is not in the file history")


def test_a_link_in_the_way_is_replaced_and_not_followed(project: ProjectFolder) -> None:
    outside = project.top.parent / "outside"
    outside.mkdir()
    (outside / "b").write_text("theirs\n")
    file = project.write("a", "1\n")
    project.write("folder/b", "1\n")
    first = project.commit()
    file.unlink()
    file.symlink_to(outside / "b")
    (project.root / "folder" / "b").unlink()
    (project.root / "folder").rmdir()
    (project.root / "folder").symlink_to(outside)
    there = files(project.root)

    done = rolled_back(project, "soft", first.commit)

    assert (outside / "b").read_text() == "theirs\n"
    assert not file.is_symlink()
    assert (project.root / "folder" / "b").read_text() == "1\n"
    rolled_back(project, "soft", done.kept)
    assert files(project.root) == there
    assert (outside / "b").read_text() == "theirs\n"


def test_who_may_read_a_file_stays_the_same(project: ProjectFolder) -> None:
    file = project.write("secret", "1\n")
    file.chmod(0o700)
    first = project.commit()
    file.write_text("2\n")
    file.chmod(0o600)

    rolled_back(project, "soft", first.commit)

    assert file.stat().st_mode & 0o777 == 0o700


def test_a_file_that_changes_meanwhile_is_not_overwritten(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.write("a", "1\n")
    first = project.commit()
    project.write("a", "2\n")
    project.commit()
    writing = f"echo meanwhile > {file}"
    monkeypatch.setenv("PATH", project.before_git(f"--raw*{first.commit}", writing))

    with pytest.raises(HistoryError, match="because a changed in the meantime; pause"):
        rolled_back(project, "soft", first.commit)

    assert file.read_text() == "meanwhile\n"


def test_a_rollback_that_stops_halfway_says_what_is_kept(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        project.write(name, "1\n")
    first = project.commit()
    project.write("a", "2\n")
    project.write("c", "2\n")
    there = files(project.root)
    monkeypatch.setenv("PATH", project.before_git("cat-file", "kill -9 $$"))

    with pytest.raises(HistoryError, match=r"stopped halfway: .*; 1 of 2 files are restored"):
        rolled_back(project, "soft", first.commit)

    half, kept, *_ = project.history.rows()
    assert half.subject.startswith("rollback: half of soft to"), "what is put back is committed"
    rolled_back(project, "soft", kept.commit)
    assert files(project.root) == there


def test_what_a_stopped_rollback_put_back_is_committed_for_its_paths_alone(
    project: ProjectFolder,
) -> None:
    for text in ("1\n", "2\n"):
        project.write("a", text)
        project.write("b", text)
        project.commit()
    first = project.history.rows()[1].commit
    project.write("a", "1\n")  # by the rollback
    project.write("b", "1\n")  # by a human

    project.history.commit_stopped("soft", first, ("a",), project.order(why="rollback"))

    row = project.history.rows(1)[0]
    assert (row.author, row.files) == ("rollback", 1)
    assert project.commit(why="before").files == 1


NAMES = st.sampled_from([b"a", b"b", b"c\n", b"-d", b"\xff", "ä".encode()])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
CONTENTS = st.tuples(
    st.sampled_from(["file", "file", "program"]), st.binary(max_size=12)
) | st.tuples(st.just("link"), st.sampled_from([b"a", b"/etc", b"../..", b"nowhere"]))


def test_a_link_to_itself_in_the_place_of_a_folder_gives_way(project: ProjectFolder) -> None:
    project.write("a/b/c", "1\n")
    first = project.commit()
    shutil.rmtree(project.root / "a")
    (project.root / "a").symlink_to("a")
    there = files(project.root)

    done = rolled_back(project, "soft", first.commit)

    assert (project.root / "a/b/c").read_text() == "1\n"
    rolled_back(project, "soft", done.kept)
    assert files(project.root) == there


def tree(drawn: Files) -> Files:
    """Leave out what lies below a file."""
    return {
        path: content
        for path, content in drawn.items()
        if not any(path.startswith(other + b"/") for other in drawn)
    }


TREES = st.dictionaries(PATHS, CONTENTS, max_size=6).map(tree)


@settings(max_examples=10)
@given(first=TREES, second=TREES, third=TREES, revert=st.booleans())
def test_every_rollback_can_be_rolled_back(
    tmp_path_factory: pytest.TempPathFactory,
    first: Files,
    second: Files,
    third: Files,
    revert: bool,  # noqa: FBT001
) -> None:
    project = ProjectFolder(tmp_path_factory.mktemp("any"), repository=False)
    begun = project.write("begun", "1\n")
    project.commit()
    begun.unlink()
    put(project.root, first)
    one = project.commit()
    put(project.root, second)
    two = project.history.commit(project.order()) or one
    if not revert:
        put(project.root, third)
    there = files(project.root)

    wanted = two.commit if revert else one.commit
    done = rolled_back(project, "revert" if revert else "soft", wanted)

    begin: Files = {b"begun": ("file", b"1\n")}
    assert files(project.root) == (begin if revert and two == one else first)
    rolled_back(project, "soft", done.kept)
    assert files(project.root) == there
