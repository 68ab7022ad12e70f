from pathlib import Path

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.event import Event
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.journal.audit_reading import ReadingBounds, Rests
from safetyd.operators.contract.decision_contract import ExplainQuestion, LikeDecisions
from safetyd.operators.explain_search import SHOWN, search
from tests.story import at, outcome, play, propose

CODING = Policy(profile="coding")
BIG = 1024 * 1024
DAY = 86_400.0


def kept(directory: Path, *story: Event, policy: Policy = CODING) -> Path:
    """Let audit files tell of what happened, and return where."""
    audit = Audit(directory, BIG)
    audit.open()
    events = play(Engine(policy), *story)
    audit.append([encode(event) for event in events], events[-1].seq)
    audit.close()
    return directory


def likes(directory: Path, id_: str) -> LikeDecisions:
    found = search(directory, ExplainQuestion(id=id_), BIG, CODING, Rests(0.0))
    assert found is not None
    assert found.like is not None
    return found.like


def shell(t: float, id_: str, text: str, agent: str = "code") -> Event:
    return propose(t, agent, id_, "run_shell", text=text)


def test_commands_of_the_same_shape_are_like_one_another(tmp_path: Path) -> None:
    kept(
        tmp_path,
        shell(1, "p1", "git commit -m 'one'"),
        shell(2, "p2", "git commit -m 'two and more'", "ops"),
        shell(3, "p3", "git push"),
        shell(4, "p4", "git commit -m 'three'"),
    )

    like = likes(tmp_path, "p4")

    assert [(other.id, other.agent) for other in like.last] == [("p2", "ops"), ("p1", "code")]
    assert sum(like.counts.values()) == 2
    assert like.whole


def test_of_other_types_the_same_action_is_alike(tmp_path: Path) -> None:
    kept(
        tmp_path,
        propose(1, id="p1", text="a.txt", description="once"),
        propose(2, id="p2", text="b.txt"),
        propose(3, id="p3", text="a.txt", description="again"),
        outcome(4, "p3"),
    )

    like = likes(tmp_path, "p3")

    assert [other.id for other in like.last] == ["p1"]
    assert like.counts == {Severity.ALLOW: 1, Severity.ASK: 0, Severity.BLOCK: 0}


def test_every_verdict_is_counted_and_the_last_few_are_named(tmp_path: Path) -> None:
    dry = (
        propose(n, id=f"d{n}", text="rm -rf /", type="run_shell", dry_run=True) for n in range(3)
    )
    kept(tmp_path, *(shell(n, f"p{n}", "rm -rf /") for n in range(10)), *dry)

    like = likes(tmp_path, "p9")

    assert like.counts[Severity.BLOCK] == 9
    assert [other.id for other in like.last] == ["p8", "p7", "p6", "p5", "p4"]
    assert len(like.last) == SHOWN


def test_what_is_older_than_a_week_is_left_out(tmp_path: Path) -> None:
    kept(
        tmp_path,
        propose(0, id="p0", text="a.txt"),
        propose(2 * DAY, id="p1", text="a.txt"),
        propose(8 * DAY, id="p2", text="a.txt"),
    )

    like = likes(tmp_path, "p2")

    assert [other.id for other in like.last] == ["p1"]
    assert like.whole
    assert like.since == at(2 * DAY)


def test_a_search_that_had_no_time_says_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.audit_reading.BLOCK_BYTES", 300)
    monkeypatch.setattr("safetyd.operators.explain_search.BOUNDS", ReadingBounds(lines=1))
    kept(tmp_path, *(propose(n, id=f"p{n}", text="a.txt") for n in range(9)))

    like = likes(tmp_path, "p8")

    assert not like.whole
    assert at(0) < like.since <= at(8)


def test_without_a_policy_nothing_is_compared(tmp_path: Path) -> None:
    kept(tmp_path, propose(0))

    found = search(tmp_path, ExplainQuestion(id="p1"), BIG)

    assert found is not None
    assert found.like is None


def test_the_last_decision_about_an_agent_is_found_however_far_back_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.audit_reading.BLOCK_BYTES", 300)
    monkeypatch.setattr("safetyd.operators.explain_search.BOUNDS", ReadingBounds(lines=1))
    kept(tmp_path, propose(0), *(propose(n, "ops", id=f"o{n}") for n in range(9)))

    found = search(tmp_path, ExplainQuestion(last="code"), BIG, None, Rests(0.0))

    assert found is not None
    assert found.trail.id == "p1"
    assert search(tmp_path, ExplainQuestion(last="nobody"), BIG, None, Rests(0.0)) is None


@pytest.mark.parametrize("fields", [{}, {"id": "p1", "last": "code"}])
def test_one_thing_is_asked_about(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="`last`"):
        ExplainQuestion(**fields)
