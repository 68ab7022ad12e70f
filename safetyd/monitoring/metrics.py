"""Counts for Prometheus: plain numbers on the path of a decision, labelled only when scraped."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.daemon_events import DiskLevel, DiskUse
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event, Moment
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Cause, Severity
from safetyd.monitoring.counters import Counters, Histogram

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
DISK_LEVELS: Final[tuple[DiskLevel, ...]] = ("good", "warn", "critical")
SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500)

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | InfoMetricFamily


class Sources(NamedTuple):
    """Whom the gauges ask; each is a function, asked when somebody scrapes."""

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
    more: Callable[[], Iterable[Family]] = tuple


class GaugeText(msgspec.Struct, frozen=True):
    """What the engine's state says, as text."""

    text: str


class Metrics:
    """Everything that is scraped."""

    def __init__(
        self, version: str, sources: Sources | None = None, counters: Counters | None = None
    ) -> None:
        self._version = version
        self._sources = sources or Sources()
        self._counters = counters or Counters()
        self._decisions: dict[tuple[Severity, Cause], int] = {}
        self._verdicts: dict[tuple[str, Severity], int] = {}
        self._judged = 0
        self._seconds = Histogram(SECONDS)
        self._append_seconds = Histogram(SECONDS)
        self._batch_events = Histogram(SIZES)

    def decided(self, decision: Decision, seconds: float) -> None:
        key = decision.decision, decision.cause
        self._decisions[key] = self._decisions.get(key, 0) + 1
        self._seconds.add(seconds)

    def refused(self, cause: Cause) -> None:
        key = Severity.BLOCK, cause
        self._decisions[key] = self._decisions.get(key, 0) + 1

    def observe(self, events: Sequence[Event]) -> None:
        """Take note of what was journalled."""
        for event in events:
            if type(event) is Decided:
                self._judged += 1
                for verdict in event.verdicts:
                    key = verdict.guard, verdict.decision
                    self._verdicts[key] = self._verdicts.get(key, 0) + 1
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
        """Return how many decisions of each kind left since the start."""
        counts = dict.fromkeys(Severity, 0)
        for (severity, _), count in self._decisions.items():
            counts[severity] += count
        return counts

    def slices(self) -> Iterator[bytes]:
        """Yield what is known without the engine's state, a piece at a time."""
        for family in self._families():
            yield generate_latest(_Only(family))

    def gauges(self, state: EngineState, moment: Moment) -> Generator[None, Moment, GaugeText]:
        """Return what the engine's state says; pause where others may have their turn."""
        text = []
        for family in self._sources.gauges(state, moment):
            if family is None:
                yield
            else:
                text.append(generate_latest(_Only(family)).decode())
        return GaugeText("".join(text))

    def _families(self) -> Iterator[Family]:
        yield self._decision_counts()
        yield self._seconds.family("safetyd_decision_seconds", "From receipt to reply.")
        yield self._guard_verdicts()
        yield self._append_seconds.family("safetyd_journal_append_seconds", "One durable append.")
        yield self._batch_events.family("safetyd_journal_batch_events", "Events in one append.")
        yield from self._bus()
        yield _gauge(
            "safetyd_emergency_stop_active", "1 while any stop holds.", self._sources.stopped()
        )
        yield _gauge(
            "safetyd_config_last_reload_successful",
            "0 after a refused reload.",
            self._sources.reload_ok(),
        )
        malformed = CounterMetricFamily("safetyd_malformed", "Messages that were not understood.")
        malformed.add_metric([], self._sources.malformed())
        yield malformed
        audit = CounterMetricFamily("safetyd_audit_bytes", "Bytes written to the audit files.")
        audit.add_metric([], self._sources.audit_bytes())
        yield audit
        yield from self._disk()
        yield from self._sources.more()
        yield from self._counters.families()
        yield InfoMetricFamily("safetyd_build", "What runs here.", value={"version": self._version})

    def _decision_counts(self) -> CounterMetricFamily:
        family = CounterMetricFamily(
            "safetyd_decisions", "Decisions that left.", labels=["decision", "cause"]
        )
        for (severity, cause), count in self._decisions.items():
            family.add_metric([severity, cause], count)
        return family

    def _bus(self) -> Iterator[Family]:
        sources = self._sources
        yield _gauge("safetyd_ready", "0 while no proposal would be answered.", sources.ready())
        yield _gauge("safetyd_bus_up", "0 while the bus is not heard.", sources.bus_up())
        reconnects = CounterMetricFamily("safetyd_bus_reconnects", "Connections made anew.")
        reconnects.add_metric([], sources.reconnects())
        yield reconnects

    def _disk(self) -> Iterator[GaugeMetricFamily]:
        use = self._sources.disk()
        if use is None:
            return
        yield _gauge(
            "safetyd_disk_free_bytes",
            "What can still be written where the data directory is.",
            use.free_bytes,
        )
        yield _gauge(
            "safetyd_disk_total_bytes", "What could be if nothing else was.", use.total_bytes
        )
        level = DISK_LEVELS.index(use.level)
        yield _gauge("safetyd_disk_level", "0 good, 1 filling, 2 nearly full.", level)
        parts = GaugeMetricFamily(
            "safetyd_data_bytes", "What the data directory has on disk.", labels=["part"]
        )
        for part, count in use.parts.items():
            parts.add_metric([part], count)
        yield parts

    def _guard_verdicts(self) -> CounterMetricFamily:
        family = CounterMetricFamily(
            "safetyd_guard_verdicts", "What each guard said.", labels=["guard", "decision"]
        )
        for guard in self._sources.guards():
            restricted = 0
            for severity in (Severity.ASK, Severity.BLOCK):
                count = self._verdicts.get((guard, severity), 0)
                restricted += count
                family.add_metric([guard, severity], count)
            family.add_metric([guard, Severity.ALLOW], max(0, self._judged - restricted))
        return family


class _Only(CollectorRegistry):
    """A registry of one family."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], float(value))
    return family
