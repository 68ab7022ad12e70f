from pathlib import Path

import pytest

from safetyd.history.service.first_commits import WORDS, commit_first
from tests.history.service.history_rig import HistoryRig


async def begin(rig: HistoryRig) -> None:
    await commit_first(rig.histories, lambda: rig.clock.now().at)


async def test_what_was_there_before_is_committed_once(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path)
    rig.cart.write_text("begun\n")
    await begin(rig)
    rig.cart.write_text("changed\n")
    await begin(rig)

    (row,) = rig.histories.find("shop").rows()
    assert (row.agent, row.id, row.files) == ("", "", 1)
    assert WORDS in row.subject


async def test_a_project_that_cannot_be_committed_keeps_none_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = HistoryRig(tmp_path)
    rig.cart.write_text("begun\n")
    rig.cart.chmod(0)
    rig.root.rename(tmp_path / "elsewhere")
    await begin(rig)

    assert "Traceback" not in caplog.text


async def test_what_agents_have_changed_is_left_to_their_own_commits(tmp_path: Path) -> None:
    rig = HistoryRig(tmp_path)
    rig.cart.write_text("begun\n")
    await commit_first(rig.histories, lambda: rig.clock.now().at, {"shop"})

    assert rig.histories.find("shop").rows() == []
