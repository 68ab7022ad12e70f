from typing import Any

from safetyd.bus.publisher import MAX_ANSWER_BYTES
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Reported
from safetyd.core.events.event import Level
from safetyd.core.events.guard_events import AnomalyFound, BreakerMoved
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from safetyd.operators.contract.guard_contract import AnomaliesQuestion
from safetyd.operators.views.anomaly_view import anomalies
from safetyd.operators.views.paging import SLICE
from tests.operators.views.view_reader import encoded, plain, played, whole
from tests.story import at, play, propose, report, tick


def shown(engine: Engine, t: float, **wanted: Any) -> dict[str, Any]:
    return plain(whole(anomalies, engine, t, AnomaliesQuestion(**wanted)))


def found(t: float, severity: Level = "low", **fields: Any) -> AnomalyFound:
    rule = fields.pop("rule", f"anomaly.{t:g}")
    return AnomalyFound(at=at(t), t=t, rule=rule, severity=severity, message="odd", **fields)


def dear(t: float, usd: float, agent: str = "code") -> Reported:
    return report(t, Outcome(ok=True, cost_usd=usd), agent)


def rules(view: dict[str, Any]) -> list[str]:
    return [one["rule"] for one in view["findings"]]


def test_anomalies_are_shown_newest_first() -> None:
    view = shown(played(tick(1), found(1), found(2)), 5)

    assert rules(view) == ["anomaly.2", "anomaly.1"]
    assert (view["holding"], view["since_human_s"], view["measures"]) == ({}, 4.0, [])
    assert view["left_out"] == 0


def test_the_worst_come_first_if_they_are_asked_for_and_of_equals_the_newest() -> None:
    engine = played(found(1, "high"), found(2), found(3, "high"), found(4, "critical"))

    view = shown(engine, 5, sort="severity")

    assert rules(view) == ["anomaly.4", "anomaly.3", "anomaly.1", "anomaly.2"]


def test_anomalies_of_one_agent_leave_the_others_out() -> None:
    engine = played(propose(0), propose(0, "ops"), dear(1, 6.0), dear(2, 7.0, "ops"))

    view = shown(engine, 3, agent="ops")

    assert {one["agent"] for one in view["findings"]} == {"ops"}
    assert [*view["holding"]] == ["ops"]


def test_findings_come_with_the_numbers_that_set_them_off() -> None:
    engine = played(propose(0), dear(1, 2.0), dear(100, 4.0))

    view = shown(engine, 101)

    assert rules(view) == ["anomaly.cost_per_hour"]
    (cost,) = view["measures"]
    assert (cost["agent"], cost["detector"]) == ("code", "cost_per_hour")
    assert (cost["now"], cost["most"]) == (6.0, 5.0)
    assert (cost["values"], cost["ages_s"]) == ([2.0, 4.0], [100.0, 1.0])
    assert view["holding"] == {"code": {"cost_per_hour": 1}}


def test_a_breaker_that_oscillates_comes_with_its_trips() -> None:
    moves = [
        BreakerMoved(at=at(t), t=float(t), breaker="api", state="open", reason="down")
        for t in range(3)
    ]

    (trips,) = shown(played(*moves), 5)["measures"]

    assert (trips["breaker"], trips["ages_s"]) == ("api", [5.0, 4.0, 3.0])


def test_a_breaker_that_is_no_longer_known_has_no_numbers() -> None:
    assert shown(played(found(1, breaker="gone")), 2)["measures"] == []


def test_anomalies_of_many_fit_into_an_answer_and_the_rest_is_counted() -> None:
    engine = Engine(Policy())
    names = [f"agent-{number:040}" for number in range(12 * SLICE)]
    for number, name in enumerate(names):
        play(engine, propose(number, name), dear(number, 0.05, name), dear(number, 6.0, name))

    answer = whole(anomalies, engine, len(names), AnomaliesQuestion())

    assert len(encoded(answer)) < MAX_ANSWER_BYTES
    assert len(answer.findings) == len(answer.measures) == 100
    assert answer.left_out == len(names) - len(answer.holding)
