import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.guard_events import Forgotten
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.guards.gate.loops import MAX_EPISODES, RING, state_hash
from safetyd.core.messages.proposal import Observation, Target
from safetyd.core.messages.telemetry import EpisodeEnded, Heartbeat, SessionEnded
from safetyd.core.messages.verdict import ALLOWED, Severity
from tests.core.guards.gate.gate_rig import CART, HOME, GateRig
from tests.core.guards.guard_rig import assert_retold, decided, rules, stories
from tests.story import at, propose, report, stop


@pytest.mark.req("S4.12")
@pytest.mark.req("S4.26")
def test_three_equal_clicks_without_effect_are_a_loop() -> None:
    agent = GateRig()

    verdicts = [agent.asks(observation=HOME) for _ in range(4)]

    assert verdicts[:2] == [ALLOWED, ALLOWED]
    assert verdicts[2].decision is Severity.BLOCK
    assert (verdicts[2].rule, verdicts[2].cause) == ("gate.loop", "loop")
    assert verdicts[3].rule == "gate.loop"


@pytest.mark.req("S4.6")
def test_going_to_and_fro_is_a_loop() -> None:
    agent = GateRig()

    verdicts = [agent.asks(observation=state) for state in (HOME, CART) * 3]

    assert [rules(verdict) for verdict in verdicts] == [()] * 5 + [("gate.loop",)]


def test_ten_fields_of_one_form_are_not_a_loop() -> None:
    agent = GateRig()

    for number in range(10):
        assert (
            agent.asks("type", text="x", target=Target(label=f"Field {number}"), observation=HOME)
            is ALLOWED
        )


@pytest.mark.parametrize(
    "change",
    [lambda n: {"context": {"diff": f"+{n}"}}, lambda n: {"paths": (f"{n}.py",)}],
    ids=["diff", "path"],
)
def test_another_change_of_files_in_one_window_is_something_new(change) -> None:
    agent = GateRig()

    assert all(agent.asks("edit_file", observation=HOME, **change(n)) is ALLOWED for n in range(6))
    assert agent.asks("edit_file", observation=HOME, **change(5)) is ALLOWED
    assert agent.asks("edit_file", observation=HOME, **change(5)).rule == "gate.loop"


def test_something_new_sets_all_visits_back() -> None:
    agent = GateRig()
    agent.asks(observation=HOME)
    agent.asks(observation=HOME)
    agent.asks(text="new", observation=HOME)

    assert agent.asks(observation=HOME) is ALLOWED
    assert agent.asks(observation=HOME).rule == "gate.loop"


@pytest.mark.req("S4.13")
def test_the_state_is_sixteen_hex_of_title_app_and_address() -> None:
    assert state_hash(Observation(window_title="Inbox", app_name="Mail", url="x")) == (
        "95bc3bef7f39707c"
    )
    assert state_hash(HOME) != state_hash(msgspec.structs.replace(HOME, screen_hash="1"))
    assert state_hash(Observation()) == ""


def test_another_picture_of_the_same_window_is_another_state() -> None:
    agent = GateRig()

    for picture in range(5):
        assert agent.asks(observation=Observation(url="x", screen_hash=str(picture))) is ALLOWED


@pytest.mark.parametrize("nothing", [None, Observation()])
def test_without_an_observation_there_is_no_visit(nothing: Observation | None) -> None:
    agent = GateRig()

    assert all(agent.asks(observation=nothing) is ALLOWED for _ in range(9))
    assert agent.gate.save()() == GateRig().gate.save()()


def test_looking_counts_no_visit() -> None:
    agent = GateRig()

    assert all(agent.looks(observation=HOME) is ALLOWED for _ in range(9))


def test_a_dry_run_or_a_repeated_id_counts_no_visit() -> None:
    agent = GateRig()
    proposed = propose(0, type="click", observation=HOME)

    for _ in range(5):
        agent.hears(decided(proposed, ALLOWED, first=False))

    assert agent.looks(observation=HOME) is ALLOWED


def test_blocked_proposals_are_visits_too() -> None:
    agent = GateRig()

    for _ in range(2):
        assert agent.asks(text="rm -rf", observation=HOME).rule == "gate.blocklist:rm_rf"

    assert rules(agent.asks(text="rm -rf", observation=HOME)) == ("gate.blocklist:rm_rf",)
    assert agent.asks(observation=HOME) is ALLOWED  # something new


def test_of_scrolling_and_waiting_only_every_tenth_in_a_row_counts() -> None:
    agent = GateRig()

    verdicts = [agent.asks("scroll", observation=HOME) for _ in range(31)]

    assert [n for n, verdict in enumerate(verdicts, 1) if verdict is not ALLOWED] == [30]


def test_another_action_ends_the_row() -> None:
    agent = GateRig()

    for _ in range(9):
        agent.asks("wait", observation=HOME)
    agent.asks(observation=CART)

    for _ in range(25):
        assert agent.asks("wait", observation=HOME) is ALLOWED


def test_new_keys_between_equal_clicks_are_progress() -> None:
    agent = GateRig()

    for key in "abcdef":
        assert agent.asks(observation=HOME) is ALLOWED
        assert agent.asks("key", text=key, observation=HOME) is ALLOWED


