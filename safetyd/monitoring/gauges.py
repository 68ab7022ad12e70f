"""What the guards know, as numbers for Prometheus: read when scraped, kept by nobody.

Labels come from bounded sets. What has none of its own is `other`, and shows the highest of all.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Protocol

from prometheus_client.core import GaugeMetricFamily

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.limits import Standing
from safetyd.core.messages.money import usd
from safetyd.core.policy import Policy
from safetyd.core.text.visible_text import visible
from safetyd.monitoring.counters import OTHER

MAX_BREAKERS: Final = 100  # with a label of their own
STATES: Final = {"closed": 0, "half_open": 1, "open": 2}
SLICE: Final = 200  # agents, in about a millisecond
SCOPES: Final = ("chain", "session", "day")


class ChannelHealth(Protocol):
    """What is known of a channel to people."""

    @property
    def name(self) -> str: ...
    @property
    def up(self) -> bool: ...
    @property
    def waiting_high(self) -> int: ...
    @property
    def waiting_normal(self) -> int: ...
    @property
    def under_way(self) -> int: ...
    @property
    def oldest_s(self) -> float | None: ...
    @property
    def refused(self) -> int: ...


class Gauges:
    """`policy` is the one in force, `keyed` are the agents whose names are protected by a key."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        keyed: Callable[[], Collection[str]],
        channels: Callable[[], Iterable[ChannelHealth]] = tuple,
    ) -> None:
        self._policy = policy
        self._keyed = keyed
        self._breakers: dict[str, None] = {}  # the first that were seen
        self._channels_now = channels

    def label(self, agent: str) -> str:
        """Return an agent's own name if an operator has named it, by a table or a key."""
        policy = self._policy()
        named = policy.agents, policy.iterations.agents, self._keyed()
        return agent if any(agent in names for names in named) else OTHER

    def labels(self) -> set[str]:
        """Return the labels of all agents that an operator has named."""
        policy = self._policy()
        return {*policy.agents, *policy.iterations.agents, *self._keyed()}

    def families(self, state: EngineState, moment: Moment) -> Iterator[GaugeMetricFamily | None]:
        """Yield what is known now, and None where others may have their turn."""
        guards = state.guards
        yield _family(
            "autonomy_safe_mode_active",
            "1 while anybody is in safe mode.",
            [((), guards.safe_mode.status(None, moment.t).active)],
        )
        yield _family(
            "safetyd_seconds_since_human",
            "Since a person was last seen.",
            [((), guards.anomaly.since_human_s(moment.t))],
        )
        yield from _requests(state, moment)
        yield from self._channels()
        yield self._breaker_states(state)
        yield from _budgets(state, moment)
        yield from self._agents(state, moment.t)

    def _channels(self) -> Iterator[GaugeMetricFamily]:
        waiting: dict[str, float] = {}
        oldest: dict[str, float] = {}
        up: dict[str, float] = {}
        refused: dict[str, float] = {}
        for state in self._channels_now():
            waiting[state.name] = state.waiting_high + state.waiting_normal + state.under_way
            oldest[state.name] = state.oldest_s or 0.0
            up[state.name] = state.up
            refused[state.name] = state.refused
        for name, text, values in (
            ("safetyd_notify_queue_depth", "Messages that are being tried.", waiting),
            ("safetyd_notify_oldest_pending_seconds", "How long the oldest is tried.", oldest),
            ("safetyd_notify_up", "0 while a channel takes nothing.", up),
            (
                "safetyd_notify_refused_answers",
                "Answers of other people, since it was opened.",
                refused,
            ),
        ):
            yield _family(name, text, _labelled(values), "channel")

    def _breaker_states(self, state: EngineState) -> GaugeMetricFamily:
        highest: dict[str, float] = {}
        for breaker, now in state.guards.breaker.states():
            if len(self._breakers) < MAX_BREAKERS:
                self._breakers[breaker] = None
            label = visible(breaker) if breaker in self._breakers else OTHER
            _raise(highest, label, STATES[now])
        text = "0 closed, 1 half open, 2 open."
        return _family("safetyd_breaker_state", text, _labelled(highest), "breaker")

    def _agents(self, state: EngineState, t: float) -> Iterator[GaugeMetricFamily | None]:
        guard = state.guards.anomaly
        errors: dict[str, float] = {}
        files: dict[str, float] = {}
        repeated: dict[str, float] = {}
        for number, agent in enumerate(guard.agents, 1):
            if number % SLICE == 0:
                yield None
            label, of = self.label(agent), guard.gauges(agent, t)
            _raise(errors, label, of.error_ratio)
            _raise(files, label, of.files_per_commit)
            _raise(repeated, label, of.repeated_action)
        for name, text, values in (
            ("safetyd_error_ratio", "Errors among the last outcomes.", errors),
            ("safetyd_files_per_commit", "Files that the last commit changed.", files),
            ("safetyd_repeated_actions", "How often in a row the last action.", repeated),
        ):
            yield _family(name, text, _labelled(values), "agent")


def _requests(state: EngineState, moment: Moment) -> Iterator[GaugeMetricFamily]:
    approvals = state.approvals
    oldest = next(approvals.pending(), None)
    waited_s = 0.0 if oldest is None else (moment.at - oldest.asked.at).total_seconds()
    yield _family(
        "safetyd_requests_pending",
        "Requests that wait for a person.",
        [((), approvals.pending_count())],
    )
    yield _family(
        "safetyd_request_oldest_seconds",
        "How long the oldest of them has waited.",
        [((), max(waited_s, 0.0))],
    )
    yield _family(
        "safetyd_requests_unnotified",
        "Requests of which somebody should know and nobody does.",
        [((), state.outbox.unnotified(moment.at))],
    )


def _budgets(state: EngineState, moment: Moment) -> Iterator[GaugeMetricFamily]:
    """Yield the day's budget and, of chains and sessions, the fullest of each."""
    standings = list(state.guards.budget.standings(moment.at))
    fullest = {
        scope: max(found, key=_fill)
        for scope in SCOPES
        if (found := [standing for standing in standings if standing.scope == scope])
    }
    spent = {scope: usd(found.spent) for scope, found in fullest.items()}
    reserved = {scope: usd(found.reserved) for scope, found in fullest.items()}
    limit = {scope: usd(found.limit) for scope, found in fullest.items() if found.limit}
    for what, text, amounts in (
        ("spent", "Spent in the fullest budget.", spent),
        ("reserved", "Set aside in the same.", reserved),
        ("limit", "What the same permits, if it has a limit.", limit),
    ):
        yield _family(f"safetyd_budget_{what}_usd", text, _labelled(amounts), "scope")


def _fill(standing: Standing) -> tuple[float, int]:
    """Return how full a budget is; of those without a limit, the one with more in it is fuller."""
    used, limit = standing.account.used, standing.limit
    return (used / limit if limit else 0.0), used


def _raise(highest: dict[str, float], label: str, value: float) -> None:
    highest[label] = max(highest.get(label, value), value)


def _labelled(values: dict[str, float]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((label,), value) for label, value in values.items())


def _family(
    name: str, text: str, samples: Iterable[tuple[tuple[str, ...], float]], *labels: str
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family
