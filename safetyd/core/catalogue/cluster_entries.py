"""Several daemons on one bus: takeovers, handovers and standbys."""

from typing import Final

from safetyd.core.catalogue.entry import Alert, Choice, Entry, Notice
from safetyd.core.events import cluster_events as events

NO_STANDBY: Final = "cluster no standby"
_TAKEOVERS: Final = "cluster takeovers"


def _took_over(event: events.TookOver) -> Alert | None:
    if event.planned or not event.before:
        return None
    return Alert(
        key=_TAKEOVERS,
        urgency="normal",
        title=f"TAKEOVER: {event.daemon} decides now, {event.before} does not answer",
        text=f"No decision was lost. {event.before} was the writer. Check its machine: "
        "safetyd cluster",
    )


def _counted(event: events.TakeoversRepeated) -> str:
    return f"{event.count} takeovers within an hour"


def _repeated(event: events.TakeoversRepeated) -> Alert:
    return Alert(
        key="cluster takeovers repeated",
        urgency="high",
        title=f"{event.count} TAKEOVERS WITHIN AN HOUR",
        text=f"{_counted(event)}. Agents wait a few seconds at each takeover. The network between "
        "the machines or the load of one of them may be the cause: safetyd cluster",
    )


def _standbys(event: events.StandbysChanged) -> Alert:
    """Return an alert if there is no standby left, or its all-clear."""
    if event.standbys:
        return Alert(
            key=f"{NO_STANDBY} ended",
            urgency="normal",
            title=f"STANDBY: {', '.join(event.standbys)} can take over again",
            text="",
            clears=(NO_STANDBY,),
        )
    return Alert(
        key=NO_STANDBY,
        urgency="normal",
        title=f"NO STANDBY: {', '.join(event.gone)} is gone" if event.gone else "NO STANDBY",
        text="No standby is left. If the writer fails now, nothing is allowed until a daemon is "
        "started: safetyd cluster",
    )


ENTRIES: Final = (
    Entry(
        events.WriterChanged,
        says="{daemon} (version {version}) became the writer, term {term}",
        routine=True,
    ),
    Entry(
        events.TookOver,
        notice=Choice(
            lambda event: "planned" if event.planned or not event.before else "lost",
            {
                "planned": Notice("HANDED_OVER", "low", "{daemon} writes the journal now"),
                "lost": Notice("TAKEN_OVER", "high", "{daemon} took over"),
            },
        ),
        reason=lambda event: f"{event.before} was the writer" if event.before else "",
        facts="daemon before term planned",
        alert=_took_over,
    ),
    Entry(
        events.WriterReleased,
        says="{daemon} released the journal, term {term}",
        routine=True,
    ),
    Entry(
        events.TakeoversRepeated,
        notice=Notice("TAKEOVERS_REPEATED", "high"),
        reason=_counted,
        facts="count",
        alert=_repeated,
        follows=True,
    ),
    Entry(
        events.StandbysChanged,
        notice=Choice(
            lambda event: "some" if event.standbys else "none",
            {"some": Notice("STANDBY_READY", "low"), "none": Notice("NO_STANDBY", "high")},
        ),
        reason=lambda event: (
            f"{', '.join(event.standbys)} can take over" if event.standbys else "No standby is left"
        ),
        facts="standbys gone",
        alert=_standbys,
        ends=lambda event: (NO_STANDBY,) if event.standbys else (),
    ),
)
