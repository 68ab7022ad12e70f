"""Add an event as its author would: a struct and an entry."""

from safetyd.core.catalogue import daemon_entries
from safetyd.core.catalogue.entry import Alert, Entry, Notice
from safetyd.core.events.event import Event


class KettleBoiled(Event, kw_only=True, tag="kettle_boiled"):
    agent: str
    by: str
    reason: str = ""


ENTRY = Entry(
    KettleBoiled,
    notice=Notice("KETTLE_BOILED", "high", "{by} boiled the kettle"),
    facts="by",
    alert=lambda event: Alert(
        key="kettle", urgency="high", title=f"KETTLE: {event.reason}", text="Pour it."
    ),
)
daemon_entries.ENTRIES += (ENTRY,)  # type: ignore[assignment,misc] # before anybody reads it
