from pathlib import Path

import pytest

from safetyd.extras.file_history.history_records import HistoryError
from safetyd.extras.file_history.service.histories import FIRST, Histories
from tests.extras.file_history.project_folder import NOON
from tests.extras.file_history.service.history_rig import HistoryRig, project


def test_only_projects_that_ask_for_it_have_a_history(tmp_path: Path) -> None:
    projects = {"shop": project(tmp_path), "notes": project(tmp_path, history="off")}

    histories = Histories(tmp_path / "kept", projects)

    assert histories.names == ("shop",)
    with pytest.raises(HistoryError, match=r"'notes' has no file history"):
        histories.find("notes")


def test_errors_lead_back_only_where_the_project_says_so(tmp_path: Path) -> None:
    back = project(tmp_path, on_error="rollback")
    histories = Histories(tmp_path / "kept", {"shop": project(tmp_path), "api": back})

    assert [histories.rolls_back(name) for name in ("shop", "api", "none")] == [False, True, False]


def test_other_rules_change_what_has_a_history_and_locks_stay(tmp_path: Path) -> None:
    histories = Histories(tmp_path / "kept", {"shop": project(tmp_path)})
    lock = histories.lock("shop")

    histories.renew({"shop": project(tmp_path, on_error="rollback"), "api": project(tmp_path)})

    assert histories.names == ("shop", "api")
    assert histories.lock("shop") is lock
    assert histories.lock("api") is not lock


def test_a_project_says_how_long_an_action_waits_for_a_commit(tmp_path: Path) -> None:
    slow = project(tmp_path, before_irreversible=60.0)
    histories = Histories(tmp_path / "kept", {"shop": project(tmp_path), "api": slow})

    assert [histories.deadline_s(name) for name in ("shop", "api", "none")] == [10.0, 60.0, 10.0]


async def test_what_was_there_before_is_committed_once(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path)
    for text in ("begun\n", "changed\n"):
        rig.cart.write_text(text)
        await rig.histories.commit_first(NOON)

    (row,) = rig.histories.find("shop").rows()
    assert (row.agent, row.id, row.files) == ("", "", 1)
    assert FIRST in row.subject


async def test_what_agents_have_changed_is_left_to_their_own_commits(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path)
    rig.cart.write_text("begun\n")
    await rig.histories.commit_first(NOON, {"shop"})

    assert rig.histories.find("shop").rows() == []


async def test_a_project_that_cannot_be_committed_keeps_none_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = HistoryRig(tmp_path)
    gone = project(tmp_path / "gone")
    rig.cart.write_text("begun\n")
    rig.histories.renew({"gone": gone, "shop": project(rig.root)})
    await rig.histories.commit_first(NOON)

    assert "project gone was not committed" in caplog.text
    assert "Traceback" not in caplog.text
    assert len(rig.histories.find("shop").rows()) == 1
