from typing import Any

from safetyd.bus.publisher import MAX_ANSWER_BYTES
from safetyd.core.engine.engine import Engine
from safetyd.core.events.guard_events import Paused
from safetyd.core.messages.proposal import Tokens
from safetyd.core.messages.telemetry import Iteration, Outcome, SessionEnded
from safetyd.core.policy import Policy
from safetyd.operators.contract.agent_contract import AgentAnswer, AgentQuestion
from safetyd.operators.views.agent_page_view import MAX_PENDING, agent
from safetyd.operators.views.agent_view import SHOWN
from tests.operators.views.view_reader import encoded, entered, plain, played, whole
from tests.story import at, outcome, play, propose, report, stop


def shown(engine: Engine, t: float, name: str = "code") -> dict[str, Any]:
    return plain(whole(agent, engine, t, AgentQuestion(name)))


def test_an_agent_that_nobody_heard_is_not_found() -> None:
    refusal = shown(played(propose(0)), 1, "coed")

    assert (refusal["ok"], refusal["code"]) == (False, "not_found")
    assert "'coed'" in refusal["error"]


def test_the_page_has_the_agents_row_and_nothing_that_is_not_there() -> None:
    view = shown(played(propose(0), outcome(1)), 2)

    assert (view["agent"]["agent"], view["agent"]["allowed"]) == ("code", 1)
    assert view["safe_mode"]["active"] is False
    for part in ("stops", "pauses", "open_actions", "pending", "findings"):
        assert view[part] == []
    assert [row["scope"] for row in view["budgets"]] == ["agent", "session"]


def test_sessions_that_live_are_shown_with_what_they_did() -> None:
    engine = played(
        propose(0, id="p1", session="s", model="m", cost_usd=0.5),
        propose(1, id="p2", session="s", type="run_shell", text="rm -rf /"),
        report(2, Outcome(id="p1", ok=True, cost_usd=0.25, tokens=Tokens(input=7, output=5))),
        report(3, Iteration(session="s")),
        propose(4, id="p3", cost_usd=0.5),
        propose(5, "ops", session="other"),
    )

    named, unnamed = shown(engine, 6)["sessions"]

    assert (named["session"], named["rounds"]) == ("s", 1)
    assert (named["spent"], named["reserved"]) == (0.25, 0.0)
    assert named["so_far"] == {
        "started_at": "2026-03-01T12:00:00Z",
        "heard_at": "2026-03-01T12:00:03Z",
        "provider": None,
        "model": "m",
        "decisions": 2,
        "input_tokens": 7,
        "output_tokens": 5,
    }
    assert (unnamed["session"], unnamed["spent"], unnamed["reserved"]) == ("", 0.0, 0.5)


def test_open_actions_are_shown_newest_first_with_their_begin() -> None:
    engine = played(
        propose(0, id="p1", text="old", session="s"),
        propose(2, id="p2", type="edit_file", text="x" * 250, model="m", dependency="api"),
    )

    new, old = shown(engine, 3)["open_actions"]

    assert new == {
        "id": "p2",
        "type": "edit_file",
        "text": "x" * 200,
        "session": "",
        "model": "m",
        "dependency": "api",
        "since_s": 1.0,
    }
    assert (old["id"], old["text"], old["session"]) == ("p1", "old", "s")


def test_an_action_of_a_session_that_is_over_has_no_text_any_more() -> None:
    engine = played(propose(0, text="old", session="s"))
    play(engine, report(1, SessionEnded(session="s")))

    (old,) = shown(engine, 2)["open_actions"]

    assert (old["id"], old["text"]) == ("p1", "")
    assert shown(engine, 2)["sessions"] == []


