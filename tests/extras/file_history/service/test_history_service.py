import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from safetyd.core.events.guard_events import Paused, Unpaused
from safetyd.core.events.history_events import (
    Committed,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
)
from safetyd.extras.file_history.history_records import CommitOrder
from safetyd.extras.file_history.service import history_service
from safetyd.operators.contract.history_contract import (
    CommitQuestion,
    CommitRow,
    CommitsQuestion,
    RollbackCommand,
)
from safetyd.operators.replies import CommandRefused
from tests.core.daily_report.day_events import folded
from tests.extras.file_history.service.history_rig import HistoryRig, at_work, project
from tests.story import propose


@pytest.fixture
def rig(tmp_path: Path) -> HistoryRig:
    return HistoryRig(tmp_path, errors_in_a_row=2)


async def two_commits(rig: HistoryRig) -> tuple[str, str]:
    rig.writes("one\n", id_="p1")
    await rig.sees(Committed, 1)
    rig.writes("two\n", id_="p2")
    first, second = await rig.sees(Committed, 2)
    return first.commit, second.commit


def back(commit: str, **fields: Any) -> RollbackCommand:
    return RollbackCommand(**{"commit": commit, "kind": "soft", "reason": "wrong way", **fields})


async def test_commits_come_newest_first_and_can_be_narrowed_down(rig: HistoryRig) -> None:
    async with at_work(rig):
        commits = await two_commits(rig)

        every = await rig.service.commits(CommitsQuestion())
        newest = await rig.service.commits(CommitsQuestion(project="shop", limit=1))
        nobody = await rig.service.commits(CommitsQuestion(agent="other"))

    assert {row.commit for row in every.commits} == set(commits)
    assert [row.id for row in every.commits] == ["p2", "p1"]
    assert [row.id for row in newest.commits] == ["p2"]
    assert nobody.commits == ()
    assert every.projects == ("shop",)


async def test_lists_of_several_projects_go_on_where_the_last_one_ended(rig: HistoryRig) -> None:
    """All commits are of the same second or of two, and none is listed twice or left out."""
    async with at_work(rig):
        await two_commits(rig)
        other = rig.root.with_name("other")
        other.mkdir()
        rig.histories.renew({"shop": project(rig.root), "other": project(other)})
        order = CommitOrder(why="after", at=rig.clock.now().at)
        for text in ("one", "two"):
            (other / "file").write_text(text)
            rig.histories.find("other").commit(order)

        whole = (await rig.service.commits(CommitsQuestion())).commits
        paged = list[CommitRow]()
        while not paged or len(paged) < len(whole):
            before = paged[-1].commit if paged else ""
            page = await rig.service.commits(CommitsQuestion(limit=1, before=before))
            paged += page.commits
        end = await rig.service.commits(CommitsQuestion(before=paged[-1].commit))

    assert (tuple(paged), len(whole), end.commits) == (whole, 4, ())


async def test_a_path_is_looked_for_where_it_is(rig: HistoryRig) -> None:
    async with at_work(rig):
        await two_commits(rig)
        other = rig.root.with_name("other")
        other.mkdir()
        rig.histories.renew({"shop": project(rig.root), "other": project(other)})
        found = await rig.service.commits(CommitsQuestion(path=str(rig.cart)))
        wrong = await rig.service.commits(CommitsQuestion(path=str(rig.cart), project="other"))

    assert ([row.id for row in found.commits], found.problems) == (["p2", "p1"], ())
    assert wrong.problems == (f"other: {str(rig.cart)!r} is not in {other}",)


async def test_a_project_whose_folder_is_gone_is_named_beside_what_others_have(
    rig: HistoryRig,
) -> None:
    async with at_work(rig):
        await two_commits(rig)
        gone = rig.root.with_name("gone")
        rig.histories.renew({"shop": project(rig.root), "gone": project(gone)})
        answer = await rig.service.commits(CommitsQuestion())

    assert len(answer.commits) == 2
    assert answer.problems == (f"gone: {gone} does not exist; fix root, or create the folder",)


