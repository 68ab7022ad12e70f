"""What a history tells of itself, and what keeps it from working."""

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from safetyd.bus.publisher import MAX_ANSWER_BYTES
from safetyd.extras.file_history import commit_reading
from safetyd.extras.file_history.history_records import HistoryError, PathElsewhere
from safetyd.extras.file_history.project_history import ProjectHistory
from safetyd.operators.contract.history_contract import CommitRow
from tests.extras.file_history.project_folder import NOON, ProjectFolder


def test_a_row_says_which_decision_made_which_change(project: ProjectFolder) -> None:
    project.write("a", "1\n2\n")
    project.commit()
    project.write("a", "1\n3\n4\n")
    project.write("b", "1\n")
    about: dict[str, Any] = {"id": "p1", "decision": 42, "action": "write_file", "approver": "ada"}
    made = project.commit(agent="night", session="s2", ticket="T-1", at=NOON, **about)

    assert project.history.rows(1) == [
        CommitRow(
            project="shop",
            commit=made.commit,
            author="agent",
            at=NOON,
            agent="night",
            session="s2",
            files=2,
            added=3,
            removed=1,
            subject="feat: T-1 does it",
            **about,
        )
    ]
    assert made[1:] == (2, 3, 1, ())


def test_rows_are_the_newest_of_an_agent_or_session(project: ProjectFolder) -> None:
    made = []
    for number, (agent, session) in enumerate(
        [("code", "s1"), ("night", "s2"), ("code", "s3"), ("night", "s4")]
    ):
        project.write("a", f"{number}\n")
        made.append(project.commit(agent=agent, session=session).commit)

    def listed(limit: int = 20, **wanted: Any) -> list[str]:
        return [row.commit for row in project.history.rows(limit, **wanted)]

    assert listed() == made[::-1]
    assert listed(2) == [made[3], made[2]]
    assert listed(agent="code") == [made[2], made[0]]
    assert listed(agent="night", session="s2") == [made[1]]
    assert listed(agent="nobody") == []


def test_rows_are_those_that_changed_a_file_or_folder(project: ProjectFolder) -> None:
    names = ("data/orders.csv", "database", "--all", ":(glob)*", "*")
    made = {}
    for name in names:
        project.write(name, "1\n")
        made[name] = project.commit().commit
    (project.root / "data/orders.csv").unlink()
    deleted = project.commit().commit

    def listed(path: str) -> list[str]:
        return [row.commit for row in project.history.rows(path=path)]

    assert listed("data/orders.csv") == listed("data") == [deleted, made["data/orders.csv"]]
    assert listed(str(project.root / "database")) == [made["database"]]
    assert [listed(name) for name in names[2:]] == [[made[name]] for name in names[2:]]
    assert listed("nowhere") == []
    assert len(listed(".")) == len(names) + 1
    with pytest.raises(PathElsewhere, match="is not in"):
        listed("../other")


def test_rows_of_a_subfolder_are_found_by_paths_below_it(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = ProjectFolder(tmp_path, root="project/part")
    project.write("a", "1\n")
    made = project.commit()

    assert [row.commit for row in project.history.rows(path="a")] == [made.commit]


def test_rows_go_on_before_a_commit_and_keep_to_a_time(project: ProjectFolder) -> None:
    made = []
    for number in range(4):
        project.write("a", f"{number}\n")
        made.append(project.commit().commit)
    rows = project.history.rows()

    assert project.history.rows(2, before=rows[0].commit[:10]) == rows[1:3]
    assert project.history.rows(before=rows[3].commit) == []
    assert project.history.rows(since=rows[1].at) == rows[:2]
    assert project.history.rows(until=rows[1].at) == rows[1:]
    with pytest.raises(HistoryError, match="is not a commit of this project"):
        project.history.rows(before="abcd")


def test_a_history_without_commits_is_empty(project: ProjectFolder) -> None:
    assert project.history.rows() == []
    project.history.commit(project.order())
    assert project.history.rows() == []
    with pytest.raises(HistoryError, match="'abcd' is not a commit of this project"):
        project.history.show("abcd")


@pytest.mark.parametrize(("also", "kind"), [("memory/y", "state: code"), ("memory.txt", "feat:")])
def test_a_change_of_state_alone_is_called_so(project: ProjectFolder, also: str, kind: str) -> None:
    project.write("memory/x", "1\n")
    project.write(also, "1\n")
    project.commit()

    assert project.history.rows()[0].subject.startswith(kind)


def test_a_commit_is_shown_with_its_files(project: ProjectFolder) -> None:
    project.write("a", "1\n")
    made = project.commit(id="p1")

    shown = project.history.show(made.commit[:8])

    assert "Safetyd-Proposal: p1" in shown
    assert " a | 1 +" in shown


def test_a_diff_is_of_one_commit_or_between_two(project: ProjectFolder) -> None:
    commits = []
    for number in range(3):
        project.write("a", f"{number}\n")
        commits.append(project.commit().commit)

    assert "+0\n" in project.history.diff(commits[0])
    assert "-1\n+2\n" in project.history.diff(commits[2])
    assert "-2\n+0\n" in project.history.diff(commits[2], commits[0])


def test_attributes_hide_nothing_from_a_diff(project: ProjectFolder) -> None:
    project.write(".gitattributes", "* -diff binary\n")
    project.write("a", "seen\n")

    assert "+seen\n" in project.history.diff(project.commit().commit)


def test_a_long_diff_is_cut_and_says_what_shows_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ProjectFolder(tmp_path / "it's")
    monkeypatch.setattr(commit_reading, "MAX_DIFF", 2048)
    project.user_commits()
    project.write("a", "line\n" * 10_000)

    shown = project.history.diff(project.commit().commit)

    assert len(shown) < 2500
    text, _, said = shown.rpartition("\n[cut after 2 KiB; for the whole diff, run: ")
    assert text.endswith("+line\n")
    assert project.git(*shlex.split(said.removesuffix("]\n"))[1:]).count("+line") == 10_000


def test_what_is_longer_as_json_is_cut_so_that_it_fits_into_an_answer(
    project: ProjectFolder,
) -> None:
    project.write("a", "\x1b[31mred\n" * 20_000)
    project.write("b", "\x01" * 300_000)

    made = project.commit(description="\x1b" * 4000)
    answer = {
        "message": project.history.show(made.commit),
        "diff": project.history.diff(made.commit),
    }

    assert "for the whole diff, run: git" in answer["diff"]
    assert len(msgspec.json.encode(answer)) < MAX_ANSWER_BYTES


def test_a_good_folder_has_no_problems(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path)
    bare = ProjectFolder(tmp_path / "other", repository=False)

    assert project.history.problems() == bare.history.problems() == []


def test_a_folder_that_cannot_be_kept_is_named(project: ProjectFolder) -> None:
    def problem(root: Path, store: Path = project.store) -> str:
        history = ProjectHistory("x", root, (), store)
        (found,) = history.problems()
        return found

    file = project.write("file", "x\n")
    bare = project.top.parent / "bare.git"
    project.git("init", "-q", "--bare", str(bare), at=project.top.parent)

    assert "missing does not exist; fix root" in problem(project.root / "missing")
    assert "file is not a folder" in problem(file)
    assert "is in a bare repository" in problem(bare)
    assert "is in a bare repository" in problem(project.root / ".git" / "refs")
    assert "contains safetyd's own" in problem(project.root, project.root / "data")
    with pytest.raises(HistoryError, match="missing does not exist"):
        ProjectHistory("x", project.root / "missing", (), project.store).commit(project.order())
