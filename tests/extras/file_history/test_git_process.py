"""Whatever an agent writes into a repository, no program of it runs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from safetyd.extras.file_history import git_process
from safetyd.extras.file_history.history_records import HistoryError
from tests.extras.file_history.project_folder import USER, ProjectFolder

HOOKS: Final = (
    *("pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-checkout"),
    *("reference-transaction", "post-index-change", "fsmonitor-watchman", "pre-auto-gc"),
    *("post-merge", "post-rewrite", "pre-push", "pre-rebase", "push-to-checkout", "update"),
)
COMMANDS: Final = (
    *("status", "add", "diff", "diff-files", "diff-index", "diff-tree", "ls-files", "update-index"),
    *("write-tree", "commit-tree", "update-ref", "log", "cat-file", "rev-parse", "read-tree"),
)


class Trap:
    """A program that leaves a file behind, and all the settings that would start it."""

    def __init__(self, place: Path) -> None:
        self.sprung = place / "sprung"
        self.program = place / "trap"
        self.program.write_text(f"#!/bin/sh\necho $0 $@ >> {self.sprung}\n")
        self.program.chmod(0o755)
        self._included = place / "included"

    def set(self, repository: Path) -> None:
        """Write everything evil that a repository's configuration can hold."""
        config = repository / ".git" / "config"
        here = f"\n[include]\n\tpath = {self._included}\n"
        config.write_text(config.read_text() + self._settings() + here)
        self._included.write_text(self._settings())
        for hooks in (repository / ".git" / "hooks", repository / "evil-hooks"):
            hooks.mkdir(exist_ok=True)
            for name in HOOKS:
                (hooks / name).unlink(missing_ok=True)
                (hooks / name).symlink_to(self.program)
        attributes = "* diff=evil merge=evil filter=evil\n"
        (repository / ".gitattributes").write_text(attributes)
        (repository / ".git" / "info" / "attributes").write_text(attributes)

    def _settings(self) -> str:
        run = self.program
        aliases = "".join(f"\t{command} = !{run}\n" for command in COMMANDS)
        return f"""
[core]
	fsmonitor = {run}
	hooksPath = evil-hooks
	sshCommand = {run}
	pager = {run}
	editor = {run}
	askPass = {run}
	gitProxy = {run}
	alternateRefsCommand = {run}
	attributesFile = {run}
	untrackedCache = true
[filter "evil"]
	clean = {run}
	smudge = {run}
	process = {run}
	required = true
[diff]
	external = {run}
[diff "evil"]
	textconv = {run}
	command = {run}
[merge "evil"]
	driver = {run}
[alias]
{aliases}[gpg]
	program = {run}
[commit]
	gpgSign = true
[log]
	showSignature = true
[credential]
	helper = !{run}
[protocol]
	allow = always
[protocol "ext"]
	allow = always
[remote "evil"]
	url = ext::{run}
	promisor = true
[uploadpack]
	packObjectsHook = {run}
[gc]
	auto = 1
	recentObjectsHook = {run}
"""


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def everything(project: ProjectFolder) -> None:
    """Do all that a history can do."""
    history = project.history
    assert history.problems() == []
    project.write("a", "1\n2\n3\n4\n5\n")
    first = project.commit()
    project.write("a", "one\n2\n3\n4\n5\n")
    second = project.commit(why="before")
    project.write("a", "one\n2\n3\n4\nfive\n")
    project.commit()
    history.roll_back("revert", second.commit, (), project.order())
    history.roll_back("soft", first.commit, ("a",), project.order())
    history.show(first.commit)
    history.diff(second.commit)
    history.diff(first.commit, second.commit)
    assert len(history.rows()) >= 4
    assert (project.root / "a").read_text() == "1\n2\n3\n4\n5\n"


def test_no_program_of_an_evil_repository_runs(tmp_path: Path, trap: Trap) -> None:
    project = ProjectFolder(tmp_path)
    project.user_commits()
    inner = project.root / "inner"
    project.git("init", "-q", str(inner))
    project.git("commit", "-q", "--allow-empty", "-m", "x", at=inner)
    project.git("add", "inner")
    project.git("commit", "-q", "-m", "a repository within")
    trap.set(inner)
    trap.set(project.root)

    everything(project)

    assert not trap.sprung.exists(), trap.sprung.read_text()
    springs(project, "status")


def springs(project: ProjectFolder, *command: str) -> None:
    """The trap is one: the user's git runs into it."""
    subprocess.run(
        ["git", *command],
        cwd=project.root,
        env={**os.environ, **USER},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (project.top.parent / "sprung").exists()


def test_nothing_is_fetched_for_an_object_that_is_missing(tmp_path: Path, trap: Trap) -> None:
    project = ProjectFolder(tmp_path)
    head = project.user_commits()
    trap.set(project.root)
    with (project.root / ".git" / "config").open("a") as config:
        config.write("[extensions]\n\tpartialClone = evil\n[core]\n\trepositoryFormatVersion = 1\n")
    (project.root / ".git" / "objects" / head[:2] / head[2:]).unlink()
    project.write("a", "1\n")

    project.commit()

    assert not trap.sprung.exists(), trap.sprung.read_text()
    springs(project, "-c", "core.fsmonitor=false", "cat-file", "-p", head)


Given = Callable[[str], None]


@pytest.fixture
def given_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    """Put a git into PATH that says something."""

    def put(said: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "git").write_text(f"#!/bin/sh\necho '{said}'\n")
        (folder / "git").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return put


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("git version 2.20.1", "git 2.20.1 is too old; install git 2.34 or newer"),
        ("git version 2.33.0.windows.1", "git 2.33.0.windows.1 is too old"),
        ("hello", "git --version says b'hello"),
        ("git version 2.34.1", ""),
        ("git version 3.0.rc1", ""),
    ],
)
def test_the_version_of_git_is_judged(given_git: Given, said: str, problem: str) -> None:
    given_git(said)

    found = git_process.version_problem()

    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_a_missing_git_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = ProjectFolder(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert project.history.problems() == ["git is not in PATH; install git 2.34 or newer"]
    with pytest.raises(HistoryError, match="not in PATH"):
        project.history.commit(project.order())


def test_a_git_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = ProjectFolder(tmp_path)
    project.write("a", "1\n")
    project.commit()
    monkeypatch.setattr(git_process, "PATIENCE_S", 0.5)
    hanging = tmp_path / "bin" / "git"
    hanging.parent.mkdir()
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", str(hanging.parent), prepend=os.pathsep)

    with pytest.raises(HistoryError, match=r"git [\w-]+ took more than 0\.5 s"):
        project.history.commit(project.order())


def test_a_slow_git_gets_all_of_a_long_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ProjectFolder(tmp_path)
    names = [f"{'long' * 40}-{number}" for number in range(600)]  # more than a pipe holds
    for name in names:
        project.write(name, "1\n")
    monkeypatch.setattr(git_process, "SUSPICIOUS_S", 0.2)
    monkeypatch.setattr(git_process, "PATIENCE_S", 20.0)
    monkeypatch.setenv("PATH", project.before_git("update-index", "sleep 1"))

    assert project.commit().files == len(names)
