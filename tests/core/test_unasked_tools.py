"""A tool that ran unasked pauses or stops its agent, as the configuration says."""

from typing import Literal

import msgspec
import pytest

from safetyd.core.catalogue.catalogue import alert_of, sentence_of
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import HostUnasked, Paused, Stopped
from safetyd.core.host_rules import HostRules
from safetyd.core.policy import Policy
from tests.story import at, play, propose, stop

RAN = HostUnasked(
    at=at(5),
    t=5.0,
    agent="claude-code",
    host="claude",
    tools=("Bash", "Edit"),
    calls=3,
    session="s",
)


def after(unasked: Literal["tell", "pause", "stop"]) -> tuple[Engine, list[Event]]:
    engine = Engine(Policy(hosts=HostRules(unasked=unasked)))
    play(engine, stop(1, agent="other"))
    return engine, engine.handle(RAN)


def caused(events: list[Event]) -> list[Paused | Stopped]:
    return [event for event in events if isinstance(event, Paused | Stopped)]


@pytest.mark.parametrize(
    ("unasked", "cause"), [("tell", "policy"), ("pause", "paused"), ("stop", "stopped")]
)
def test_the_agent_goes_on_is_paused_or_is_stopped(
    unasked: Literal["tell", "pause", "stop"], cause: str
) -> None:
    engine, events = after(unasked)
    decided = {}
    for agent in ("claude-code", "other-code"):
        proposed = propose(6, id=f"p-{agent}", agent=agent, type="read_file")
        decided[agent] = engine.decide(proposed)[0]

    assert [event.agent for event in caused(events)] == ["claude-code"] * (unasked != "tell")
    assert decided["claude-code"].cause == cause
    assert decided["other-code"].allowed


def test_a_stop_is_newer_than_all_others() -> None:
    (stopped,) = caused(after("stop")[1])

    assert isinstance(stopped, Stopped)
    assert stopped.epoch == 2


def test_operators_are_notified_at_once() -> None:
    _, events = after("tell")
    (published,) = (event for event in events if isinstance(event, SafetyEvent))
    alert = alert_of(RAN)

    assert (published.event_type, published.agent_id) == ("HOST_UNASKED", "claude-code")
    assert sentence_of(RAN) == "claude-code ran Bash Edit, which safetyd had not allowed"
    assert alert is not None
    assert alert.always
    assert alert.urgency == "high"
    assert "without asking safetyd" in alert.title


def test_a_refused_call_that_ran_is_named_as_such_with_the_way_to_end_the_session() -> None:
    refused = msgspec.structs.replace(RAN, refused=1)
    alert = alert_of(refused)

    assert alert is not None
    assert "although safetyd refused it" in alert.title
    assert "end the session itself" in alert.text
    assert "`pgrep -a claude`" in alert.text
    (paused,) = caused(Engine(Policy(hosts=HostRules(unasked="pause"))).handle(refused))
    assert paused.reason == "Bash, Edit ran although safetyd refused it"
