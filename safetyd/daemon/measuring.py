"""Creates the disk check and the metrics."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from safetyd import __version__, host
from safetyd.agents.emergency_stop import StopFlag
from safetyd.core.engine.engine_state import EngineState
from safetyd.daemon.disk_space import DiskSpace
from safetyd.daemon.extra import Extras
from safetyd.daemon.resources import Resources
from safetyd.monitoring.counters import Counters
from safetyd.monitoring.gauges import Gauges
from safetyd.monitoring.metric_families import Family
from safetyd.monitoring.metrics import Metrics, Sources
from safetyd.operators.contract.notification_contract import ChannelState


class Measuring(NamedTuple):
    disk: DiskSpace
    metrics: Metrics


def measuring(  # noqa: PLR0913 - whom it asks
    of: Resources,
    state: EngineState,
    stop_flag: StopFlag,
    extras: Extras,
    *,
    channels: Callable[[], Sequence[ChannelState]],
    not_ready: Callable[[], str],
    cluster: Callable[[], Iterable[Family]],
) -> Measuring:
    """Return the disk check and the metrics.

    `not_ready` returns why proposals are not decided, `cluster` the metrics of several daemons.
    """
    with host.files_needed(of.data_dir):
        disk = DiskSpace(
            of.data_dir,
            lambda: of.settings.config.disk,
            lambda: of.audit.written,
            of.mailbox.record,
            known=state.outbox.disk_level,
        )
    gauges = Gauges(lambda: of.settings.policy, lambda: of.settings.keyed, channels)
    asked = {request.id: request.asked.at for request in state.approvals.pending()}
    guard_names = state.guard_names
    metrics = Metrics(
        __version__,
        Sources(
            stopped=lambda: bool(stop_flag.stops),
            malformed=lambda: of.refusals.total.get("malformed", 0),
            audit_bytes=lambda: of.audit.written,
            guards=lambda: guard_names,
            reload_ok=lambda: not of.reload.problem,
            gauges=gauges.families,
            disk=lambda: disk.use,
            ready=lambda: not not_ready(),
            bus_up=lambda: not of.connections.problem,
            reconnects=lambda: of.connections.reconnects,
            over_limits=lambda: of.settings.accounts.counts,
            more=lambda: (*cluster(), *extras.metrics()),
        ),
        Counters(gauges.label, gauges.labels, asked),
    )
    return Measuring(disk, metrics)