def test_counting_states_takes_every_proposal_for_a_visit() -> None:
    agent = GateRig(GateConfig(loop_counts="states", loop_threshold=2))
    agent.asks("scroll", text="a", observation=HOME)

    verdict = agent.asks("type", text="b", observation=HOME)

    assert verdict.rule == "gate.loop"


@pytest.mark.req("S4.21")
def test_the_end_of_an_episode_clears_its_visits_only() -> None:
    agent = GateRig()
    for episode in ("e1", "e2"):
        agent.asks(observation=HOME, episode=episode)
        agent.asks(observation=HOME, episode=episode)

    agent.hears(report(1, EpisodeEnded(episode="e1")))

    assert agent.looks(observation=HOME, episode="e1") is ALLOWED
    assert agent.looks(observation=HOME, episode="e2").rule == "gate.loop"


def test_the_end_of_a_session_clears_it_and_its_episodes() -> None:
    agent = GateRig()
    for fields in ({"session": "s"}, {"session": "s", "episode": "e"}, {}):
        agent.asks(observation=HOME, **fields)
        agent.asks(observation=HOME, **fields)

    agent.hears(report(1, SessionEnded(session="s")))

    assert agent.looks(observation=HOME, session="s") is ALLOWED
    assert agent.looks(observation=HOME, session="s", episode="e") is ALLOWED
    assert agent.looks(observation=HOME).rule == "gate.loop"


@pytest.mark.parametrize(
    ("reset", "cleared"),
    [
        ((None, None), {"s", "e", "t"}),
        (("s", None), {"s", "e"}),
        ((None, "e"), {"e"}),
        (("t", "e"), set()),
    ],
)
def test_an_operator_can_reset_visits(
    reset: tuple[str | None, str | None], cleared: set[str]
) -> None:
    agent = GateRig()
    stories = {"s": {"session": "s"}, "e": {"session": "s", "episode": "e"}, "t": {"session": "t"}}
    for fields in stories.values():
        agent.asks(observation=HOME, **fields)
        agent.asks(observation=HOME, **fields)

    session, episode = reset
    agent.hears(
        Forgotten(at=at(1), t=1.0, agent="code", by="alice", session=session, episode=episode)
    )

    free = {
        n for n, fields in stories.items() if agent.looks(observation=HOME, **fields) is ALLOWED
    }
    assert free == cleared


def test_other_events_and_other_agents_do_not_matter() -> None:
    agent = GateRig()
    agent.asks(observation=HOME)
    agent.asks(observation=HOME)

    agent.hears(report(1, Heartbeat()))
    agent.hears(stop(1))
    agent.hears(report(1, EpisodeEnded(episode="e"), agent="other"))

    assert agent.looks(observation=HOME).rule == "gate.loop"
    assert agent.looks(observation=HOME, agent="other") is ALLOWED


def test_an_agent_keeps_the_episodes_it_used_last() -> None:
    agent = GateRig()
    for number in range(MAX_EPISODES + 1):
        agent.asks(observation=HOME, episode=f"e{number}")
        agent.asks(observation=HOME, episode=f"e{number}")

    assert agent.looks(observation=HOME, episode="e0") is ALLOWED
    assert agent.looks(observation=HOME, episode="e1").rule == "gate.loop"


def test_an_episode_keeps_the_last_states_and_actions() -> None:
    agent = GateRig(GateConfig(loop_counts="states"))
    for number in range(RING + 1):
        agent.asks(observation=Observation(url=f"{number}"))
        agent.asks(observation=Observation(url=f"{number}"))

    assert agent.looks(observation=Observation(url="0")) is ALLOWED
    assert agent.looks(observation=Observation(url="1")).rule == "gate.loop"


names = st.sampled_from([None, "a", "b"])
agents = st.sampled_from(["code", "shop"])
proposals = st.builds(
    propose,
    st.just(0),
    agent=agents,
    type=st.sampled_from(["click", "TYPE", "scroll", "key", "read_file", "dance"]),
    text=st.sampled_from(["", "x", "hunter2", "hunter3", "delete", "[masked, 7 characters]"]),
    target=st.sampled_from([None, Target(label="Password"), Target(label="Send", name="é")]),
    observation=st.sampled_from([None, Observation(), Observation(url="x"), Observation(url="y")]),
    session=names,
    episode=names,
)
ends = st.one_of(
    st.builds(report, st.just(0), st.builds(EpisodeEnded, episode=st.just("a")), agents),
    st.builds(report, st.just(0), st.builds(SessionEnded, session=st.just("a")), agents),
    st.builds(
        Forgotten,
        at=st.just(at(0)),
        t=st.just(0.0),
        agent=agents,
        by=st.just("alice"),
        session=names,
        episode=names,
    ),
)
configs = st.sampled_from(
    [GateConfig(), GateConfig(loop_counts="states"), GateConfig(loop_threshold=1)]
)


@given(configs, stories(proposals | ends), proposals)
def test_a_replayed_gate_is_the_same_gate(config, story, last) -> None:
    assert_retold(lambda: GateRig(config).gate, story, last)
