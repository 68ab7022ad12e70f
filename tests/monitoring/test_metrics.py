import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.events.notification_events import NotTold, Told
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.telemetry import Iteration, Outcome
from safetyd.core.policy import Policy
from safetyd.monitoring.counters import MAX_AGENTS, Counters
from safetyd.monitoring.gauges import Gauges
from safetyd.monitoring.metrics import Metrics, Sources
from tests.story import ask, at, play, propose, report, stop

# Names, types and labels as the contract has them.
CONTRACT = {
    "safetyd_decisions": ("counter", {"decision", "cause"}),
    "safetyd_decision_seconds": ("histogram", set()),
    "safetyd_guard_verdicts": ("counter", {"guard", "decision"}),
    "safetyd_journal_append_seconds": ("histogram", set()),
    "safetyd_journal_batch_events": ("histogram", set()),
    "safetyd_emergency_stop_active": ("gauge", set()),
    "safetyd_config_last_reload_successful": ("gauge", set()),
    "safetyd_malformed": ("counter", set()),
    "safetyd_events": ("counter", {"type", "severity"}),
    "safetyd_audit_bytes": ("counter", set()),
    "safetyd_ready": ("gauge", set()),
    "safetyd_bus_up": ("gauge", set()),
    "safetyd_bus_reconnects": ("counter", set()),
    "safetyd_sender_over_limit": ("counter", {"limit"}),
    "safetyd_disk_free_bytes": ("gauge", set()),
    "safetyd_disk_total_bytes": ("gauge", set()),
    "safetyd_disk_level": ("gauge", set()),
    "safetyd_data_bytes": ("gauge", {"part"}),
    "safetyd_iterations": ("counter", {"agent"}),
    "safetyd_cost_usd": ("counter", {"agent"}),
    "safetyd_anomalies": ("counter", {"kind", "severity"}),
    "safetyd_time_to_decision_seconds": ("histogram", {"via"}),
    "safetyd_requests_pending": ("gauge", set()),
    "safetyd_request_oldest_seconds": ("gauge", set()),
    "safetyd_requests_unnotified": ("gauge", set()),
    "safetyd_notify_deliveries": ("counter", {"channel", "outcome"}),
    "safetyd_notify_queue_depth": ("gauge", {"channel"}),
    "safetyd_notify_oldest_pending_seconds": ("gauge", {"channel"}),
    "safetyd_notify_up": ("gauge", {"channel"}),
    "safetyd_notify_refused_answers": ("gauge", {"channel"}),
    "autonomy_safe_mode_active": ("gauge", set()),
    "safetyd_seconds_since_human": ("gauge", set()),
    "safetyd_breaker_state": ("gauge", {"breaker"}),
    "safetyd_budget_spent_usd": ("gauge", {"scope"}),
    "safetyd_budget_reserved_usd": ("gauge", {"scope"}),
    "safetyd_budget_limit_usd": ("gauge", {"scope"}),
    "safetyd_error_ratio": ("gauge", {"agent"}),
    "safetyd_files_per_commit": ("gauge", {"agent"}),
    "safetyd_repeated_actions": ("gauge", {"agent"}),
    "safetyd_build_info": ("gauge", {"version"}),
}

DISK = DiskUse(level="critical", disk="/", free_bytes=1, total_bytes=9, parts={"audit": 2})


def text(metrics: Metrics) -> str:
    """Return everything that is scraped, in a state in which nothing has happened."""
    gauges = metrics.gauges(Engine(Policy()), Moment(at(9), 9.0))
    with pytest.raises(StopIteration) as ended:
        next(gauges)
    return b"".join(metrics.slices()).decode() + str(ended.value.value.text)


def scrape(metrics: Metrics) -> dict[str, Metric]:
    families = text_string_to_metric_families(text(metrics))
    return {family.name: family for family in families}


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    """Return one sample's value, None if it is not there."""
    for family in scrape(metrics).values():
        for found in family.samples:
            if found.name == sample and found.labels == labels:
                return found.value
    return None


def finding(t: float, rule: str = "anomaly.time_skew") -> AnomalyFound:
    return AnomalyFound(at=at(t), t=t, rule=rule, severity="low", message="x", agent="code")


def outcome(t: float, id_: str | None = None, agent: str = "code", **fields: object) -> Event:
    return report(t, Outcome(id=id_, ok=True, **fields), agent)  # type: ignore[arg-type]


def counted(*story: Event) -> Metrics:
    """Metrics that name the agents code and ops, after a story."""
    known = {"code", "ops"}
    counters = Counters(lambda agent: agent if agent in known else "other", lambda: ("code",))
    metrics = Metrics("1", counters=counters)
    metrics.observe(play(Engine(Policy()), *story))
    return metrics


def told(t: float, channel: str = "email") -> Told:
    return Told(at=at(t), t=t, delivery=f"dlv_{t}", channel=channel, state="accepted")


def not_told(t: float) -> NotTold:
    return NotTold(at=at(t), t=t, delivery=f"dlv_{t}", channel="email", state="dead")