async def test_a_commit_says_what_it_is_about_and_what_it_changed(rig: HistoryRig) -> None:
    async with at_work(rig):
        first, second = await two_commits(rig)
        found = await rig.service.commit(CommitQuestion(commit=second[:10]))
        between = await rig.service.commit(CommitQuestion(commit=second, other=first))

    assert found.project == "shop"
    assert "Safetyd-Proposal: p2" in found.message
    assert "-one\n+two" in found.diff
    assert "-two\n+one" in between.diff


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"commit": "0000000"}, "no project has a commit 0000000"),
        (
            {"commit": "0000000", "project": "shop"},
            "not a commit of this project|there is no commit yet",
        ),
        ({"commit": "0000000", "project": "bar"}, "project 'bar' has no file history"),
    ],
)
async def test_what_is_not_there_is_refused(
    rig: HistoryRig, fields: dict[str, str], why: str
) -> None:
    with pytest.raises(CommandRefused, match=why) as refused:
        await rig.service.commit(CommitQuestion(**fields))

    assert refused.value.code == "not_found"


async def test_a_commit_that_two_projects_have_needs_the_name_of_one(rig: HistoryRig) -> None:
    async with at_work(rig):
        first, _ = await two_commits(rig)
        one = rig.histories.find("shop")
        # The same folder under another name has a store of its own; both know this commit.
        rig.histories._known["twin"] = one

        with pytest.raises(CommandRefused, match="several projects have a commit"):
            await rig.service.commit(CommitQuestion(commit=first))


@pytest.mark.req("S2.22")
@pytest.mark.req("S2.47")
async def test_a_rollback_pauses_who_works_there_and_is_written_down(rig: HistoryRig) -> None:
    async with at_work(rig):
        first, second = await two_commits(rig)
        done = await rig.service.roll_back("alice", back(first, via="cli"))

        assert rig.cart.read_text() == "one\n"
        (event,) = rig.of(RolledBack)
        kinds = [type(e) for e in rig.happened if isinstance(e, Paused | RolledBack | Unpaused)]
        assert kinds == [Paused, RolledBack, Unpaused]
        assert (event.by, event.reason, event.via) == ("alice", "wrong way", "cli")
        assert (event.agents, done.agents, done.files) == (("code",), ("code",), 1)
        undone = await rig.service.roll_back("alice", back(done.kept))

    assert undone.ok
    assert rig.cart.read_text() == "two\n"
    assert second


async def test_of_a_rollback_and_one_that_changes_nothing_only_the_first_is_an_intervention(
    rig: HistoryRig,
) -> None:
    async with at_work(rig):
        first, _ = await two_commits(rig)
        done = await rig.service.roll_back("alice", back(first))
        again = await rig.service.roll_back("alice", back(first))

    assert (bool(done.made), bool(again.made)) == (True, False)
    assert len(rig.of(Unpaused)) == 2
    days = folded(*rig.happened).days.values()
    assert sum((Counter(day.interventions) for day in days), Counter()) == {"rolled_back": 1}


async def test_while_files_are_put_back_an_agent_is_told_why_it_waits(rig: HistoryRig) -> None:
    async with at_work(rig) as tasks:
        first, _ = await two_commits(rig)
        async with rig.histories.lock("shop"):
            tasks.start_soon(rig.service.roll_back, "alice", back(first))
            await rig.sees(Paused)
            moment = rig.clock.now()
            decision, _ = rig.engine.decide(propose(moment.t, "code", "p3"))
        await rig.sees(RolledBack)

    assert (decision.decision, decision.cause) == ("block", "paused")
    assert "project shop is being rolled back: wrong way" in decision.reason


async def test_a_rollback_that_is_refused_lets_agents_go_on(rig: HistoryRig) -> None:
    async with at_work(rig):
        first, _ = await two_commits(rig)
        with pytest.raises(CommandRefused, match="whole commits") as refused:
            await rig.service.roll_back("alice", back(first, kind="revert", paths=("cart.py",)))

    assert refused.value.code == "not_rolled_back"
    assert rig.of(RolledBack) == []
    assert [event.sources for event in rig.of(Unpaused)] == [("rollback",)]
    assert rig.cart.read_text() == "two\n"


