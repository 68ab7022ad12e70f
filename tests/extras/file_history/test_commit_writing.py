"""Shadow commits: the user's repository stays as it is, byte for byte, whatever state it is in."""

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from safetyd.clock import file_time_ns
from safetyd.extras.file_history.history_records import CommitPart, HistoryError
from safetyd.extras.file_history.project_history import ProjectHistory
from tests.extras.file_history.project_folder import USER, ProjectFolder, files

NOBODY: Final = 65534
ODD: Final = (
    *(b"two\nlines", b'"quoted"', b"-rf", b"--", b"\xff\xfe", b"a\\b", b"tab\there", b" "),
    *(b"git~1", b":(glob)*", b"*", "ä".encode(), b"#x", b"!x", b"x.lock"),
)


def test_a_commit_is_at_the_ref_of_its_session(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    first = project.commit(agent="code", session="s1")
    project.write("a", "2\n")
    second = project.commit(agent="night shift", session="../..")

    refs = project.git("for-each-ref", "--format=%(refname) %(objectname)", at=project.bare)

    assert f"refs/safetyd/code/s1 {first.commit}" in refs
    assert f"refs/safetyd/night%20shift/%2E%2E%2F%2E%2E {second.commit}" in refs
    assert project.git("rev-parse", f"{second.commit}^", at=project.bare) == first.commit


def test_the_user_fetches_the_refs_into_the_repository(project: ProjectFolder) -> None:
    project.user_commits()
    made = project.commit()
    file = project.write("readme", "later\n")

    project.git("fetch", "-q", str(project.bare), "refs/history:refs/safetyd/history")
    project.git("branch", "agents", "refs/safetyd/history")
    project.git("checkout", made.commit[:8], "--", "readme")

    assert project.git("rev-parse", "agents") == made.commit
    assert file.read_text() == "first\n"
    assert project.git("fsck", "--strict", "--no-dangling") == ""


def test_a_folder_that_is_no_repository_has_a_history(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path, repository=False)
    project.write("a/b", "1\n")

    made = project.commit()

    assert project.kept(made.commit) == {"a/b": "100644"}
    assert not (project.root / ".git").exists()
    assert project.git("rev-parse", "--is-bare-repository", at=project.bare) == "true"


def test_what_did_not_change_is_no_commit(project: ProjectFolder) -> None:
    assert project.history.commit(project.order()) is None
    project.write("a", "1\n")
    project.commit()
    os.utime(project.root / "a", (0, 0))

    assert project.history.commit(project.order()) is None
    assert project.reopened().commit(project.order()) is None


def test_ignored_files_stay_out(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project.top.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    (home / "mine").write_text("*.swp\n")
    (project.root / ".git" / "info" / "exclude").write_text("*.local\n")
    project.write(".gitignore", "*.log\n/build/\n")
    for name in ("x.swp", "x.local", "x.log", "build/x", "sub/y.log", "kept"):
        project.write(name, "x\n")

    assert project.kept(project.commit().commit).keys() == {".gitignore", "kept"}


def test_what_is_in_the_history_stays_in_it_when_it_is_ignored_later(
    project: ProjectFolder,
) -> None:
    project.write("a", "1\n")
    project.commit()
    project.write(".gitignore", "*\n")
    project.write("a", "2\n")

    made = project.commit()

    assert project.content(made.commit, "a") == "2"


def test_a_subfolder_of_a_repository_is_all_that_is_kept(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = ProjectFolder(tmp_path, root="project/part/here")
    (project.top / ".gitignore").write_text("*.log\n/part/here/out\n")
    (project.top / "beside").write_text("x\n")
    for name in ("a", "x.log", "out/x"):
        project.write(name, "x\n")

    first = project.commit()
    project.git("init", "-q")
    project.write("a", "y\n")
    second = project.commit()

    assert project.kept(first.commit).keys() == {"part/here/a"}
    assert project.kept(second.commit).keys() == {"part/here/a"}
    assert second.files == 1


def test_a_subfolder_that_its_repository_ignores_is_kept_by_itself(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = ProjectFolder(tmp_path, root="project/part")
    (project.top / ".gitignore").write_text("*\n")
    project.write("a", "x\n")

    assert project.kept(project.commit().commit).keys() == {"a"}


def test_a_worktree_is_kept_and_its_repository_untouched(project: ProjectFolder) -> None:
    project.user_commits()
    place = project.top.parent
    project.git("worktree", "add", "-q", str(place / "tree"))
    (project.root / ".git" / "info" / "exclude").write_text("*.log\n")
    before = files(project.root / ".git")
    (place / "tree" / "new").write_text("x\n")
    (place / "tree" / "new.log").write_text("x\n")
    history = ProjectHistory("tree", place / "tree", (), project.store)

    made = history.commit(project.order())

    assert made is not None
    assert made.files == 2
    assert history.problems() == []
    assert files(project.root / ".git") == before


def test_names_of_all_kinds_are_kept_and_brought_back(project: ProjectFolder) -> None:
    for number, name in enumerate(map(os.fsdecode, ODD)):
        project.write(name, f"{number}\n")
        project.write(f"in/{name}/{name}", f"{number}\n")
    there = files(project.root)
    made = project.commit()
    for path in there:
        (project.root / os.fsdecode(path)).unlink()

    project.history.roll_back("soft", made.commit, (), project.order())

    assert made.files == 2 * len(ODD)
    assert files(project.root) == there


def test_links_that_leave_the_folder_are_kept_as_links(project: ProjectFolder) -> None:
    outside = project.top.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("do not read\n")
    (project.root / "file").symlink_to(outside / "secret")
    (project.root / "folder").symlink_to(outside)

    made = project.commit()

    assert project.kept(made.commit) == {"file": "120000", "folder": "120000"}
    assert project.content(made.commit, "folder") == str(outside)


def test_a_folder_that_becomes_a_link_is_not_followed(project: ProjectFolder) -> None:
    outside = project.top.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("do not read\n")
    project.write("folder/a", "mine\n")
    project.commit()
    (project.root / "folder" / "a").unlink()
    (project.root / "folder").rmdir()
    (project.root / "folder").symlink_to(outside)

    assert project.kept(project.commit().commit) == {"folder": "120000"}


def test_nested_repositories_and_submodules_are_left_to_themselves(
    project: ProjectFolder,
) -> None:
    other = project.top.parent / "other"
    project.git("init", "-q", str(other), at=project.top.parent)
    (other / "x").write_text("x\n")
    project.git("add", "-A", at=other)
    project.git("commit", "-q", "-m", "x", at=other)
    allowed = ("-c", "protocol.file.allow=always")
    project.git(*allowed, "submodule", "--quiet", "add", str(other), "lib")
    project.git("init", "-q", str(project.root / "inner"))
    project.write("inner/y", "y\n")
    project.write("plain/z", "z\n")
    (project.root / "plain" / "empty" / ".git").mkdir(parents=True)
    project.write("plain/empty/w", "w\n")

    made = project.commit()
    project.write("lib/x", "changed\n")

    assert project.kept(made.commit).keys() == {".gitmodules", "plain/z", "plain/empty/w"}
    assert project.history.commit(project.order()) is None


def test_a_folder_stays_in_the_history_when_it_is_made_a_repository(
    project: ProjectFolder,
) -> None:
    project.write("folder/a", "1\n")
    project.commit()
    project.git("init", "-q", str(project.root / "folder"))
    project.write("folder/a", "2\n")
    project.write("folder/b", "1\n")

    assert project.kept(project.commit().commit).keys() == {"folder/a", "folder/b"}


def test_a_file_that_becomes_a_repository_is_gone(project: ProjectFolder) -> None:
    file = project.write("a", "1\n")
    project.write("b", "1\n")
    project.commit()
    file.unlink()
    project.git("init", "-q", str(file))
    project.git("commit", "-q", "--allow-empty", "-m", "x", at=file)

    assert project.kept(project.commit().commit).keys() == {"b"}


def test_bytes_are_kept_as_they_are_and_no_filter_runs(project: ProjectFolder) -> None:
    attributes = "* text=auto eol=crlf ident working-tree-encoding=UTF-16 filter=lfs\n"
    project.write(".gitattributes", attributes)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    project.write("pointer.bin", pointer)
    project.root.joinpath("mixed").write_bytes(b"a\r\nb\n$Id$\n\xff")
    there = files(project.root)

    made = project.commit()
    for name in ("mixed", "pointer.bin"):
        (project.root / name).unlink()
    project.history.roll_back("soft", made.commit, (), project.order())

    assert project.content(made.commit, "pointer.bin") + "\n" == pointer
    assert files(project.root) == there


@pytest.mark.parametrize("state", ["merge", "rebase", "detached", "locked", "staged", "empty"])
def test_whatever_state_the_users_repository_is_in_nothing_in_it_changes(
    project: ProjectFolder, state: str
) -> None:
    _bring_into(project, state)
    told = project.git("status", "--porcelain=v2", "--branch")
    before = files(project.root / ".git")
    project.write("old", "file\n")
    first = project.commit()
    new = project.write("new", "file\n")

    made = project.commit()
    assert project.content(made.commit, "new") == "file"
    project.history.roll_back("soft", first.commit, (), project.order())
    (project.root / "old").unlink()

    assert not new.exists()
    assert files(project.root / ".git") == before
    assert project.git("status", "--porcelain=v2", "--branch") == told


def _bring_into(project: ProjectFolder, state: str) -> None:
    if state == "empty":
        return
    project.user_commits("base\n")
    if state == "detached":
        project.git("checkout", "-q", "--detach")
    elif state == "staged":
        project.write("readme", "stashed\n")
        project.git("stash", "push", "-q")
        project.write("readme", "changed again\n")
        project.write("staged", "by the user\n")
        project.git("add", "staged")
    elif state == "locked":
        (project.root / ".git" / "index.lock").write_text("")
    else:
        project.git("checkout", "-q", "-b", "other")
        project.user_commits("theirs\n")
        project.git("checkout", "-q", "main")
        project.user_commits("ours\n")
        stopped = subprocess.run(
            ["git", state, "other"],
            cwd=project.root,
            capture_output=True,
            check=False,
            env={**os.environ, **USER},
        )
        assert stopped.returncode == 1, "it stops at a conflict"


def test_a_file_that_changes_while_it_is_read_is_kept_once_it_rests(
    project: ProjectFolder,
) -> None:
    file = project.write("busy", "")
    over = threading.Event()
    begun = threading.Event()

    def change() -> None:
        while not over.is_set():
            with file.open("r+b") as busy:
                busy.truncate(0)
                busy.write(b"x" * 500_000)
            begun.set()

    busy = threading.Thread(target=change)
    busy.start()
    try:
        begun.wait()
        for _ in range(3):
            try:
                project.history.commit(project.order())
            except HistoryError as exc:
                assert "while they are read" in str(exc)  # noqa: PT017 - it may also succeed
    finally:
        over.set()
        busy.join()
    file.write_bytes(b"at rest\n")

    assert project.content(project.commit().commit, "busy") == "at rest"


def test_pipes_and_sockets_are_no_files(project: ProjectFolder) -> None:
    file = project.write("a", "1\n")
    project.write("b", "1\n")
    project.commit()
    os.mkfifo(project.root / "pipe")
    file.unlink()
    os.mkfifo(file)

    assert project.kept(project.commit().commit).keys() == {"b"}


@pytest.fixture
def closed() -> Iterator[ProjectFolder]:
    """A project of somebody whom rights bind: tests may run as root."""
    root = os.geteuid() == 0
    # Not below pytest's own folders, which are for whoever runs the tests.
    with tempfile.TemporaryDirectory() as place:
        if root:
            os.chown(place, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield ProjectFolder(Path(place))
        finally:
            if root:
                os.seteuid(0)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(closed: ProjectFolder) -> None:
    closed.write("a", "1\n")
    first = closed.commit()
    secret = closed.write("secret", "x\n")
    secret.chmod(0)

    with pytest.raises(HistoryError, match="cannot read secret; let safetyd's user read it"):
        closed.history.commit(closed.order())
    with pytest.raises(HistoryError, match="secret"):
        closed.history.roll_back("soft", first.commit, (), closed.order())

    assert secret.exists()
    secret.chmod(0o600)
    assert closed.kept(closed.commit().commit).keys() == {"a", "secret"}


def test_a_folder_that_cannot_be_read_is_not_taken_for_deleted(closed: ProjectFolder) -> None:
    closed.write("folder/a", "1\n")
    closed.commit()
    (closed.root / "folder").chmod(0)
    try:
        with pytest.raises(HistoryError, match="folder"):
            closed.history.commit(closed.order())
    finally:
        (closed.root / "folder").chmod(0o700)


def test_a_folder_that_cannot_be_written_is_named_before_anything_changes(
    closed: ProjectFolder,
) -> None:
    closed.write("a", "1\n")
    closed.write("folder/b", "1\n")
    first = closed.commit()
    closed.write("a", "2\n")
    closed.write("folder/b", "2\n")
    (closed.root / "folder").chmod(0o500)
    try:
        with pytest.raises(HistoryError, match="nothing was changed: folder is not writable"):
            closed.history.roll_back("soft", first.commit, (), closed.order())
    finally:
        (closed.root / "folder").chmod(0o700)

    assert (closed.root / "a").read_text() == "2\n"


def test_a_project_that_cannot_be_read_is_a_problem(closed: ProjectFolder) -> None:
    closed.root.chmod(0)
    try:
        (problem,) = closed.history.problems()
    finally:
        closed.root.chmod(0o700)

    assert problem.startswith("safetyd's user cannot read")


def test_what_an_agent_writes_while_a_humans_changes_are_read_is_left_to_the_agent(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cart.py", "notes"):
        project.write(name, "one\n")
    first = project.commit()
    cart = project.write("cart.py", "of a human\n")
    project.write("notes", "of a human\n")
    new = project.write("new", "of a human\n")
    while file_time_ns() <= new.stat().st_ctime_ns:
        pass
    monkeypatch.setenv("PATH", project.before_git("update-index", f": > {cart}", f": > {new}"))

    made = project.history.commit(project.order(why="before"), CommitPart(until_ns=file_time_ns()))

    assert made is not None
    kept = {path: project.content(made.commit, path) for path in project.kept(made.commit)}
    assert kept == {"cart.py": "one", "notes": "of a human"}
    assert project.commit().files == 2, "the agent's"
    assert first
