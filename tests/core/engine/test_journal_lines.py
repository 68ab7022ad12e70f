import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import concerns, encode
from safetyd.core.events.decision_events import Withheld
from safetyd.core.messages.telemetry import Heartbeat
from safetyd.core.policy import Policy
from tests.story import at, outcome, play, propose, report

(DECIDED,) = play(Engine(Policy()), propose(0, id="x", session="y", context={"id": "z"}))


@pytest.mark.parametrize(
    "event",
    [DECIDED, Withheld(at=at(0), t=0, agent="code", id="x", why="late"), outcome(0, "x")],
    ids=["decided", "withheld", "reported"],
)
def test_a_line_concerns_the_proposal_it_is_about(event) -> None:
    assert concerns(encode(event), "x")


@pytest.mark.parametrize("name", ["y", "z", "code", "nowhere"])
def test_a_line_does_not_concern_what_it_only_mentions(name: str) -> None:
    assert not concerns(encode(DECIDED), name)


def test_other_telemetry_concerns_no_proposal() -> None:
    assert not concerns(encode(report(0, Heartbeat(), "x")), "x")


@pytest.mark.parametrize("line", [b'{"event":"opened","file":"x"}', b'{"id":"x"', b'"x"\xff'])
def test_lines_that_are_no_events_concern_nothing(line: bytes) -> None:
    assert not concerns(line, "x")
