"""Gauges of the engine's state, computed at each scrape.

The number of labels is limited. Agents and breakers without their own label share the label
`other`, which shows the maximum of their values.
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
from safetyd.monitoring.metric_families import gauge, gauge_by

MAX_BREAKERS: Final = 100  # maximum number of breakers with their own label
STATES: Final = {"closed": 0, "half_open": 1, "open": 2}
SLICE: Final = 200  # agents per slice, which takes about a millisecond
SCOPES: Final = ("chain", "session", "day")


class ChannelHealth(Protocol):
    """The state of a notification channel."""

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
    """Computes gauges. `policy` returns the policy in force, `keyed` the agents with a key."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        keyed: Callable[[], Collection[str]],
        channels: Callable[[], Iterable[ChannelHealth]] = tuple,
    ) -> None:
        self._policy = policy
        self._keyed = keyed
        self._breakers: dict[str, None] = {}  # breakers with their own label, in order
        self._channels_now = channels

    def label(self, agent: str) -> str:
        """Return the agent's name if the configuration or a key names it, else `other`."""
        policy = self._policy()
        named = policy.agents, policy.iterations.agents, self._keyed()
        return agent if any(agent in names for names in named) else OTHER

    def labels(self) -> set[str]:
        """Return the agents with their own label."""
        policy = self._policy()
        return {*policy.agents, *policy.iterations.agents, *self._keyed()}

    def families(self, state: EngineState, moment: Moment) -> Iterator[GaugeMetricFamily | None]:
        """Yield all gauges. None marks a place where the caller may pause."""
        guards = state.guards
        yield gauge(
            "autonomy_safe_mode_active",
            "1 while any agent is in safe mode.",
            guards.safe_mode.status(None, moment.t).active,
        )
        yield gauge(
            "safetyd_seconds_since_human",
            "Seconds since an operator was last present.",
            guards.anomaly.since_human_s(moment.t),
        )
        yield from _requests(state, moment)
        yield from self._channels()
        yield self._breaker_states(state)
        yield from _budgets(state, moment)
        yield from self._agents(state, moment.t)

    def _channels(self) -> Iterator[GaugeMetricFamily]:
        channels = list(self._channels_now())
        for name, text, value in (
            ("queue_depth", "Notifications queued or being sent.", _queued),
            ("oldest_pending_seconds", "Age of the oldest queued notification.", _oldest_s),
            ("up", "0 while a channel is down.", lambda one: one.up),
            (
                "refused_answers",
                "Answers refused since the channel opened.",
                lambda one: one.refused,
            ),
        ):
            values = {one.name: value(one) for one in channels}
            yield gauge_by("channel", f"safetyd_notify_{name}", text, values)

    def _breaker_states(self, state: EngineState) -> GaugeMetricFamily:
        highest: dict[str, float] = {}
        for breaker, now in state.guards.breaker.states():
            if len(self._breakers) < MAX_BREAKERS:
                self._breakers[breaker] = None
            label = visible(breaker) if breaker in self._breakers else OTHER
            _raise(highest, label, STATES[now])
        text = "0 closed, 1 half open, 2 open."
        return gauge_by("breaker", "safetyd_breaker_state", text, highest)

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
            ("safetyd_error_ratio", "Share of errors among the last outcomes.", errors),
            ("safetyd_files_per_commit", "Files changed by the last commit.", files),
            ("safetyd_repeated_actions", "How often the last action was repeated.", repeated),
        ):
            yield gauge_by("agent", name, text, values)


def _requests(state: EngineState, moment: Moment) -> Iterator[GaugeMetricFamily]:
    approvals = state.approvals
    oldest = next(approvals.pending(), None)
    waited_s = 0.0 if oldest is None else (moment.at - oldest.asked.at).total_seconds()
    yield gauge("safetyd_requests_pending", "Pending requests.", approvals.pending_count())
    yield gauge(
        "safetyd_request_oldest_seconds", "Age of the oldest pending request.", max(waited_s, 0.0)
    )
    yield gauge(
        "safetyd_requests_unnotified",
        "Pending requests that no recipient was notified of.",
        state.outbox.unnotified(moment.at),
    )


def _budgets(state: EngineState, moment: Moment) -> Iterator[GaugeMetricFamily]:
    """Yield gauges of the daily budget and of the chain and session nearest to their limits."""
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
        ("reserved", "Reserved in the fullest budget.", reserved),
        ("limit", "Limit of the fullest budget, if it has one.", limit),
    ):
        yield gauge_by("scope", f"safetyd_budget_{what}_usd", text, amounts)


def _fill(standing: Standing) -> tuple[float, int]:
    """Return a sort key: the used share of the limit, then the used amount."""
    used, limit = standing.account.used, standing.limit
    return (used / limit if limit else 0.0), used


def _raise(highest: dict[str, float], label: str, value: float) -> None:
    highest[label] = max(highest.get(label, value), value)


def _queued(channel: ChannelHealth) -> float:
    return channel.waiting_high + channel.waiting_normal + channel.under_way


def _oldest_s(channel: ChannelHealth) -> float:
    return channel.oldest_s or 0.0
