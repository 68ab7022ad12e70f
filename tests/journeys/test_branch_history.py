"""Commits on the user's own branch, and the way back that moves it, through a whole daemon."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.conftest import RunningDaemon, StartDaemon
from tests.history.project_folder import USER
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker
from tests.journeys.control_room import Room
from tests.journeys.people import Listener, query
from tests.web.axe_findings import grave_findings

pytestmark = pytest.mark.journey

CONFIG = """
profile = "coding"
[projects.api]
root = "{root}"
agents = ["code"]
history = "branch"
"""


class Repository:
    """A repository whose branch has a commit of the user's and two of an agent's."""

    def __init__(self, daemon: RunningDaemon, root: Path) -> None:
        self.daemon = daemon
        self.root = root
        self.file = root / "cart.py"
        self.writes("one\n")
        self.writes("two\n")

    def writes(self, text: str) -> None:
        """Let the agent change the file, and wait for the commit."""
        count = len(self.commits())
        with Asker(self.daemon) as agent:
            action = {"type": "edit_file", "paths": [str(self.file)], "text": text}
            decision = agent.ask("propose", {**action, "description": f"write {text}"})
            assert decision["decision"] == "allow", decision
            self.file.write_text(text)
            agent.ask("telemetry", {"type": "outcome", "id": decision["id"], "ok": True})
        until(lambda: len(self.commits()) == count + 1)

    def commits(self) -> list[dict[str, Any]]:
        return list(query(self.daemon, "commits", project="api")["commits"])

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "refs/heads/main")


def git(root: Path, *arguments: str) -> str:
    """Run the user's git."""
    command = ["git", "-C", str(root), *arguments]
    environment = {**os.environ, **USER}
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
    return done.stdout.strip()


@pytest.fixture
def repository(start_daemon: StartDaemon, tmp_path: Path) -> Repository:
    root = tmp_path / "api"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "readme").write_text("by the user\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return Repository(start_daemon(CONFIG.format(root=root)), root)


@pytest.mark.req("S2.22")
def test_hard_moves_the_branch_and_what_was_there_is_one_rollback_away(
    repository: Repository,
) -> None:
    newest, first = repository.commits()
    subjects = repository.git("log", "--format=%an %s", "main").splitlines()
    assert [subject.partition(" ")[0] for subject in subjects] == ["safetyd", "safetyd", "Ada"]
    assert repository.head == newest["commit"]
    assert repository.git("status", "--porcelain") == ""
    repository.file.write_text("not committed by anybody\n")

    with Listener(repository.daemon) as person:
        order = (first["commit"][:12], "--hard", "--confirm", "HARD", "--reason", "wrong way")
        done = repository.daemon.safetyd("rollback", *order)
        told = person.hear("ROLLED_BACK", None)

    assert done.returncode == 0, done.stderr
    assert told["metadata"]["kind"] == "hard"
    assert repository.head == first["commit"]
    assert repository.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert repository.file.read_text() == "one\n"
    assert repository.git("status", "--porcelain") == ""
    kept = told["metadata"]["kept"]
    assert repository.git("show", f"{kept}:cart.py") == "not committed by anybody"
    assert repository.git("rev-parse", f"{kept}^") == newest["commit"]

    undo = done.stdout.split("To undo it: safetyd ")[1].split()
    undone = repository.daemon.safetyd(*undo)

    assert undone.returncode == 0, undone.stderr
    assert repository.file.read_text() == "not committed by anybody\n"
    assert repository.head == kept
    repository.writes("three\n")  # and work goes on, on the same branch
    assert repository.git("rev-parse", "main^") == kept


def test_without_the_word_the_branch_stays(repository: Repository) -> None:
    newest, first = repository.commits()

    done = repository.daemon.safetyd("rollback", first["commit"], "--hard", "--reason", "r")

    assert done.returncode == 1
    assert "--hard needs the word HARD" in done.stderr
    assert repository.head == newest["commit"]
    assert repository.file.read_text() == "two\n"


async def test_the_control_room_moves_a_branch_after_the_word_was_typed(
    repository: Repository, browser: Browser
) -> None:
    newest, first = repository.commits()
    page_of = f"/history/{first['commit']}?project=api"
    async with Room(repository.daemon, browser).visit(page_of) as page:
        await page.click("#rollback summary")
        assert await grave_findings(page) == []
        await page.select_option("#rollback select[name=kind]", "hard")
        await page.fill("#rollback input[name=reason]", "wrong way")
        await page.fill("#rollback input[name=word]", "hard")
        await page.click("#rollback button")
        await expect(page.locator("#note")).to_contain_text("to move the branch, type HARD")
        assert repository.head == newest["commit"]

        await page.select_option("#rollback select[name=kind]", "hard")
        await page.fill("#rollback input[name=reason]", "wrong way")
        await page.fill("#rollback input[name=word]", "HARD")
        await page.click("#rollback button")
        await expect(page.locator("#note")).to_contain_text("Files: 1 restored.")

    assert repository.head == first["commit"]
    assert repository.file.read_text() == "one\n"
