from pathlib import Path

import pytest

from safetyd.history.project_history import HistoryError
from safetyd.history.service.histories import Histories
from tests.history.service.history_rig import project


def test_only_projects_that_ask_for_it_have_a_history(tmp_path: Path) -> None:
    projects = {"shop": project(tmp_path), "notes": project(tmp_path, history="off")}

    histories = Histories(tmp_path / "kept", projects)

    assert histories.names == ("shop",)
    with pytest.raises(HistoryError, match=r"'notes' has no history; set history under"):
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
