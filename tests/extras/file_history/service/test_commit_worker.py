import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from safetyd.core.events.event import Event
from safetyd.core.events.history_events import CommitDue, CommitFailed, Committed
from safetyd.core.policy import Configured
from safetyd.extras.file_history.service import commit_worker
from safetyd.operators.contract.history_contract import CommitsQuestion
from tests.extras.file_history.service.history_rig import HistoryRig, at_work, project
from tests.servers import until
from tests.story import propose


@pytest.fixture
def rig(tmp_path: Path) -> HistoryRig:
    return HistoryRig(tmp_path)


async def test_what_an_action_left_is_committed_and_the_event_names_it(rig: HistoryRig) -> None:
    async with at_work(rig):
        rig.writes("one\n", id_="p1")
        (made,) = await rig.sees(Committed)

    (row,) = rig.histories.find("shop").rows()
    assert (made.commit, made.id, made.why) == (row.commit, "p1", "after")
    assert (made.files, made.added, made.removed) == (1, 1, 0)
    assert rig.engine.records.file_commits.due == ()


async def test_an_action_that_changed_nothing_makes_no_commit(rig: HistoryRig) -> None:
    async with at_work(rig):
        rig.writes("one\n")
        rig.writes("one\n")
        first, second = await rig.sees(Committed, 2)

    assert first.commit
    assert (second.commit, second.files) == ("", 0)
    assert len(rig.histories.find("shop").rows()) == 1


async def test_changes_that_became_one_commit_all_name_it(rig: HistoryRig) -> None:
    for text in ("one\n", "two\n", "three\n"):
        rig.writes(text)
    async with at_work(rig):
        first, *others = await rig.sees(Committed, 3)
        rig.writes("three\n")
        *_, later = await rig.sees(Committed, 4)

    assert [(event.commit, event.within) for event in others] == [("", first.commit)] * 2
    assert (first.within, later.commit, later.within) == ("", "", "")


async def test_a_commit_that_cannot_be_made_is_told_and_retried_and_the_next_is_made(
    rig: HistoryRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_worker, "RETRY_S", 0.01)
    elsewhere = rig.root.with_name("elsewhere")
    async with at_work(rig):
        first = rig.writes("one\n")
        rig.root.rename(elsewhere)
        (failed,) = await rig.sees(CommitFailed)
        elsewhere.rename(rig.root)
        (retried,) = await rig.sees(Committed)
        rig.writes("two\n")
        _, made = await rig.sees(Committed, 2)

    assert f"{rig.root} does not exist" in failed.error
    assert (failed.project, failed.agent) == ("shop", "code")
    assert (retried.id, retried.files, rig.engine.records.file_commits.failed) == (first, 1, ())
    assert made.commit


async def test_what_was_due_at_the_end_of_a_daemon_is_made_at_the_next_start(
    rig: HistoryRig,
) -> None:
    rig.writes("one\n", id_="p1")
    rig.worker = rig.new_worker()  # the one before never ran

    async with at_work(rig):
        (made,) = await rig.sees(Committed)

    assert made.id == "p1"
    assert made.commit


async def test_an_action_that_needs_no_commit_begins_at_once(rig: HistoryRig) -> None:
    begun: list[str] = []
    async with at_work(rig):
        await anyio.lowlevel.checkpoint()
        rig.begins("p1", lambda: begun.append("p1"))

        assert begun == ["p1"]


async def test_an_action_begins_after_the_commit_before_it(rig: HistoryRig) -> None:
    rig.cart.write_text("one\n")
    begun: list[list[Event]] = []

    async with at_work(rig):
        await anyio.lowlevel.checkpoint()
        rig.due("p1")
        for _ in range(2):  # who asks again waits for the same commit
            rig.begins("p1", lambda: begun.append(rig.of(Committed)))
        before = list(begun)
        await rig.sees(Committed)
        rig.begins("p1", lambda: begun.append([]))

    assert before == []
    assert [len(made) for made in begun] == [1, 1, 0]
    assert rig.flushed
    (row,) = rig.histories.find("shop").rows()
    assert (row.id, row.approver) == ("p1", "alice")


async def test_an_action_begins_when_the_commit_before_it_cannot_be_made(rig: HistoryRig) -> None:
    begun: list[str] = []
    rig.root.rename(rig.root.with_name("elsewhere"))

    async with at_work(rig):
        await anyio.lowlevel.checkpoint()
        rig.due("p1")
        rig.begins("p1", lambda: begun.append("p1"))
        await rig.sees(CommitFailed)

    assert begun == ["p1"]


async def test_an_action_begins_when_the_commit_before_it_takes_too_long(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path, before_irreversible=0.01)
    begun: list[str] = []
    rig.cart.write_text("one\n")

    async with at_work(rig), rig.histories.lock("shop"):  # somebody else is at it
        await anyio.lowlevel.checkpoint()
        rig.due("p1")
        rig.begins("p1", lambda: begun.append("p1"))
        (late,) = await rig.sees(CommitFailed)
        assert begun == ["p1"]
        (due,) = rig.engine.records.file_commits.due

    assert "longer than 0.01 s" in late.error
    assert due.id == "p1", "it is made all the same"


