"""A published SafetyEvent as text."""

from collections.abc import Mapping
from typing import Any

from safetyd.console.render.layout import when
from safetyd.console.terminal_text import plain
from safetyd.core.catalogue.catalogue import sentence, severity


def event_line(view: Mapping[str, Any]) -> str:
    """Return a SafetyEvent in one line."""
    kind, facts = view["event_type"], view.get("metadata") or {}
    said = sentence(
        kind, view.get("agent_id"), view.get("breaker_id"), view.get("reason", ""), facts
    )
    times = f" ({facts['count']} times)" if facts.get("count", 1) != 1 else ""
    begins = f"{when(view['timestamp'])} {severity(kind, facts):<8} {plain(kind)}"
    return f"{begins}: {plain(said)}{times}"
