"""Metrics for Prometheus. They are plain numbers, and are formatted only at a scrape."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.daemon_events import DiskLevel, DiskUse
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event, Moment
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Cause, Severity
from safetyd.monitoring.counters import Counters, Histogram
from safetyd.monitoring.metric_families import Family, counter, counter_by, gauge, gauge_by

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
DISK_LEVELS: Final[tuple[DiskLevel, ...]] = ("good", "warn", "critical")
SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500)


class Sources(NamedTuple):
    """Functions that are called at each scrape."""

    stopped: Callable[[], bool] = bool
    malformed: Callable[[], int] = int
    audit_bytes: Callable[[], int] = int
    guards: Callable[[], Sequence[str]] = tuple
    reload_ok: Callable[[], bool] = lambda: True
    gauges: Callable[[EngineState, Moment], Iterable[GaugeMetricFamily | None]] = (
        lambda _state, _moment: ()
    )
    disk: Callable[[], DiskUse | None] = lambda: None
    ready: Callable[[], bool] = lambda: True
    bus_up: Callable[[], bool] = lambda: True
    reconnects: Callable[[], int] = int
    over_limits: Callable[[], Mapping[str, int]] = dict
    more: Callable[[], Iterable[Family]] = tuple


class GaugeText(msgspec.Struct, frozen=True):
    """Gauges of the engine's state as text."""

    text: str


class Metrics:
    """All metrics."""

    def __init__(
        self, version: str, sources: Sources | None = None, counters: Counters | None = None
    ) -> None:
        self._version = version
        self._sources = sources or Sources()
        self._counters = counters or Counters()
        self._decisions: Counter[tuple[Severity, Cause]] = Counter()
        self._verdicts: Counter[tuple[str, Severity]] = Counter()
        self._judged = 0
        self._seconds = Histogram(SECONDS)
        self._append_seconds = Histogram(SECONDS)
        self._batch_events = Histogram(SIZES)

    def decided(self, decision: Decision, seconds: float) -> None:
        self._decisions[decision.decision, decision.cause] += 1
        self._seconds.add(seconds)

    def refused(self, cause: Cause) -> None:
        self._decisions[Severity.BLOCK, cause] += 1

    def observe(self, events: Sequence[Event]) -> None:
        """Count durable events."""
        for event in events:
            if type(event) is Decided:
                self._judged += 1
                for verdict in event.verdicts:
                    self._verdicts[verdict.guard, verdict.decision] += 1
                if event.type == "dispatch":
                    self._counters.dispatched(event)
                if event.asks is not None:
                    self._counters.asked(event.asks.request_id, event.at)
            elif (count := self._counters.counts.get(type(event))) is not None:
                count(event)

    def appended(self, seconds: float, events: int) -> None:
        self._append_seconds.add(seconds)
        self._batch_events.add(events)

    def counts(self) -> dict[Severity, int]:
        """Return how many decisions of each kind were sent since the start."""
        counts = dict.fromkeys(Severity, 0)
        for (severity, _), count in self._decisions.items():
            counts[severity] += count
        return counts

    def slices(self) -> Iterator[bytes]:
        """Yield the families that do not need the engine's state, as text, one at a time."""
        for family in self._families():
            yield generate_latest(_Only(family))

    def gauges(self, state: EngineState, moment: Moment) -> Generator[None, Moment, GaugeText]:
        """Return the gauges of the engine's state. Yield between slices."""
        text = []
        for family in self._sources.gauges(state, moment):
            if family is None:
                yield
            else:
                text.append(generate_latest(_Only(family)).decode())
        return GaugeText("".join(text))

    def _families(self) -> Iterator[Family]:
        sources = self._sources
        yield counter_by(
            ("decision", "cause"), "safetyd_decisions", "Decisions sent.", self._decisions.items()
        )
        yield self._seconds.family("safetyd_decision_seconds", "From receipt to reply.")
        yield self._guard_verdicts()
        yield self._append_seconds.family("safetyd_journal_append_seconds", "One durable append.")
        yield self._batch_events.family("safetyd_journal_batch_events", "Events in one append.")
        yield gauge("safetyd_ready", "0 while proposals cannot be answered.", sources.ready())
        yield gauge("safetyd_bus_up", "0 while the bus does not answer.", sources.bus_up())
        yield counter("safetyd_bus_reconnects", "Reconnections to the bus.", sources.reconnects())
        yield counter_by(
            ("limit",),
            "safetyd_sender_over_limit",
            "How often a sender was over one of its limits.",
            (((limit,), count) for limit, count in sorted(sources.over_limits().items())),
        )
        yield gauge("safetyd_emergency_stop_active", "1 while a stop is active.", sources.stopped())
        yield gauge(
            "safetyd_config_last_reload_successful",
            "0 after a rejected reload.",
            sources.reload_ok(),
        )
        yield counter("safetyd_malformed", "Malformed messages.", sources.malformed())
        yield counter(
            "safetyd_audit_bytes", "Bytes written to the audit files.", sources.audit_bytes()
        )
        if (use := sources.disk()) is not None:
            yield from _disk(use)
        yield from sources.more()
        yield from self._counters.families()
        yield InfoMetricFamily("safetyd_build", "safetyd.", value={"version": self._version})

    def _guard_verdicts(self) -> CounterMetricFamily:
        family = CounterMetricFamily(
            "safetyd_guard_verdicts", "Verdicts of each guard.", labels=["guard", "decision"]
        )
        for guard in self._sources.guards():
            restricted = 0
            for severity in (Severity.ASK, Severity.BLOCK):
                count = self._verdicts[guard, severity]
                restricted += count
                family.add_metric([guard, severity], count)
            family.add_metric([guard, Severity.ALLOW], max(0, self._judged - restricted))
        return family


class _Only(CollectorRegistry):
    """A Prometheus registry with a single family."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family


def _disk(use: DiskUse) -> Iterator[GaugeMetricFamily]:
    yield gauge("safetyd_disk_free_bytes", "Bytes that safetyd can still write.", use.free_bytes)
    yield gauge("safetyd_disk_total_bytes", "Size of the disk.", use.total_bytes)
    level = DISK_LEVELS.index(use.level)
    yield gauge("safetyd_disk_level", "0 good, 1 filling, 2 nearly full.", level)
    yield gauge_by("part", "safetyd_data_bytes", "Size of the data directory.", use.parts)