async def test_another_configuration_says_what_is_committed(rig: HistoryRig) -> None:
    moment = rig.clock.now()
    (notes := rig.root.with_name("notes")).mkdir()
    (notes / "a").write_text("a\n")
    policy = type(rig.engine.policy)(projects={"notes": project(notes)})
    about: dict[str, Any] = {"policy": policy, "digest": "d", "version": "1", "why": "reload"}
    rig.worker.observe([Configured(at=moment.at, t=moment.t, **about)])

    async with at_work(rig):
        rig.due("p1", "after", "shop")
        (failed,) = await rig.sees(CommitFailed)
        rig.due("p2", "after", "notes")
        (made,) = await rig.sees(Committed)

    assert "has no file history" in failed.error
    assert made.project == "notes"
    assert [due.id for due in rig.of(CommitDue)] == ["p1", "p2"]


def repository(root: Path, commondir: bytes) -> None:
    """Make what looks like the repository of a worktree, and leads somewhere."""
    (git := root / ".git").mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "commondir").write_bytes(commondir)


async def test_a_folder_that_nobody_can_deal_with_fails_alone(rig: HistoryRig) -> None:
    repository(rig.root, b"a\0b\n")
    async with at_work(rig):
        rig.writes("one\n")
        (failed,) = await rig.sees(CommitFailed)
        answer = await rig.service.commits(CommitsQuestion())
        shutil.rmtree(rig.root / ".git")
        rig.writes("two\n")
        _, made = await rig.sees(Committed, 2)

    assert "ValueError" in failed.error
    assert answer.ok
    assert made.commit


@contextlib.contextmanager
def deep_folders(root: Path) -> Iterator[None]:
    """Have folders in folders, more than a program can call itself."""
    with contextlib.chdir(root):
        for _ in range(1500):
            os.mkdir("d")  # noqa: PTH102 - a whole path would be too long
            os.chdir("d")
        Path("x").write_text("x")
    yield
    subprocess.run(["rm", "-rf", root / "d"], check=True)


async def test_a_folder_as_deep_as_can_be_ends_nothing(rig: HistoryRig) -> None:
    with deep_folders(rig.root):
        async with at_work(rig):
            rig.writes("one\n")
            await until(lambda: rig.of(CommitFailed) or rig.of(Committed))
            assert (await rig.service.commits(CommitsQuestion())).ok


async def test_a_project_that_takes_long_holds_up_no_other(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path)
    (notes := rig.root.with_name("notes")).mkdir()
    (notes / "a").write_text("a\n")
    both = {**rig.engine.policy.projects, "notes": project(notes)}
    rig.histories.renew(both)

    async with at_work(rig), rig.histories.lock("shop"):
        rig.due("p1", "after", "shop")
        rig.due("p2", "after", "notes")
        (made,) = await rig.sees(Committed)

    assert made.project == "notes"


async def allowed(rig: HistoryRig, id_: str) -> list[str]:
    """Let an edit of the cart be allowed; return what the cart holds when the allow leaves."""
    moment = rig.clock.now()
    fields: dict[str, Any] = {"type": "edit_file", "paths": (str(rig.cart),), "text": id_}
    rig.note(rig.engine.decide(propose(moment.t, "code", id_, **fields))[1])
    left = list[str]()
    rig.begins(id_, lambda: left.append(rig.cart.read_text()))
    await until(lambda: bool(left))
    return left


async def test_an_edit_waits_until_a_humans_version_is_committed_and_a_retry_does_not_look(
    rig: HistoryRig,
) -> None:
    async with at_work(rig):
        rig.writes("one\n", id_="p1")
        await rig.sees(Committed, 1)
        rig.cart.write_text("of a human\n")
        await allowed(rig, "p2")
        _, found = await rig.sees(Committed, 2)
        rig.cart.write_text("begun by the agent\n")
        await allowed(rig, "p2")  # the answer was lost, and the agent asks again
        async with rig.histories.lock("shop"):
            rows = rig.histories.find("shop").rows()

    assert (found.why, found.id, found.due, found.files) == ("before", "p2", 0, 1)
    assert [row.author for row in rows] == ["human", "agent"]


async def test_an_edit_begins_if_a_humans_version_cannot_be_committed_and_people_are_told(
    rig: HistoryRig,
) -> None:
    async with at_work(rig):
        rig.writes("one\n", id_="p1")
        await rig.sees(Committed, 1)
        rig.cart.write_text("of a human\n")
        shutil.rmtree(rig.directory / "histories" / "shop" / "shop-shadow.git" / "objects")
        await allowed(rig, "p2")
        (failed,) = await rig.sees(CommitFailed, 1)

    assert (failed.project, failed.id, failed.due) == ("shop", "p2", 0)
