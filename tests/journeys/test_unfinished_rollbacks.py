"""Unfinished rollbacks and failing file histories are recorded and shown with a fix."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import StartDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker
from tests.journeys.edited_project import CONFIG, PROJECT, Project
from tests.journeys.people import Listener, query
from tests.journeys.slow_git import SlowGit
from tests.journeys.test_full_disk import IN_NAMESPACE, run_in_namespace

pytestmark = pytest.mark.journey

FILES: Final = 30
ROOM: Final = 12  # files and folders that fit on the project's disk


@pytest.fixture
def project_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """A folder `shop` on a small disk of its own, or None as in `small_disk`."""
    (disk := tmp_path / "shop").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode == 0:
        yield tmp_path
        subprocess.run(["umount", str(disk)], check=True)
    else:
        assert IN_NAMESPACE not in os.environ, mounted.stderr
        run_in_namespace(request)
        yield None


def deletes_everything(project: Project) -> None:
    """Let the agent delete all files in its folder."""
    action = {"type": "run_shell", "text": "make clean", "cwd": str(project.root), "id": "d"}
    with Asker(project.daemon, project.agent) as agent:
        assert agent.ask("propose", action)["decision"] == "allow"
        for file in project.root.glob("file*"):
            file.unlink()
        agent.ask("telemetry", {"type": "outcome", "id": "d", "ok": True})


def test_an_unfinished_rollback_is_recorded_and_shown_until_finished(
    project_disk: Path | None, start_daemon: StartDaemon
) -> None:
    if project_disk is None:
        return
    root = project_disk
    for number in range(FILES):
        (root / "shop" / f"file{number:02}").write_text("kept\n")
    daemon = start_daemon(CONFIG + PROJECT.format(name="shop", root=root))
    project = Project(daemon, root, "shop")
    until(project.rows)
    deletes_everything(project)
    deleting = project.commits(1)[0]["commit"]
    resize(root / "shop", ROOM)

    with Listener(daemon) as person:
        done = daemon.safetyd("rollback", deleting, "--revert", "--reason", "bring them back")
        told = person.hear("ROLLBACK_FAILED", None)

    back = len(list(project.root.glob("file*")))
    assert 0 < back < FILES
    assert done.returncode == 1
    assert f"{back} of {FILES} files are restored" in done.stderr
    assert f"{back} of {FILES} files are restored" in told["reason"]
    status = daemon.safetyd("status").stdout
    assert "ROLLBACK NOT FINISHED: project shop: stopped halfway" in status
    command = f"safetyd rollback {deleting[:12]} --revert --project shop --reason WHY"
    assert command in status
    report = query(daemon, "report")["report"]
    assert [found["rule"] for found in report["found"]] == ["rollback"]
    assert project.rows()[0]["author"] == "rollback", "not the next one's changes"

    resize(root / "shop", 10 * FILES)
    finished = daemon.safetyd(*command.split()[1:])
    assert finished.returncode == 0, finished.stderr
    assert len(list(project.root.glob("file*"))) == FILES
    assert "All is well" in daemon.safetyd("status").stdout


def resize(disk: Path, inodes: int) -> None:
    options = f"remount,nr_inodes={inodes}"
    subprocess.run(["mount", "-o", options, str(disk)], check=True)


def test_a_rollback_interrupted_by_the_end_of_the_daemon_is_noticed_and_shown(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    git = SlowGit(tmp_path)
    (tmp_path / "shop").mkdir()
    daemon = start_daemon(CONFIG + PROJECT.format(name="shop", root=tmp_path), git.variables)
    project = Project(daemon, tmp_path, "shop")
    for count, (path, text) in enumerate(
        (("cart.py", "1\n"), ("cart.py", "2\n"), ("notes", "3\n"))
    ):
        project.writes(f"p{count}", text, path=path)
        project.commits(count + 1)
    first = project.commits()[2]["commit"]
    limited = (first, "--soft", "cart.py", "--project", "shop", "--reason", "r")
    said: list[subprocess.CompletedProcess[str]] = []

    def roll_back() -> None:
        said.append(daemon.safetyd("rollback", *limited))

    person = threading.Thread(target=roll_back)
    with Listener(daemon) as listener:
        git.hold()
        person.start()
        listener.hear("AGENT_PAUSED", project.agent)
    daemon.kill()
    person.join(60)
    git.let_go()
    assert said, "the command does not wait for the answer of a daemon that is not there"
    assert said[0].returncode != 0
    assert "`safetyd status`" in said[0].stderr

    daemon.start()
    until(lambda: "safetyd ended during the rollback" in daemon.safetyd("status").stdout)
    command = f"safetyd rollback {first[:12]} --soft cart.py --project shop --reason WHY"
    assert f"`{command}`" in daemon.safetyd("status").stdout
    assert daemon.safetyd(*command.split()[1:]).returncode == 0
    assert project.file.read_text() == "1\n"
    assert (project.root / "notes").read_text() == "3\n", "the rollback is limited to a path"
    project.writes("p4", "three\n")  # no agent is paused any more


def test_undoing_a_finished_rollback_restores_the_state_before_the_first_attempt(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    git = SlowGit(tmp_path)
    (tmp_path / "shop").mkdir()
    daemon = start_daemon(CONFIG + PROJECT.format(name="shop", root=tmp_path), git.variables)
    project = Project(daemon, tmp_path, "shop")
    files = [project.root / f"file{number:02}" for number in range(FILES)]

    def hold(text: str) -> int:
        return sum(file.read_text() == text for file in files)

    for file in files:
        file.write_text("old\n")
    project.writes("p1", "one\n")
    old = project.commits(1)[0]["commit"]
    for file in files:
        file.write_text("of a human\n")
    git.hold_after(ROOM)
    order = ("rollback", old, "--soft", "--project", "shop", "--reason", "r")
    person = threading.Thread(target=daemon.safetyd, args=order)
    person.start()
    until(lambda: hold("old\n") == ROOM)
    daemon.kill()
    person.join(60)
    git.let_go()

    daemon.start()
    until(lambda: "safetyd ended during the rollback" in daemon.safetyd("status").stdout)
    until(lambda: project.rows()[0]["author"] == "rollback")
    (project.root / "notes").write_text("of a human\n")
    finished = daemon.safetyd(*order)
    assert hold("old\n") == FILES
    rows = [(row["author"], row["files"]) for row in project.rows()][:4]
    assert rows == [
        ("rollback", FILES - ROOM + 1),
        ("human", 1),  # the notes
        ("rollback", ROOM),
        ("human", FILES),
    ]
    assert "as the unfinished rollback" in project.rows()[2]["subject"]

    (undo,) = [line for line in finished.stdout.splitlines() if line.startswith("To undo this: ")]
    daemon.safetyd(*undo.removeprefix("To undo this: safetyd ").split())
    assert hold("of a human\n") == FILES


def test_status_shows_a_failing_file_history_and_doctor_a_folder_replaced_by_a_symlink(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    (tmp_path / "shop").mkdir()
    daemon = start_daemon(CONFIG + PROJECT.format(name="shop", root=tmp_path))
    project = Project(daemon, tmp_path, "shop")
    project.writes("p1", "one\n")
    project.commits(1)
    assert "All is well" in daemon.safetyd("status").stdout

    project.root.rename(tmp_path / "elsewhere")
    project.root.symlink_to(tmp_path / "elsewhere")
    with Listener(daemon) as person:
        project.writes("p2", "two\n")
        person.hear("COMMIT_FAILED", project.agent)

    status = daemon.safetyd("status").stdout
    assert "All is well" not in status
    assert f"NOT COMMITTED: project shop: {project.root} is a link now" in status
    doctor = daemon.safetyd("doctor", "--config", str(daemon.config_path))
    assert f"shop: {project.root} is a link now" in doctor.stdout

    project.root.unlink()
    (tmp_path / "elsewhere").rename(project.root)
    project.writes("p3", "three\n")
    project.commits(2)
    assert "All is well" in daemon.safetyd("status").stdout