@pytest.mark.req("S2.41")
async def test_errors_in_a_row_offer_the_last_good_commit_and_change_nothing(
    rig: HistoryRig,
) -> None:
    async with at_work(rig):
        _, second = await two_commits(rig)
        rig.writes("bad\n", ok=False)
        rig.writes("worse\n", ok=False)
        (offer,) = await rig.sees(RollbackOffered)

    assert (offer.commit, offer.errors) == (second, 2)
    assert rig.cart.read_text() == "worse\n"


@pytest.mark.req("S2.41")
async def test_errors_in_a_row_lead_back_where_the_project_says_so(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path, errors_in_a_row=2, on_error="rollback")
    async with at_work(rig):
        await two_commits(rig)
        rig.writes("bad\n", ok=False)
        rig.writes("worse\n", ok=False)
        (event,) = await rig.sees(RolledBack)

    assert (event.by, event.reason) == ("safetyd", "agent code had 2 errors in a row")
    assert rig.cart.read_text() == "two\n"


async def test_a_way_back_that_fails_is_an_event_and_the_next_is_tried(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path, on_error="rollback")
    moment = rig.clock.now()
    about: dict[str, Any] = {"project": "shop", "agent": "code", "errors": 3}
    async with at_work(rig):
        first, _ = await two_commits(rig)
        for commit in ("0" * 40, first):
            offer = RollbackOffered(at=moment.at, t=moment.t, commit=commit, **about)
            rig.service.offered(offer)
            await anyio.lowlevel.checkpoint()
        await rig.sees(RolledBack)

    (failed,) = rig.of(RollbackFailed)
    assert (failed.project, failed.commit, failed.agents) == ("shop", "0" * 40, ())
    assert "is not a commit of this project" in failed.error
    assert rig.cart.read_text() == "one\n"


async def test_a_commit_that_is_named_in_full_is_read_once(rig: HistoryRig) -> None:
    async with at_work(rig):
        first, second = await two_commits(rig)
        whole = await rig.service.commit(CommitQuestion(commit=second, project="shop"))
        short = await rig.service.commit(CommitQuestion(commit=first[:8], project="shop"))
        shutil.rmtree(rig.directory / "histories")

        assert await rig.service.commit(CommitQuestion(commit=second, project="shop")) == whole
        with pytest.raises(CommandRefused):
            await rig.service.commit(CommitQuestion(commit=first[:8], project="shop"))
        rig.histories.renew({})
        with pytest.raises(CommandRefused, match="has no file history"):
            await rig.service.commit(CommitQuestion(commit=second, project="shop"))

    assert short.diff


async def test_only_some_commits_are_remembered(
    rig: HistoryRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_service, "MAX_REMEMBERED", 1)
    async with at_work(rig):
        for commit in await two_commits(rig):
            await rig.service.commit(CommitQuestion(commit=commit, project="shop"))

    assert len(rig.service._known) == 1


async def test_after_half_a_way_back_agents_stay_paused_until_a_person_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = HistoryRig(tmp_path, errors_in_a_row=2, on_error="rollback")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *cat-file*) exit 1 ;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    async with at_work(rig):
        first, second = await two_commits(rig)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        rig.writes("bad\n", ok=False)
        rig.writes("worse\n", ok=False)
        (failed,) = await rig.sees(RollbackFailed)
        with pytest.raises(CommandRefused, match=r"stopped halfway.* stay paused") as refused:
            await rig.service.roll_back("alice", back(first, paths=("cart.py",)))

    assert (failed.commit, failed.agents) == (second, ("code",))
    assert rig.of(RollbackFailed)[1].paths == ("cart.py",), "it is repeated with its path"
    assert "stopped halfway" in failed.error
    assert refused.value.code == "half_rolled_back"
    assert rig.of(Unpaused) == rig.of(RolledBack) == []
