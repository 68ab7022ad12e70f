"""The file history attributes each change to an agent, a human or a rollback."""

import json
from pathlib import Path
from typing import Final

import pytest

from safetyd.journal.audit import files as audit_files
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker
from tests.journeys.edited_project import CONFIG, PROJECT, Project
from tests.journeys.people import Listener, query

pytestmark = pytest.mark.journey

NAMES: Final = ("edited", "shell", "undone", "robot", "newest", "quick", "shared")


class Work:
    """A daemon with one project per test."""

    def __init__(self, daemon: RunningDaemon, root: Path) -> None:
        self.daemon = daemon
        self._root = root

    def project(self, name: str) -> Project:
        return Project(self.daemon, self._root, name)

    def rollback(self, commit: str, kind: str, *options: str) -> str:
        done = self.daemon.safetyd("rollback", commit, kind, *options, "--reason", "wrong way")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def interventions(self) -> dict[str, int]:
        """Return the interventions that today's report counts."""
        counted: dict[str, int] = query(self.daemon, "report")["report"]["override"]["by_kind"]
        return counted

    def recorded(self, event: str, project: str) -> list[dict[str, object]]:
        """Return the audit lines of an event in a project."""
        lines = (
            json.loads(line)
            for file in audit_files(self.daemon.data_dir / "audit")
            for line in file.read_text().splitlines()
        )
        return [
            line for line in lines if line.get("event") == event and line.get("project") == project
        ]


@pytest.fixture(scope="module")
def work(start_module_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory) -> Work:
    root = tmp_path_factory.mktemp("projects")
    config = CONFIG
    for name in NAMES:
        (root / name).mkdir()
        (root / name / "cart.py").write_text("begun\n")
        config += PROJECT.format(name=name, root=root)
        config += 'on_error = "rollback"\n' if name == "robot" else ""
    return Work(start_module_daemon(config), root)


def test_undoing_an_edit_restores_what_a_human_wrote(work: Work) -> None:
    project = work.project("edited")
    project.writes("e1", "v1 of the agent\n")
    project.commits(1)
    project.file.write_text("v2 of a human\n")
    project.writes("e2", "v3 of the agent\n")
    edit = project.commits(2)[0]

    said = work.rollback(edit["commit"], "--revert")

    assert project.file.read_text() == "v2 of a human\n"
    assert "  restored  cart.py" in said
    authors = [(row["author"], row["id"]) for row in project.rows()]
    assert authors[:4] == [("rollback", ""), ("agent", "e2"), ("human", ""), ("agent", "e1")]
    (found,) = [one for one in work.recorded("committed", "edited") if one["why"] == "before"]
    assert (found["id"], found["commit"]) == ("e2", project.rows()[2]["commit"])


def test_rapid_edits_are_all_committed(work: Work) -> None:
    project = work.project("quick")

    for number in range(4):
        project.writes(f"q{number}", f"version {number}\n")

    rows = project.commits(4)
    assert [row["id"] for row in rows] == ["q3", "q2", "q1", "q0"]
    work.rollback(rows[2]["commit"], "--soft")
    assert project.file.read_text() == "version 1\n"


def test_immediate_and_failed_changes_are_attributed_to_the_agent(work: Work) -> None:
    project = work.project("shell")
    (project.root / "notes").write_text("of a human\n")
    command = {"type": "run_shell", "text": "make build", "cwd": str(project.root)}
    with Asker(work.daemon, project.agent) as agent:
        until(lambda: query(work.daemon, "commits", project="shell")["commits"])
        for id_, ok in (("s1", False), ("s2", True)):
            assert agent.ask("propose", {**command, "id": id_})["decision"] == "allow"
            (project.root / id_).write_text("built\n")  # before a commit could see it
            agent.ask("telemetry", {"type": "outcome", "id": id_, "ok": ok})
            until(lambda id_=id_: [row["id"] for row in project.commits()][:1] == [id_])  # type: ignore[misc]

    own = {row["id"]: row for row in project.commits()}
    assert {id_: row["author"] for id_, row in own.items()} == {"s1": "agent", "s2": "agent"}
    for id_, row in own.items():
        assert f"+++ b/{id_}" in query(work.daemon, "commit", commit=row["commit"])["diff"]
    assert own["s2"]["files"] == 1
    subjects = [row["subject"] for row in project.rows()]
    assert any(subject.startswith("failed: ") for subject in subjects)


