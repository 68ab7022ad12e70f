"""The parts of a daemon that agents and operators reach."""

from typing import NamedTuple

from safetyd.agents.commits_before import CommitsBefore
from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.agents.held_replies import HeldReplies
from safetyd.daemon.health import Health
from safetyd.daemon.health_report import HealthReport
from safetyd.daemon.publishers import Publishers
from safetyd.monitoring.metrics import Metrics
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.notify.notifier import Notifier


class ServingParts(NamedTuple):
    out: Publishers
    stop: EmergencyStop
    held: HeldReplies
    commits: CommitsBefore
    notifier: Notifier
    metrics: Metrics
    recent: RecentEvents
    health: Health
    report: HealthReport