def iterations(metrics: Metrics, agent: str) -> float | None:
    return value(metrics, "safetyd_iterations_total", agent=agent)


def cost(metrics: Metrics, agent: str) -> float | None:
    return value(metrics, "safetyd_cost_usd_total", agent=agent)


def busy() -> Metrics:
    """Metrics that have seen one of everything."""
    engine = Engine(Policy())
    gauges = Gauges(Policy, tuple)
    sources = Sources(
        guards=lambda: engine.guard_names,
        gauges=gauges.families,
        disk=lambda: DISK,
        over_limits=lambda: {"bytes": 1},
    )
    metrics = Metrics("1.2.3", sources)
    decision = ask(engine, propose(0))
    metrics.decided(decision, 0.002)
    metrics.refused("malformed")
    metrics.appended(0.001, 3)
    metrics.observe(play(engine, propose(1, id="p2"), stop(2), propose(3, id="p3")))
    metrics.observe(play(engine, finding(4), outcome(5, "p2", dependency="db")))
    return metrics


def test_a_disk_is_told_with_what_fills_it_and_without_one_nothing_is() -> None:
    metrics = busy()

    assert value(metrics, "safetyd_disk_free_bytes") == 1
    assert value(metrics, "safetyd_disk_total_bytes") == 9
    assert value(metrics, "safetyd_disk_level") == 2
    assert value(metrics, "safetyd_data_bytes", part="audit") == 2
    assert value(Metrics("1"), "safetyd_disk_level") is None


def test_what_the_daemon_knows_of_its_bus_is_asked_when_scraped() -> None:
    sources = Sources(ready=lambda: False, bus_up=lambda: False, reconnects=lambda: 3)
    metrics = Metrics("1", sources)

    assert value(metrics, "safetyd_ready") == value(metrics, "safetyd_bus_up") == 0
    assert value(metrics, "safetyd_bus_reconnects_total") == 3


def test_names_types_and_labels_are_the_contracts() -> None:
    families = scrape(busy())

    assert families.keys() == CONTRACT.keys()
    for name, (kind, labels) in CONTRACT.items():
        assert families[name].type == kind
        for sample in families[name].samples:
            assert sample.labels.keys() - {"le"} == labels


def test_decisions_are_counted_by_verdict_and_cause() -> None:
    metrics = busy()

    assert value(metrics, "safetyd_decisions_total", decision="allow", cause="policy") == 1
    assert value(metrics, "safetyd_decisions_total", decision="block", cause="malformed") == 1


def test_counts_name_every_verdict_even_without_any() -> None:
    assert Metrics("1").counts() == {"allow": 0, "require_confirmation": 0, "block": 0}
    assert busy().counts() == {"allow": 1, "require_confirmation": 0, "block": 1}


def test_every_guard_has_spoken_once_per_decision() -> None:
    metrics = busy()

    for guard in Engine(Policy()).guard_names:
        said = {
            verdict: value(metrics, "safetyd_guard_verdicts_total", guard=guard, decision=verdict)
            for verdict in ("allow", "require_confirmation", "block")
        }
        assert sum(filter(None, said.values())) == 2
        assert said["block"] == (1 if guard == "stop" else 0)


def test_time_is_counted_in_the_bucket_it_falls_into() -> None:
    metrics = busy()

    assert value(metrics, "safetyd_decision_seconds_bucket", le="0.001") == 0
    assert value(metrics, "safetyd_decision_seconds_bucket", le="0.0025") == 1
    assert value(metrics, "safetyd_decision_seconds_bucket", le="+Inf") == 1
    assert value(metrics, "safetyd_decision_seconds_count") == 1
    assert value(metrics, "safetyd_decision_seconds_sum") == 0.002


def test_value_on_a_bound_belongs_to_that_bucket() -> None:
    metrics = Metrics("1")
    metrics.appended(0.0005, 500)

    assert value(metrics, "safetyd_journal_append_seconds_bucket", le="0.0005") == 1
    assert value(metrics, "safetyd_journal_batch_events_bucket", le="250") == 0
    assert value(metrics, "safetyd_journal_batch_events_bucket", le="500") == 1


def test_value_beyond_all_bounds_is_still_counted() -> None:
    metrics = Metrics("1")
    metrics.appended(60.0, 9000)

    assert value(metrics, "safetyd_journal_append_seconds_bucket", le="2.5") == 0
    assert value(metrics, "safetyd_journal_append_seconds_bucket", le="+Inf") == 1


def test_gauges_show_what_holds_at_the_scrape() -> None:
    stopped: list[str] = []
    metrics = Metrics("1", Sources(lambda: bool(stopped), lambda: 9, reload_ok=lambda: False))
    before = value(metrics, "safetyd_emergency_stop_active")

    stopped.append("operator")

    assert before == 0
    assert value(metrics, "safetyd_emergency_stop_active") == 1
    assert value(metrics, "safetyd_config_last_reload_successful") == 0
    assert value(metrics, "safetyd_malformed_total") == 9


def test_build_names_the_version() -> None:
    assert value(busy(), "safetyd_build_info", version="1.2.3") == 1


