"""The daemon itself: configuration, keys, clock, disk and audit files."""

from typing import Final

from safetyd.core.catalogue.entry import MAIL_AND_CHAT, Alert, Choice, Entry, Notice
from safetyd.core.events import daemon_events as events
from safetyd.core.events.disk_words import MAKE_ROOM, filling, fullness, percent
from safetyd.core.policy import Configured

_DISK: Final[dict[str, Notice]] = {
    "good": Notice("DISK_HAS_ROOM", "low"),
    "warn": Notice("DISK_FILLING", "medium"),
    "critical": Notice("DISK_NEARLY_FULL", "high"),
}


def disk_key(level: events.DiskLevel) -> str:
    return f"disk {level}"


def _disk(event: events.DiskMoved) -> Alert:
    """Return the alert about a filling disk, or its all-clear.

    The alert is urgent if the disk is nearly full.
    """
    use = event.use
    if use.level == "good":
        return Alert(
            key=disk_key("good"),
            urgency="normal",
            title="DISK: there is room again",
            text=f"{fullness(use)}.",
            clears=(disk_key("warn"), disk_key("critical")),
        )
    critical = use.level == "critical"
    filled = f"{filling(use)}. " if use.parts else ""
    return Alert(
        key=disk_key(use.level),
        urgency="high" if critical else "normal",
        kinds=() if critical else MAIL_AND_CHAT,
        title=f"{'DISK NEARLY FULL' if critical else 'DISK FILLING'}: {fullness(use)}",
        text=f"{filled}When it is full, nothing is allowed. What to do: {MAKE_ROOM}.",
    )


def _changes(event: events.KeysChanged) -> str:
    changes = [f"added {key}" for key in event.added] + [f"removed {key}" for key in event.removed]
    return "; ".join(changes)


def _new_operator(event: events.KeysChanged) -> Alert | None:
    """Return an alert if an operator key was added, because it can approve everything."""
    added = [key.split() for key in event.added if key.startswith("operator ")]
    if not added:
        return None
    names = ", ".join(key[1] for key in added)
    return Alert(
        key=f"keys {' '.join(key[2] for key in added)}",
        urgency="normal",
        title=f"NEW OPERATOR KEY: {names}",
        text=f"{event.by} added it. It can approve requests and resume agents.\n"
        f"If you did not expect it: safetyd operator revoke {added[0][1]}",
    )


ENTRIES: Final = (
    Entry(
        events.KeysChanged,
        notice=Notice("KEYS_CHANGED", "medium", "{by} changed keys"),
        reason=_changes,
        facts="by",
        alert=_new_operator,
    ),
    Entry(
        Configured,
        says="configuration loaded at {why}: policy {digest}",
        notice=Choice("why", {"reload": Notice("CONFIG_RELOADED", "low")}),
        reason="the new configuration is active",
        facts=lambda event: {"policy": event.digest},
    ),
    Entry(
        events.ConfigRejected,
        notice=Notice("CONFIG_REJECTED", "medium", "the new configuration was rejected"),
        reason=lambda event: "; ".join(event.errors),
        facts=lambda event: {"errors": len(event.errors)},
    ),
    Entry(
        events.ClockStepped,
        notice=Notice("CLOCK_STEPPED", "medium"),
        reason="the wall clock stepped by {seconds:+.1f} s",
        facts="seconds",
    ),
    Entry(
        events.AuditRecovered, says="removed an incomplete line of {torn_bytes} bytes from {file}"
    ),
    Entry(
        events.DiskMoved,
        notice=Choice(lambda event: event.use.level, _DISK),
        reason=lambda event: "; ".join(filter(None, (fullness(event.use), filling(event.use)))),
        facts=lambda event: {
            "disk": event.use.disk,
            "percent": percent(event.use),
            "free_bytes": event.use.free_bytes,
        },
        alert=_disk,
        ends=lambda _event: (disk_key("warn"), disk_key("critical"), disk_key("good")),
    ),
    Entry(events.SafetyEvent, follows=True),
)
