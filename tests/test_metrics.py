from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from safetyd.core.engine import Engine
from safetyd.core.policy import Policy
from safetyd.metrics import Metrics
from tests.play import ask, play, propose, stop

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
    "safetyd_build_info": ("gauge", {"version"}),
}


def scrape(metrics: Metrics) -> dict[str, Metric]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {family.name: family for family in families}


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    """Return one sample's value, None if it is not there."""
    for family in scrape(metrics).values():
        for found in family.samples:
            if found.name == sample and found.labels == labels:
                return found.value
    return None


def busy() -> Metrics:
    """Metrics that have seen one of everything."""
    metrics, engine = Metrics("1.2.3"), Engine(Policy())
    metrics.guards = lambda: engine.guard_names
    decision = ask(engine, propose(0))
    metrics.decided(decision, 0.002)
    metrics.refused("malformed")
    metrics.appended(0.001, 3)
    metrics.observe(play(engine, propose(1, id="p2"), stop(2), propose(3, id="p3")))
    return metrics


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
    metrics = Metrics("1")
    before = value(metrics, "safetyd_emergency_stop_active")

    metrics.stopped = lambda: True
    metrics.reload_ok = False
    metrics.malformed = lambda: 9

    assert before == 0
    assert value(metrics, "safetyd_emergency_stop_active") == 1
    assert value(metrics, "safetyd_config_last_reload_successful") == 0
    assert value(metrics, "safetyd_malformed_total") == 9


def test_build_names_the_version() -> None:
    assert value(busy(), "safetyd_build_info", version="1.2.3") == 1


def test_scraping_changes_nothing() -> None:
    metrics = busy()

    assert metrics.render() == metrics.render()
