"""The store of a project: one writer at a time, and what a killed one left is not in the way."""

import os
import signal
import subprocess
import sys
from typing import Final

import pytest

from safetyd.extras.file_history import private_store
from safetyd.extras.file_history.history_records import HistoryError
from safetyd.extras.file_history.project_history import ProjectHistory
from tests.extras.file_history.project_folder import ProjectFolder

# A process that takes the store's lock, hands it on to a child, and is killed.
HOLDER: Final = """
import subprocess, sys
from pathlib import Path
from safetyd.extras.file_history.private_store import PrivateStore
store = PrivateStore("shop", Path(sys.argv[1]), Path(sys.argv[2]))
with store.locked() as git:
    child = subprocess.Popen(["sleep", "600"], pass_fds=(git._held,), stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def test_a_git_that_is_killed_blocks_nothing(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("a", "1\n")
    project.commit()
    project.write("a", "2\n")
    # As the kernel does when memory is short, while an index and an object are written.
    left = 'touch "$GIT_INDEX_FILE.lock" "$GIT_DIR/objects/tmp_obj_left"'
    monkeypatch.setenv("PATH", project.before_git("update-index", left, "kill -9 $$"))

    assert project.content(project.commit().commit, "a") == "2"
    assert not list(project.bare.rglob("*.lock"))
    project.reopened().commit(project.order())
    assert not list(project.bare.rglob("tmp_obj*"))


def test_what_a_killed_daemon_left_blocks_nothing(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    project.commit()
    for name in ("index.lock", "HEAD.lock", "packed-refs.lock", "refs/history.lock"):
        (project.bare / name).write_text("")
    (project.bare / "refs" / "safetyd" / "code" / "s1.lock").write_text("")
    project.write("a", "2\n")

    made = project.reopened().commit(project.order())

    assert made is not None
    assert project.content(made.commit, "a") == "2"


def test_a_git_that_outlives_its_daemon_still_holds_the_store(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_store, "LOCK_S", 0.1)
    project.write("a", "1\n")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(project.root), str(project.store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    with holder.stdout, holder.stdin:
        child = int(holder.stdout.readline())
        holder.kill()
        holder.wait()

        with pytest.raises(HistoryError, match="another commit has held"):
            project.history.commit(project.order())

        os.kill(child, signal.SIGKILL)
    monkeypatch.undo()
    assert project.commit().files == 1


def test_a_store_is_for_one_folder(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    project.commit()
    other = project.top.parent / "elsewhere"
    other.mkdir()
    history = ProjectHistory("shop", other, (), project.store)

    with pytest.raises(HistoryError, match=r"has the history of .*, not of .*elsewhere"):
        history.commit(project.order())


def test_something_else_in_the_place_of_a_store_is_not_removed(project: ProjectFolder) -> None:
    project.bare.mkdir(parents=True)
    (project.bare / "mine").write_text("x")
    project.write("a", "1\n")

    with pytest.raises(HistoryError, match="is not a repository of safetyd"):
        project.history.commit(project.order())

    assert (project.bare / "mine").exists()


def test_names_of_projects_do_not_leave_the_store(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    history = ProjectHistory("../../x", project.root, (), project.store)

    history.commit(project.order())

    assert (project.store / "%2E%2E%2F%2E%2E%2Fx-shadow.git").is_dir()


def test_only_safetyds_user_can_look_into_the_store(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    project.commit()

    assert project.store.stat().st_mode & 0o777 == project.bare.stat().st_mode & 0o777 == 0o700


def test_many_commits_are_packed_and_all_stay(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_store, "_LOOSE", 0)
    commits = []
    for number in range(40):
        project.write(f"folder/{number % 5}", f"{number}\n")
        commits.append(project.commit(session=f"s{number}").commit)
        project.history.finish()

    assert list((project.bare / "objects" / "pack").glob("*.pack"))
    assert [row.commit for row in project.history.rows(100)] == commits[::-1]
    assert project.git("fsck", "--strict", "--no-dangling", at=project.bare) == ""
