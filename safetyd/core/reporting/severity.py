"""How severe each kind of SafetyEvent is. The feed and the log take it from here.

An alert is never more urgent than its event is severe; a test compares all three.
"""

from typing import Final, Literal

from safetyd.core.events.daemon_events import SafetyEvent

Level = Literal["low", "medium", "high", "critical"]

LEVELS: Final[dict[str, Level]] = {
    "EMERGENCY_STOP": "critical",
    **dict.fromkeys(
        (
            "AGENT_PAUSED",
            "ARCHIVE_FAILED",
            "CHANNEL_DOWN",
            "COMMIT_FAILED",
            "COST_BUDGET_EXCEEDED",
            "DISK_NEARLY_FULL",
            "ESCALATION_DENIED",
            "MODE_VIOLATION",
            "NOTIFICATION_FAILED",
            "ROLLBACK_FAILED",
            "SAFE_MODE_ENTERED",
            "SNAPSHOT_MISSING",
        ),
        "high",
    ),
    **dict.fromkeys(
        (
            "ACTION_BLOCKED",
            "CIRCUIT_TRIPPED",
            "CLOCK_STEPPED",
            "CONFIG_REJECTED",
            "COST_WARNING",
            "DISK_FILLING",
            "EMERGENCY_RESUME",
            "KEYS_CHANGED",
            "PERMISSION_EXPIRED",
            "RATE_LIMIT_BLOCK",
            "ROLLBACK_OFFERED",
            "ROLLED_BACK",
        ),
        "medium",
    ),
    **dict.fromkeys(
        (
            "ACTION_CLAIMED",
            "AGENT_RESUMED",
            "ANOMALY_DETECTED",  # it says itself how severe it is
            "BUDGET_RAISED",
            "CHANNEL_UP",
            "CIRCUIT_RESET",
            "CONFIG_RELOADED",
            "DISK_HAS_ROOM",
            "GRANT_CREATED",
            "GRANT_REVOKED",
            "GRANT_USED",
            "OUTCOME_UNKNOWN",
            "PERMISSION_DECIDED",
            "PERMISSION_REQUESTED",
            "SAFE_MODE_EXITED",
        ),
        "low",
    ),
}


def severity_of(event: SafetyEvent) -> Level:
    """Return how severe an event is; one that this version does not know is low."""
    match event.metadata.get("severity"):
        case "low" | "medium" | "high" | "critical" as level:
            return level
    return LEVELS.get(event.event_type, "low")
