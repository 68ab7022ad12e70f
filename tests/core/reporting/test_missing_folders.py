from safetyd.core.engine.engine import Engine
from safetyd.core.policy import Policy
from safetyd.core.reporting.missing_folders import RECENT_S, FolderlessAgent
from tests.story import play, propose


def test_proposals_with_a_relative_path_and_no_folder_are_counted_for_a_day() -> None:
    engine = Engine(Policy())

    play(engine, propose(1, id="p1", paths=["a.py"]))
    play(engine, propose(2, id="p2", paths=["b.py"]))
    play(engine, propose(3, id="p3", paths=["c.py"], cwd="/srv/shop"))

    known = engine.records.missing_folders
    assert list(known.recent(3.0)) == [FolderlessAgent("code", 2)]
    assert list(known.recent(2.0 + RECENT_S)) == []
