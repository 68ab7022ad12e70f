"""How far each outlet is behind the journal, for Prometheus."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from safetyd.monitoring.outlet_state import OutletState


def outlet_families(
    states: Sequence[OutletState],
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """Yield nothing where no outlet is set up."""
    if not states:
        return
    labels = ["outlet"]
    lag = GaugeMetricFamily(
        "safetyd_outlet_lag_events", "Events that an outlet does not have yet.", labels=labels
    )
    success = GaugeMetricFamily(
        "safetyd_outlet_last_success_timestamp_seconds",
        "When an outlet last took events, or had them all; 0 before.",
        labels=labels,
    )
    errors = CounterMetricFamily(
        "safetyd_outlet_errors", "Tries that an outlet did not take.", labels=labels
    )
    for state in states:
        lag.add_metric([state.name], state.behind)
        last = state.last_success
        success.add_metric([state.name], 0.0 if last is None else last.timestamp())
        errors.add_metric([state.name], state.errors)
    yield from (lag, success, errors)
