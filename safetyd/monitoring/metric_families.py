"""Build Prometheus families from plain numbers."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | InfoMetricFamily


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def gauge_by(label: str, name: str, text: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    """Return a gauge with one sample for each value of a label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family


def counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def counter_by(
    labels: tuple[str, ...], name: str, text: str, counts: Iterable[tuple[tuple[str, ...], float]]
) -> CounterMetricFamily:
    """Return a counter with one sample for each combination of labels."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family
