"""Counts that grow by what was journalled: rounds and money by agent, findings, people's answers.

They begin at zero with the daemon. An amount belongs to the label that its agent had at the time,
because a counter that loses something to another one would look as if it had begun anew.
"""

from bisect import bisect_left
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

OTHER: Final = "other"  # every agent without a label of its own
# Names whose rounds are told apart; telemetry alone may bring further ones, which share.
MAX_AGENTS: Final = 4096
MAX_ASKED: Final = 10_000  # requests whose age is known

# How people answer; what says something else of itself counts as the last.
VIAS: Final = ("cli", "tui", "web", "link", "sms", "desktop", "bus")
WAITS_S: Final = (10, 60, 300, 900, 3600, 14_400, 86_400, 604_800)

_DISPATCHED: Final = 0
_REPORTED: Final = 1


class Histogram:
    """Buckets with upper bounds, counted without labels or locks."""

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
        """Add what was counted to a family, under these labels."""
        total, buckets = 0, []
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((str(bound), float(total)))
        family.add_metric(labels, buckets, self._sum)
        return family


class Counters:
    """Counts of events. `label` names the series of an agent, `labels` those that always exist.

    `asked` are the requests that are pending at the start, and when each was asked.
    """

    def __init__(
        self,
        label: Callable[[str], str] = lambda _agent: OTHER,
        labels: Callable[[], Iterable[str]] = tuple,
        asked: Mapping[str, datetime] = MappingProxyType({}),
    ) -> None:
        self._rounds: dict[str, list[int]] = {}  # dispatched and reported, by agent
        self._iterations: dict[str, int] = {}
        self._spent_nano: dict[str, int] = {}
        self._found: dict[tuple[str, str], int] = {}
        self._waits = {via: Histogram(WAITS_S) for via in VIAS}
        self._messages: dict[tuple[str, str], int] = {}  # by channel and what became of them
        self._events: dict[tuple[str, str], int] = {}  # SafetyEvents, by type and severity
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
        """Count the larger of what an outcome says that it cost and what its tokens cost."""
        cost = max(nano(event.cost_usd or 0.0), event.priced_nano or 0)
        if cost:
            label = self._label(event.agent)
            self._spent_nano[label] = self._spent_nano.get(label, 0) + cost

    def _anomaly(self, event: AnomalyFound) -> None:
        key = event.rule.removeprefix("anomaly."), event.severity
        self._found[key] = self._found.get(key, 0) + 1

    def asked(self, request_id: str, at: datetime) -> None:
        """Note when a person was first asked; of too many requests the oldest is forgotten."""
        self._asked.setdefault(request_id, at)
        if len(self._asked) > MAX_ASKED:
            del self._asked[next(iter(self._asked))]

    def _answered(self, event: Answered) -> None:
        """Count how long a person took."""
        asked_at = self._asked.pop(event.request_id, None)
        if asked_at is not None:
            waited_s = (event.at - asked_at).total_seconds()
            via, _, _ = event.via.partition(":")  # link:email
            self._waits.get(via, self._waits["bus"]).add(max(waited_s, 0.0))

    def _messaged(self, event: Told | NotTold) -> None:
        key = event.channel, event.state
        self._messages[key] = self._messages.get(key, 0) + 1

    def _notified(self, event: SafetyEvent) -> None:
        key = event.event_type, severity_of(event)
        self._events[key] = self._events.get(key, 0) + 1

    def families(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        spent = {label: usd(amount) for label, amount in self._spent_nano.items()}
        yield self._by_agent("safetyd_iterations", "Rounds begun or told of.", self._iterations)
        yield self._by_agent("safetyd_cost_usd", "What outcomes cost, in US dollars.", spent)
        found = CounterMetricFamily(
            "safetyd_anomalies", "What the detectors found.", labels=["kind", "severity"]
        )
        for labels, count in self._found.items():
            found.add_metric(labels, count)
        yield found
        waits = HistogramMetricFamily(
            "safetyd_time_to_decision_seconds", "From asking to a person's answer.", labels=["via"]
        )
        for via, histogram in self._waits.items():
            histogram.put_in(waits, via)
        yield waits
        messages = CounterMetricFamily(
            "safetyd_notify_deliveries", "What became of messages.", labels=["channel", "outcome"]
        )
        for labels, count in self._messages.items():
            messages.add_metric(labels, count)
        yield messages
        events = CounterMetricFamily(
            "safetyd_events",
            "SafetyEvents that people are notified of.",
            labels=["type", "severity"],
        )
        for labels, count in self._events.items():
            events.add_metric(labels, count)
        yield events

    def _round(self, agent: str, which: int) -> None:
        """Count a round once, though an agent may both ask for it and tell of it."""
        known = agent in self._rounds or len(self._rounds) < MAX_AGENTS
        rounds = self._rounds.setdefault(agent if known else "", [0, 0])
        before = max(rounds)
        rounds[which] += 1
        if rounds[which] > before:
            label = self._label(agent)
            self._iterations[label] = self._iterations.get(label, 0) + 1

    def _by_agent(self, name: str, text: str, counts: Mapping[str, float]) -> CounterMetricFamily:
        family = CounterMetricFamily(name, text, labels=["agent"])
        # A series that began above zero would hide its beginning from a rate.
        for label, count in {**dict.fromkeys((OTHER, *self._labels()), 0), **counts}.items():
            family.add_metric([label], count)
        return family
