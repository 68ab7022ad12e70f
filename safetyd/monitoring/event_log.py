"""Writes restricted decisions, risky decisions and other events to the log (standard error)."""

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from time import gmtime
from typing import Final

from msgspec.structs import replace

from safetyd.clock import uptime
from safetyd.core.catalogue.catalogue import (
    is_refusal,
    repeats_a_decision,
    sentence_of,
    severity_of,
)
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event, Level
from safetyd.core.messages.verdict import Severity, strictest

ALLOWS_S: Final = 1.0

_LEVELS: Final[Mapping[Level, int]] = {
    "low": logging.INFO,
    "medium": logging.WARNING,
    "high": logging.ERROR,
    "critical": logging.ERROR,
}
log = logging.getLogger("safetyd")


def set_up(*, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    # The systemd journal adds the time itself.
    time = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s.%(msecs)03dZ "
    formatter = logging.Formatter(f"{time}%(levelname)-7s %(name)s: %(message)s")
    formatter.converter, formatter.default_time_format = gmtime, "%Y-%m-%dT%H:%M:%S"
    formatter.default_msec_format = ""
    handler.setFormatter(formatter)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    log.propagate = False


class EventLog:
    """Logs durable events.

    Each restricted decision and each event gets a line. Allowed actions of medium or higher risk
    share one line per agent, type and second, with a count and the last id. Allowed actions of low
    risk are logged only with --verbose. Texts of agents are not logged, only short names.
    """

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self._now = now
        self._since = 0.0
        # By agent and type: how many allowed actions are not logged yet, and the last one.
        self._allows: dict[tuple[str, str], tuple[int, Decided]] = {}

    def observe(self, events: Sequence[Event]) -> None:
        """Log events. This is called at least once a second, even without events."""
        verbose = log.isEnabledFor(logging.DEBUG)
        for event in events:
            if type(event) is Decided:
                if event.decision is not Severity.ALLOW or verbose:
                    _decision(event)
                elif event.risk != "low" and event.first:
                    self._allowed(event)
            elif type(event) is SafetyEvent and not repeats_a_decision(event):
                _happened(event)
        if self._allows and self._now() >= self._since + ALLOWS_S:
            self._count()

    def _allowed(self, event: Decided) -> None:
        key = event.agent, event.type
        known = self._allows.get(key)
        if known is not None:
            self._allows[key] = known[0] + 1, event
            return
        if not self._allows:
            self._since = self._now()
        self._allows[key] = 0, event
        _allow(event, 1)

    def _count(self) -> None:
        """Log the counts since the last line, and drop agents and types without new actions."""
        self._since = self._now()
        went_on = {key: last for key, last in self._allows.items() if last[0]}
        for count, event in went_on.values():
            _allow(event, count)
        self._allows = {key: (0, event) for key, (_, event) in went_on.items()}


def _decision(event: Decided) -> None:
    log.info(
        "%s agent=%s type=%r rule=%r id=%s seq=%d",
        event.decision,
        event.agent,
        event.type,
        strictest(event.verdicts).rule,
        event.id,
        event.seq,
    )


def _allow(event: Decided, count: int) -> None:
    log.info(
        "allow agent=%s type=%r risk=%s count=%d id=%s seq=%d",
        event.agent,
        event.type,
        event.risk,
        count,
        event.id,
        event.seq,
    )


def _happened(event: SafetyEvent) -> None:
    """Log an event. The reason of a refusal is omitted, because it contains text of the agent."""
    level = _LEVELS[severity_of(event)]
    if log.isEnabledFor(level):
        said = sentence_of(replace(event, reason="") if is_refusal(event) else event)
        log.log(level, "%s%s: %r", event.event_type, _facts(event), said)


def _facts(event: SafetyEvent) -> str:
    agent = "" if event.agent_id is None else f" agent={event.agent_id}"
    facts = {"breaker": event.breaker_id, **event.metadata}
    return agent + "".join(f" {k}={v!r}" for k, v in facts.items() if v is not None)
