"""The log on standard error: what was restricted, and what is not an event."""

import logging
import os
import sys
from collections.abc import Sequence
from time import gmtime

from safetyd.core.events import Decided, Event, Resumed, SafetyEvent, Stopped
from safetyd.core.verdict import Severity, strictest

log = logging.getLogger("safetyd")


def set_up(*, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    # The journal of systemd puts the time before each line itself.
    time = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s.%(msecs)03dZ "
    formatter = logging.Formatter(f"{time}%(levelname)-7s %(name)s: %(message)s")
    formatter.converter, formatter.default_time_format = gmtime, "%Y-%m-%dT%H:%M:%S"
    formatter.default_msec_format = ""
    handler.setFormatter(formatter)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    log.propagate = False


def observe(events: Sequence[Event]) -> None:
    """Write one line per decision that restricted, and per stop."""
    for event in events:
        if type(event) is Decided:
            if event.decision is not Severity.ALLOW or log.isEnabledFor(logging.DEBUG):
                _decision(event)
        elif isinstance(event, Stopped | Resumed):
            said = "stopped" if isinstance(event, Stopped) else "resumed"
            log.warning("%s by=%r agent=%s reason=%r", said, event.by, event.agent, event.reason)
        elif isinstance(event, SafetyEvent) and event.event_type.startswith(("CONFIG", "CLOCK")):
            log.info("%s: %r", event.event_type, event.reason)


def _decision(event: Decided) -> None:
    headline = strictest(event.verdicts)
    log.info(
        "%s agent=%s type=%r rule=%r id=%s seq=%d",
        event.decision,
        event.agent,
        event.type,
        headline.rule,
        event.id,
        event.seq,
    )
