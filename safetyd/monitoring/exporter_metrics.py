"""The state of an exporter, and how far it is behind the journal, for Prometheus."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from safetyd.monitoring.metric_families import Family, counter_by, gauge_by


class ExporterState(msgspec.Struct, frozen=True, kw_only=True):
    """What an exporter has exported, as far as is known since the start."""

    name: str
    seq: int | None  # The last exported event, null if not known yet.
    behind: int  # Events not exported yet; all of them while `seq` is null.
    last_success: datetime | None  # When it last exported events, or had none left.
    errors: int
    problem: str  # Why it cannot export now, or empty.


def exporter_families(state: ExporterState) -> Iterator[Family]:
    name, last = state.name, state.last_success
    yield gauge_by(
        "outlet", "safetyd_outlet_lag_events", "Events not exported yet.", {name: state.behind}
    )
    yield gauge_by(
        "outlet",
        "safetyd_outlet_last_success_timestamp_seconds",
        "When the exporter last exported events or had none left; 0 if never.",
        {name: 0.0 if last is None else last.timestamp()},
    )
    yield counter_by(
        ("outlet",), "safetyd_outlet_errors", "Failed exports.", [((name,), state.errors)]
    )
