"""Answers that may leave only after a commit."""

from pathlib import Path

import pytest

from safetyd.agents import agent_service
from safetyd.agents.agent_service import STALE_S
from safetyd.clock import uptime
from safetyd.core.events.decision_events import Withheld
from tests.agents.test_agent_service import A_STOP
from tests.agents.test_agent_service_people import PUSH, Window
from tests.agents.test_held_replies import LaterCommits
from tests.captured_connection import REPLY


class Committing:
    """An agent's window, and the commits that its actions wait for."""

    def __init__(self, data_dir: Path) -> None:
        self.commits = LaterCommits()
        self.window = Window(data_dir, commits=self.commits)


async def test_an_allow_leaves_after_the_commit_before_it(tmp_path: Path) -> None:
    here = Committing(tmp_path)
    here.window.propose(id="p1")
    here.window.write()
    before = here.window.captured.said()

    here.commits.made()

    assert before == []
    assert here.commits.before == [("code", "p1")]
    assert here.window.captured.answer()["decision"] == "allow"


async def test_an_allow_that_a_stop_overtook_while_it_was_committed_is_withheld(
    tmp_path: Path,
) -> None:
    here = Committing(tmp_path)
    here.window.propose(id="p1")
    here.window.write()

    here.window.stop_flag.set(A_STOP)
    here.commits.made()

    answer = here.window.captured.answer()
    assert (answer["decision"], answer["cause"]) == ("block", "stopped")
    (withheld,) = here.window.write()
    assert isinstance(withheld, Withheld)


async def test_the_time_of_a_commit_makes_no_allow_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Committing(tmp_path)
    here.window.propose(id="p1")
    here.window.write()

    monkeypatch.setattr(agent_service, "uptime", lambda: uptime() + STALE_S + 1)
    here.commits.made()

    assert here.window.captured.answer()["decision"] == "allow"


async def test_a_block_waits_for_no_commit(tmp_path: Path) -> None:
    here = Committing(tmp_path)

    assert here.window.asked(type="run_shell", text="rm -rf /")["decision"] == "block"
    assert here.commits.before == []


async def test_a_claim_is_granted_after_the_commit_unless_a_stop_holds(tmp_path: Path) -> None:
    here = Committing(tmp_path)
    window = here.window
    asked = window.asked(**PUSH, id="p1")
    window.approve(asked["request_id"])
    window.captured.said()
    payload = f'{{"id": "p1", "digest": "{asked["digest"]}", "claimant": "x"}}'.encode()

    window.service.claim(b"safety.v1.claim.code", REPLY, payload)
    window.write()
    before = window.captured.said()
    window.stop_flag.set(A_STOP)
    here.commits.made()
    stopped = window.captured.answer()

    assert before == []
    assert (stopped["granted"], stopped["cause"]) == (False, "stopped")
