import pytest

from safetyd.agents.emergency_stop import StopFlag
from safetyd.core.guards.stop import Stop
from tests.story import NOON


def a_stop(source: str = "operator", agent: str | None = None, epoch: int = 1) -> Stop:
    return Stop(source=source, by="alice", reason="drill", since=NOON, agent=agent, epoch=epoch)


def holding(*stops: Stop) -> StopFlag:
    stop_flag = StopFlag()
    for stop in stops:
        stop_flag.set(stop)
    return stop_flag


@pytest.mark.parametrize(
    ("stops", "cleared", "held"),
    [
        ((), None, []),
        ((a_stop(),), None, ["code", "ops"]),
        ((a_stop(agent="code"),), None, ["code"]),
        ((a_stop(), a_stop("file:/x", "ops")), None, ["code", "ops"]),
        ((a_stop("file:/x", "ops"),), None, ["ops"]),
        ((a_stop(), a_stop(agent="code")), "code", ["code", "ops"]),
        ((a_stop(agent="ops"), a_stop(agent="code")), "code", ["ops"]),
        ((a_stop(epoch=1), a_stop(agent="code", epoch=9)), "code", ["code", "ops"]),
        ((a_stop(agent="code", epoch=1), a_stop(agent="code", epoch=9)), "code", ["code"]),
    ],
)
def test_a_stop_holds_its_agent_until_a_later_resume_of_its_source(
    stops: tuple[Stop, ...], cleared: str | None, held: list[str]
) -> None:
    stop_flag = holding(*stops)

    stop_flag.clear(["operator"] if cleared else [], epoch=9, agent=cleared)

    assert [agent for agent in ("code", "ops") if stop_flag.holds(agent)] == held


def test_epochs_go_on_from_the_highest_that_was_seen() -> None:
    stop_flag = holding(a_stop(epoch=7), a_stop("file:/x", epoch=3))

    assert stop_flag.next_epoch() == 8


def test_sources_are_found_by_name_and_scope() -> None:
    stop_flag = holding(a_stop(agent="code"))

    assert stop_flag.has("operator", "code")
    assert not stop_flag.has("operator")
    assert stop_flag.find("operator") is None
