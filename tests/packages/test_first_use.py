"""What somebody does who knows only the README: from a fresh checkout to no trace of safetyd.

`make run`, then Claude Code is guarded in a repository of the user, asks, and is as before. The
commands are those of the documents.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.checkout import ROOT
from tests.conftest import LAST_WORD, environment
from tests.console.console_rig import at_a_terminal
from tests.documents.document_blocks import noted_block
from tests.hosts.real.host_programs import PROGRAMS
from tests.hosts.real.real_hosts import HostHome
from tests.journeys.agents import until

pytestmark = pytest.mark.packages

README: Final = ROOT / "README.md"
UNINSTALL: Final = noted_block(ROOT / "docs/install.md", "uninstall")
[PROGRAM] = (one for one in PROGRAMS if one.host == "claude-code" and one.version == "2.1.326")
PROTECT, APPROVE = (noted_block(README, note).strip() for note in ("hosts", "approve"))
RUN: Final = noted_block(README, "make").partition("#")[0].split()


class NewUser:
    """A fresh checkout, and a user with a repository who has never heard of safetyd."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "safetyd"
        self.home = HostHome(PROGRAM, folder)
        self.data_dir = self.home.home / ".local/state/safetyd"
        _check_out(self.checkout)

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run what the README says first, until it is ready. Yield what it printed."""
        variables = self._variables()
        with subprocess.Popen(
            RUN,
            cwd=self.checkout,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            try:
                yield "".join(iter(process.stdout.readline, f"{LAST_WORD.decode()}\n"))
            finally:
                os.killpg(process.pid, signal.SIGINT)  # Ctrl-C

    def types(
        self, command: str, typed: str = "", after: str = "", where: Path | None = None
    ) -> str:
        """Type a command in another terminal, by default in the user's repository."""
        activate, _init = noted_block(README, "activate").splitlines()
        there = where or self.home.project
        script = f"cd {self.checkout}\n{activate}\ncd {there}\n{command}"
        variables = self._variables()
        return at_a_terminal(
            *("-ec", script),
            program=["bash"],
            typed=typed,
            after=after,
            HOME=variables["HOME"],
            PATH=variables["PATH"],
        )

    def lets_claude(self, command: str) -> str:
        """Let Claude Code run a command in the user's repository, and return what it got."""
        results: list[str] = []

        def conversation() -> Conversation:
            results.append((yield self.home.headless.shell(command)))

        path = self._variables()["PATH"]
        self.home.run_script("claude -p 'Go on.'", conversation(), PATH=path)
        return "".join(results)

    def traces(self) -> list[Path]:
        """Return the files of the user that safetyd left, and the links into the checkout."""
        own = [path for path in self.home.home.rglob("*") if "safetyd" in path.name]
        return [*own, *self.home.project.rglob("*safetyd*")]

    def _variables(self) -> dict[str, str]:
        given = self.home.variables()
        ours = str(ROOT / ".venv")
        path = (one for one in given["PATH"].split(os.pathsep) if not one.startswith(ours))
        return {**given, "PATH": os.pathsep.join(path)}


def test_a_new_user_guards_claude_code_and_removes_safetyd_without_a_trace(tmp_path: Path) -> None:
    user = NewUser(tmp_path)
    with user.home.with_model():
        settings = user.home.files()
        with user.running() as started:
            assert "Profile strict: " in started
            assert "In another terminal:\n  . .venv/bin/activate\n  safetyd init\n" in started
            sets_up(user)
            asks_before_it_acts(user)
            assert "safetyd unprotect " in UNINSTALL
            user.types("safetyd unprotect", typed="y\n", after="[y/N]")
        shutil.rmtree(user.checkout)
        shutil.rmtree(user.data_dir)

    assert user.home.files() == settings
    assert user.traces() == []


def sets_up(user: NewUser) -> None:
    answered = user.types("safetyd init", typed="\n" * 4, after="[coding]: ", where=user.checkout)
    assert "project  none" in answered, "safetyd's checkout is not where agents work"
    assert "Reloaded." in answered
    protected = user.types(PROTECT, typed="y\n", after="[y/N]")
    assert "Claude Code 2.1.326 is guarded." in protected


def asks_before_it_acts(user: NewUser) -> None:
    assert "a.txt" in user.lets_claude("touch a.txt; ls")
    with ThreadPoolExecutor(1) as pool:
        pushing = pool.submit(user.lets_claude, "git push origin main")
        listed = "safetyd list --agent claude-code --json"
        until(lambda: "req_" in user.types(listed) or pushing.done())
        assert not user.home.pushed()
        approved = user.types(APPROVE, typed="y\n", after="[y/N]")
        assert "approved, once" in approved
        pushing.result()
    assert user.home.pushed()
    assert "run_shell" in user.types("safetyd decisions --agent claude-code")


def _check_out(folder: Path) -> None:
    """Make a repository with the files of this one."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(os.path.lexists, (ROOT / name for name in listed.stdout.splitlines())):
        copy = folder / Path(name).relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, copy, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
