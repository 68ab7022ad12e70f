"""Events of the daemon itself."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.event import Event

DiskLevel = Literal["good", "warn", "critical"]


class DiskUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How full the disk with the data directory is, and how much of it safetyd uses."""

    level: DiskLevel
    disk: str  # The mount point of the disk.
    free_bytes: int
    total_bytes: int
    free_files: int | None = None  # How many more files fit; null if there is no limit.
    # Bytes used by the journal, audit files, transcripts, checkpoints and other files.
    parts: dict[str, int] = {}
    audit_bytes_per_hour: float | None = None  # How fast audit files grow; null if unknown.


class KeysChanged(Event, kw_only=True, tag="keys_changed"):
    """Keys were added or removed. Each entry is a role, a name and a public key."""

    added: tuple[str, ...]
    removed: tuple[str, ...]  # An entry that begins with `old` was replaced by a rotation.
    by: str


class ConfigRejected(Event, kw_only=True, tag="config_rejected"):
    errors: tuple[str, ...]


class ClockStepped(Event, kw_only=True, tag="clock_stepped"):
    seconds: float


class DiskMoved(Event, kw_only=True, tag="disk_moved"):
    """The disk with the data directory reached another level."""

    use: DiskUse


class AuditRecovered(Event, kw_only=True, tag="audit_recovered"):
    """An incomplete last line was removed from the audit file."""

    file: str
    torn_bytes: int
    torn_sha256: str


class SafetyEvent(Event, kw_only=True, omit_defaults=False, tag="safety_event"):
    """An event for operators, logs and dashboards. `seq`, `at` and `t` are those of the journal."""

    id: str
    timestamp: datetime
    event_type: str
    agent_id: str | None = None
    model_id: str | None = None
    breaker_id: str | None = None
    cost_snapshot: dict[str, float | str] | None = None
    reason: str
    metadata: dict[str, str | int | float | bool | None]