def test_changes_of_agents_that_work_at_the_same_time_have_the_right_author(work: Work) -> None:
    project = work.project("shared")
    other = Project(work.daemon, project.root.parent, "shared")
    other.agent = "good"
    build = {"type": "run_shell", "text": "make build", "cwd": str(project.root)}
    edit = {"type": "edit_file", "paths": [str(project.file)], "text": "edited\n"}
    with Asker(work.daemon, project.agent) as wild, Asker(work.daemon, other.agent) as good:
        until(project.rows)
        for agent, id_, action in (
            (wild, "edit", edit),
            (good, "think", {"type": "model_call", "model": "m", "project": "shared"}),
            (good, "build", build),
            (wild, "test", {**build, "text": "make test"}),
        ):
            assert agent.ask("propose", {**action, "id": id_})["decision"] == "allow"
        project.file.write_text("edited\n")
        (project.root / "made").write_text("by one of them\n")
        for agent, id_ in ((good, "think"), (good, "build"), (wild, "edit"), (wild, "test")):
            agent.ask("telemetry", {"type": "outcome", "id": id_, "ok": True})
        until(lambda: len(project.rows()) == 3)

    mine, unknown, _ = project.rows()
    assert (mine["author"], mine["agent"], mine["id"]) == ("agent", "shared-coder", "edit")
    assert "+++ b/cart.py" in query(work.daemon, "commit", commit=mine["commit"])["diff"]
    assert (unknown["author"], unknown["agent"], unknown["files"]) == ("unknown", "", 1)
    assert unknown["subject"] == "unknown: changes while good and shared-coder were working"


def test_a_rollback_is_its_own_commit_and_not_attributed_to_the_next_agent(
    work: Work,
) -> None:
    project = work.project("undone")
    project.writes("u1", "good\n")
    project.commits(1)
    project.writes("u2", "bad\n")
    newest, good = project.commits(2)
    work.rollback(good["commit"][:8], "--soft")
    project.writes("u3", "more\n", path="more")
    mine = project.commits(3)[0]

    assert (mine["id"], mine["files"]) == ("u3", 1)
    back = project.rows()[1]
    assert (back["author"], back["approver"], back["files"]) == ("rollback", "local", 1)
    listed = work.daemon.safetyd("history", "--project", "undone").stdout
    assert "rollback by local" in listed
    assert "`safetyd rollback COMMIT --soft" in listed
    (line,) = work.recorded("rolled_back", "undone")
    ids = [line[name] for name in ("commit", "kept", "made")]
    assert ids == [good["commit"], newest["commit"], back["commit"]]
    work.rollback(mine["commit"], "--revert")
    assert project.file.read_text() == "good\n"


def test_an_automatic_rollback_does_not_count_as_an_intervention(work: Work) -> None:
    project = work.project("robot")
    project.writes("r1", "good\n")
    project.commits(1)
    before = work.interventions()
    with Listener(work.daemon) as person:
        project.writes("r2", "bad\n", ok=False)
        project.writes("r3", "worse\n", ok=False)
        person.hear("ROLLED_BACK", None)
    assert project.file.read_text() == "good\n"

    newest = project.rows()[0]
    assert (newest["author"], newest["approver"]) == ("automatic_rollback", "safetyd")
    assert "automatic rollback" in work.daemon.safetyd("history", "--project", "robot").stdout
    assert work.interventions() == before


def test_rolling_back_to_the_newest_commit_changes_nothing(work: Work) -> None:
    project = work.project("newest")
    project.writes("n1", "one\n")
    newest = project.commits(1)[0]["commit"]

    said = work.rollback(newest, "--soft")

    assert said.startswith(f"Nothing to change in newest: this is the state after {newest[:12]}.")
    assert "use --revert" in said
    assert work.recorded("rolled_back", "newest") == []
    project.writes("n2", "two\n")  # no agent is paused