def test_what_holds_an_agent_back_is_shown_with_who_and_why() -> None:
    paused = Paused(at=at(1), t=1.0, agent="code", source="operator", by="alice", reason="lunch")
    engine = played(
        propose(0),
        paused,
        entered(2, "code"),
        stop(3),
        stop(4, agent="code", epoch=2),
        stop(5, agent="ops", epoch=3),
    )

    view = shown(engine, 6)

    assert [one["agent"] for one in view["stops"]] == [None, "code"]
    (pause,) = view["pauses"]
    assert (pause["by"], pause["reason"], pause["since"]) == (
        "alice",
        "lunch",
        "2026-03-01T12:00:01Z",
    )
    assert (view["safe_mode"]["active"], view["safe_mode"]["cooldown_remaining_ms"]) == (
        True,
        56_000,
    )
    assert view["safe_mode"]["holds"][0]["by"] == "alice"


def test_requests_that_wait_are_shown_oldest_first() -> None:
    engine = played(
        propose(0, id="p1", type="push", text="git push"),
        propose(1, id="p2", type="deploy", text="make deploy"),
        propose(2, "ops", "p3", type="push"),
    )

    view = shown(engine, 3)

    assert [(one["type"], one["text"]) for one in view["pending"]] == [
        ("push", "git push"),
        ("deploy", "make deploy"),
    ]
    assert view["pending_count"] == 2
    assert view["pending"][0]["asked_at"] == "2026-03-01T12:00:00Z"


def test_budgets_are_those_of_the_agent_and_its_share() -> None:
    engine = played(
        propose(0, id="p1", chain="c", session="s", cost_usd=0.5),
        propose(1, id="p2", session="t", cost_usd=0.75),
        propose(2, "ops", cost_usd=1.0),
        report(2, Outcome(ok=True, cost_usd=0.25)),
    )

    rows = shown(engine, 3)["budgets"]

    assert [(row["scope"], row["id"], row["reserved"]) for row in rows] == [
        ("agent", "code", 1.25),
        ("share", "code", 0.0),
        ("session", "t", 0.75),
        ("chain", "c", 0.5),
        ("session", "s", 0.5),
        ("session", "", 0.0),
    ]


def test_a_share_that_is_not_used_is_not_shown() -> None:
    engine = played(propose(0), propose(1, "ops"), propose(2, "made-up", keyless=True))

    assert [row["scope"] for row in shown(engine, 3, "made-up")["budgets"]] == ["agent"]


def test_findings_and_what_is_usual_are_those_of_the_agent() -> None:
    engine = played(
        propose(0),
        propose(0, "ops"),
        report(1, Outcome(ok=True, cost_usd=6.0, latency_ms=500.0, model="m")),
        report(2, Outcome(ok=True, cost_usd=6.0), "ops"),
    )

    view = shown(engine, 3)

    assert [(one["agent"], one["rule"]) for one in view["findings"]] == [
        ("code", "anomaly.cost_per_hour")
    ]
    measures = {(one["detector"], one["unit"]): one for one in view["measures"]}
    assert measures["cost_per_hour", "usd"]["values"] == [6.0]
    assert measures["outlier", "s"]["model"] == "m"
    assert view["agent"]["anomalies"] == {"cost_per_hour": 1}


def test_a_page_of_much_fits_into_an_answer() -> None:
    engine = Engine(Policy())
    for number in range(2 * SHOWN):
        session, chain = f"{number % 60}-{'s' * 50}", f"{number % 60}-{'c' * 50}"
        text, id_ = str(number) + 300 * "\N{SNOWMAN}", f"{number}{'x' * 60}"
        play(
            engine,
            propose(number, id=id_, text=text, cost_usd=0.01, session=session, chain=chain),
            propose(number, id=f"{id_}?", type="push", text=text, digest=f"sha256:{number}"),
        )
        for model in range(8):
            said = Outcome(ok=True, latency_ms=1 / 3, cost_usd=1 / 7, model=f"m{model}")
            play(engine, report(number, said))

    answer = whole(agent, engine, 2.0 * SHOWN, AgentQuestion("code"))

    assert isinstance(answer, AgentAnswer)
    assert len(encoded(answer)) < MAX_ANSWER_BYTES
    assert len(answer.pending) <= MAX_PENDING
    assert answer.sessions
    assert answer.measures