def test_scraping_changes_nothing() -> None:
    metrics = busy()

    assert text(metrics) == text(metrics)


def test_round_that_an_agent_asks_for_and_tells_of_counts_once() -> None:
    dispatch = propose(0, type="dispatch")

    both = counted(dispatch, report(1, Iteration()))
    told_more = counted(dispatch, report(1, Iteration()), report(2, Iteration()))

    assert iterations(both, "code") == 1
    assert iterations(told_more, "code") == 2


def test_only_a_dispatch_that_may_run_is_a_round() -> None:
    refused = (stop(1), propose(2, id="p2", type="dispatch"))
    dry = propose(0, id="p3", type="dispatch", dry_run=True)

    assert iterations(counted(propose(0), dry, *refused), "code") == 0


def test_rounds_of_agents_without_a_label_are_added_up() -> None:
    metrics = counted(
        report(0, Iteration(), "ann"),
        report(1, Iteration(), "bob"),
        propose(2, "bob", type="dispatch"),
        report(3, Iteration(), "ops"),
    )

    assert iterations(metrics, "other") == 2
    assert iterations(metrics, "ops") == 1


def test_names_made_up_in_telemetry_do_not_fill_the_memory() -> None:
    metrics = counted()
    for n in range(MAX_AGENTS + 50):
        metrics.observe([report(n, Iteration(), f"a{n}")])
    metrics.observe([report(n, Iteration(), "code")])

    assert iterations(metrics, "other") == MAX_AGENTS + 50
    assert iterations(metrics, "code") == 1
    assert len(metrics._counters._rounds) == MAX_AGENTS + 1


def test_cost_is_what_outcomes_say_or_their_tokens_cost_if_that_is_more() -> None:
    engine, metrics = Engine(Policy()), counted(outcome(0, cost_usd=0.25), outcome(1))
    priced = report(2, Outcome(ok=True, cost_usd=0.01))
    priced.priced_nano = 500_000_000
    metrics.observe(play(engine, priced, outcome(3, None, "stranger", cost_usd=1.5)))

    assert cost(metrics, "code") == 0.75
    assert cost(metrics, "other") == 1.5


def test_counters_of_known_agents_begin_at_zero() -> None:
    metrics = counted()

    assert [iterations(metrics, agent) for agent in ("code", "other", "ops")] == [0, 0, None]
    assert [cost(metrics, agent) for agent in ("code", "other", "ops")] == [0, 0, None]


def test_agent_that_nobody_named_is_another_one() -> None:
    metrics = Metrics("1")
    metrics.observe([report(0, Iteration())])

    assert iterations(metrics, "other") == 1


def test_findings_are_counted_by_kind_and_severity() -> None:
    metrics = counted(finding(0), finding(1), finding(2, "anomaly.outlier"))

    assert value(metrics, "safetyd_anomalies_total", kind="time_skew", severity="low") == 2
    assert value(metrics, "safetyd_anomalies_total", kind="outlier", severity="low") == 1


def answered(t: float, via: str, request_id: str = "req_1") -> Answered:
    return Answered(
        at=at(t),
        t=t,
        request_id=request_id,
        agent="code",
        id="p1",
        answer="denied",
        by="a",
        via=via,
    )


def test_the_time_that_people_take_is_counted_by_the_way_they_answer() -> None:
    metrics = Metrics("1", counters=Counters(asked={f"req_{n}": at(10) for n in range(3)}))

    vias = ("cli", 100), ("cli", 30), ("a\nforeign word", 30)
    metrics.observe([answered(t, via, f"req_{n}") for n, (via, t) in enumerate(vias)])

    name = "safetyd_time_to_decision_seconds"
    assert value(metrics, f"{name}_count", via="cli") == 2
    assert value(metrics, f"{name}_sum", via="cli") == 110
    assert value(metrics, f"{name}_bucket", via="cli", le="60") == 1
    assert value(metrics, f"{name}_count", via="bus") == 1


def test_the_time_that_people_take_by_link_is_counted_whatever_brought_it() -> None:
    metrics = Metrics("1", counters=Counters(asked={"req_1": at(10), "req_2": at(10)}))

    metrics.observe([answered(100, "link:email"), answered(30, "link:sms", "req_2")])

    assert value(metrics, "safetyd_time_to_decision_seconds_count", via="link") == 2


def test_messages_are_counted_by_channel_and_by_what_became_of_them() -> None:
    metrics = Metrics("1")

    metrics.observe([told(1), told(2), told(3, channel="sms"), not_told(4)])

    name = "safetyd_notify_deliveries_total"
    assert value(metrics, name, channel="email", outcome="accepted") == 2
    assert value(metrics, name, channel="sms", outcome="accepted") == 1
    assert value(metrics, name, channel="email", outcome="dead") == 1
    assert value(metrics, name, channel="sms", outcome="dead") is None


def test_an_answer_to_what_nobody_remembers_is_not_counted() -> None:
    metrics = Metrics("1")

    metrics.observe([answered(100, "cli")])

    assert value(metrics, "safetyd_time_to_decision_seconds_count", via="cli") == 0
