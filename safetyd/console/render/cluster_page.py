"""The daemons on a bus as text: first whether all is well, then who decides and who follows."""

from collections.abc import Iterator

from safetyd.console.render.layout import indented, names, table, when
from safetyd.console.terminal_text import plain, several
from safetyd.operators.contract.cluster_contract import ClusterAnswer, ClusterDaemon


def cluster(view: ClusterAnswer) -> str:
    parts = [_well(view)]
    if not view.embedded:
        parts += ["\n".join(indented(_facts(view))), _daemons(view)]
    return "\n\n".join(parts)


def _well(view: ClusterAnswer) -> str:
    """Return the problems, the worst first, or that all is well."""
    found = [(each.says, each.fix) for each in view.problems] or [(view.says, view.fix)]
    return "\n".join(line for says, fix in found for line in _lines(says, fix))


def _lines(says: str, fix: str) -> Iterator[str]:
    yield plain(says)
    if fix:
        yield f"  {plain(fix)}"


def _facts(view: ClusterAnswer) -> Iterator[tuple[str, str]]:
    since = f" since {when(view.since)}" if view.since else ""
    was = "" if view.deciding else " (not heard now)"
    yield "writer", f"{plain(view.writer) or 'none'}{since}, term {view.term}{was}"
    yield "takeovers", f"{view.takeovers} in the last hour"
    for stream in view.streams:
        led = f", led by {plain(stream.leader)}" if stream.leader else ""
        wanted = max(stream.wanted, stream.replicas)
        yield plain(stream.name), f"{stream.current} of {several(wanted, 'replica')}{led}"
    yield "answered by", plain(view.answered_by)


def _daemons(view: ClusterAnswer) -> str:
    return table(
        view.daemons,
        {
            "daemon": lambda each: each.name,
            "role": lambda each: _role(view, each),
            "behind": lambda each: several(each.lag, "event"),
            "heard": lambda each: f"{each.heard_s:.1f} s ago",
            "version": lambda each: each.version,
            "machine": lambda each: each.machine,
            "web": lambda each: each.web,
            "projects": lambda each: names(each.projects, "none"),
        },
    )


def _role(view: ClusterAnswer, daemon: ClusterDaemon) -> str:
    if daemon.name == view.writer and view.deciding:
        return "decides"
    return "cannot take over" if daemon.problem else "can take over"
