"""Counters of journalled events: rounds and money by agent, anomalies, answers, deliveries.

They start at zero when the daemon starts. An amount is counted under the label that its agent has
at that time. It never moves to another label, because that would look like a counter reset.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from safetyd.core.actor import Hears, hearing, on
from safetyd.core.catalogue.catalogue import severity_of
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided, Reported, Settled
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.events.notification_events import NotTold, Told
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.money import nano, usd
from safetyd.core.messages.telemetry import Iteration
from safetyd.core.messages.verdict import Severity
from safetyd.monitoring.metric_families import counter_by

OTHER: Final = "other"  # the label of agents without their own label
# Rounds are counted separately for this many agents. All others share one count.
MAX_AGENTS: Final = 4096
MAX_ASKED: Final = 10_000  # maximum number of pending requests whose age is measured

# The ways in which operators answer. Unknown ways are counted as the last one.
VIAS: Final = ("cli", "tui", "web", "link", "sms", "desktop", "bus")
WAITS_S: Final = (10, 60, 300, 900, 3600, 14_400, 86_400, 604_800)

_DISPATCHED: Final = 0
_REPORTED: Final = 1


class Histogram:
    """A histogram with fixed buckets, without labels or locks."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        return self.put_in(HistogramMetricFamily(name, text))

    def put_in(self, family: HistogramMetricFamily, *labels: str) -> HistogramMetricFamily:
        """Add the buckets to a family, under these labels."""
        total, buckets = 0, []
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((str(bound), float(total)))
        family.add_metric(labels, buckets, self._sum)
        return family


class Counters:
    """Counters of events. `label` returns an agent's label, `labels` the labels to always show.

    `asked` contains the requests that are pending at the start, and when each was opened.
    """

    def __init__(
        self,
        label: Callable[[str], str] = lambda _agent: OTHER,
        labels: Callable[[], Iterable[str]] = tuple,
        asked: Mapping[str, datetime] = MappingProxyType({}),
    ) -> None:
        self._rounds: dict[str, list[int]] = {}  # dispatched and reported, by agent
        self._iterations: Counter[str] = Counter()
        self._spent_nano: Counter[str] = Counter()
        self._anomalies: Counter[tuple[str, str]] = Counter()  # by kind and severity
        self._waits = {via: Histogram(WAITS_S) for via in VIAS}
        self._messages: Counter[tuple[str, str]] = Counter()  # by channel and outcome
        self._events: Counter[tuple[str, str]] = Counter()  # SafetyEvents, by type and severity
        self._label = label
        self._labels = labels
        self._asked = dict(asked)
        self.counts: Hears = hearing(
            on(SafetyEvent, self._notified),
            on(Settled, self._settled),
            on(Reported, self._reported),
            on(AnomalyFound, self._anomaly),
            on(Answered, self._answered),
            on(Told, self._messaged),
            on(NotTold, self._messaged),
        )

    def dispatched(self, event: Decided) -> None:
        if event.first and event.decision is Severity.ALLOW:
            self._round(event.agent, _DISPATCHED)

    def _reported(self, event: Reported) -> None:
        if type(event.telemetry) is Iteration:
            self._round(event.agent, _REPORTED)

    def _settled(self, event: Settled) -> None:
        """Count the reported cost or the price of the tokens, whichever is higher."""
        cost = max(nano(event.cost_usd or 0.0), event.priced_nano or 0)
        if cost:
            self._spent_nano[self._label(event.agent)] += cost

    def _anomaly(self, event: AnomalyFound) -> None:
        self._anomalies[event.rule.removeprefix("anomaly."), event.severity] += 1

    def asked(self, request_id: str, at: datetime) -> None:
        """Store when a request was opened. If there are too many, drop the oldest."""
        self._asked.setdefault(request_id, at)
        if len(self._asked) > MAX_ASKED:
            del self._asked[next(iter(self._asked))]

    def _answered(self, event: Answered) -> None:
        """Record how long the answer took."""
        asked_at = self._asked.pop(event.request_id, None)
        if asked_at is not None:
            waited_s = (event.at - asked_at).total_seconds()
            via, _, _ = event.via.partition(":")  # link:email
            self._waits.get(via, self._waits["bus"]).add(max(waited_s, 0.0))

    def _messaged(self, event: Told | NotTold) -> None:
        self._messages[event.channel, event.state] += 1

    def _notified(self, event: SafetyEvent) -> None:
        self._events[event.event_type, severity_of(event)] += 1

    def families(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        spent = {label: usd(amount) for label, amount in self._spent_nano.items()}
        yield self._by_agent("safetyd_iterations", "Rounds proposed or reported.", self._iterations)
        yield self._by_agent("safetyd_cost_usd", "Cost of outcomes in US dollars.", spent)
        yield counter_by(
            ("kind", "severity"), "safetyd_anomalies", "Anomalies found.", self._anomalies.items()
        )
        waits = HistogramMetricFamily(
            "safetyd_time_to_decision_seconds", "From request to answer.", labels=["via"]
        )
        for via, histogram in self._waits.items():
            histogram.put_in(waits, via)
        yield waits
        yield counter_by(
            ("channel", "outcome"),
            "safetyd_notify_deliveries",
            "Notifications by outcome.",
            self._messages.items(),
        )
        yield counter_by(
            ("type", "severity"), "safetyd_events", "SafetyEvents published.", self._events.items()
        )

    def _round(self, agent: str, which: int) -> None:
        """Count a round only once, even if the agent both proposes and reports it."""
        known = agent in self._rounds or len(self._rounds) < MAX_AGENTS
        rounds = self._rounds.setdefault(agent if known else "", [0, 0])
        before = max(rounds)
        rounds[which] += 1
        if rounds[which] > before:
            self._iterations[self._label(agent)] += 1

    def _by_agent(self, name: str, text: str, counts: Mapping[str, float]) -> CounterMetricFamily:
        # A series must start at zero, otherwise `rate()` misses its first increase.
        known = {**dict.fromkeys((OTHER, *self._labels()), 0), **counts}
        return counter_by(("agent",), name, text, (((key,), count) for key, count in known.items()))
