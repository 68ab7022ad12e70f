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


def test_open_stop_flag_holds_nobody() -> None:
    assert StopFlag().holds("code") is None


def test_global_stop_holds_everybody() -> None:
    stop = a_stop()

    assert holding(stop).holds("code") is stop


def test_stop_of_one_agent_holds_that_one_alone() -> None:
    stop_flag = holding(a_stop(agent="code"))

    assert stop_flag.holds("code") is not None
    assert stop_flag.holds("ops") is None


def test_clearing_one_source_leaves_the_others() -> None:
    stop_flag = holding(a_stop("operator"), a_stop("file:/x"))

    stop_flag.clear(["operator"], epoch=9)

    assert [stop.source for stop in stop_flag.stops] == ["file:/x"]


def test_clearing_an_agents_stop_leaves_the_global_one() -> None:
    stop_flag = holding(a_stop(), a_stop(agent="code"))

    stop_flag.clear(["operator"], epoch=9, agent="code")

    assert [stop.agent for stop in stop_flag.stops] == [None]


def test_clearing_what_is_not_there_changes_nothing() -> None:
    stop_flag = StopFlag()

    stop_flag.clear(["operator"], epoch=9)

    assert stop_flag.stops == ()


def test_resume_does_not_clear_a_stop_that_was_pressed_after_it() -> None:
    stop_flag = holding(a_stop(epoch=1), a_stop(epoch=3))

    stop_flag.clear(["operator"], epoch=2)

    assert stop_flag.holds("code") is not None


def test_epochs_go_on_from_the_highest_that_was_seen() -> None:
    stop_flag = holding(a_stop(epoch=7), a_stop("file:/x", epoch=3))

    assert stop_flag.next_epoch() == 8


def test_sources_are_found_by_name_and_scope() -> None:
    stop_flag = holding(a_stop(agent="code"))

    assert stop_flag.has("operator", "code")
    assert not stop_flag.has("operator")
    assert stop_flag.find("operator") is None
