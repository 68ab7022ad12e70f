"""How a daemon is: what is stopped first, then where everything is."""

from collections.abc import Iterator

from safetyd.console.causes import View, cause, ending
from safetyd.console.plain import plain, several
from safetyd.console.render import indented, names, when


def status(view: View) -> str:
    title = f"safetyd {plain(view['version'])}: {plain(view['problem']) or 'healthy'}"
    about = (title, *indented(_facts(view)), *pending(view))
    if not view["stop"]["active"]:
        return "\n".join((*about, "Nothing is stopped."))
    return "\n".join((*_stops(view["stop"]), "", *about))


def pending(view: View) -> Iterator[str]:
    """Yield a sentence for each section whose change waits for the next start."""
    for section in view.get("next_start", ()):
        yield f"[{plain(section)}] has changed and takes effect at the next start"


def _facts(view: View) -> Iterator[tuple[str, str]]:
    decided = ", ".join(f"{count} {name}" for name, count in view["decisions"].items())
    keyless = "welcome" if view["open_agents"] else "refused"
    yield "pid", str(view["pid"])
    yield "since", when(view["started"])
    yield "bus", f"{plain(view['bus'])}{' (embedded)' if view['embedded'] else ''}"
    yield "web", plain(view["web"])
    yield "data", plain(view["data_dir"])
    if view.get("config"):
        yield "config", plain(view["config"])
    if view.get("config_problem"):
        yield "refused", f"the newest configuration: {plain(view['config_problem'], 2000)}"
    yield "mode", f"{plain(view['mode'])}, profile {plain(view['profile'])}"
    yield "agents", f"{view['agents']} known, {view['keys']} with a key; without one: {keyless}"
    yield "decided", f"{decided} since the start"
    yield "log", several(view["seq"], "event")


def _stops(view: View) -> Iterator[str]:
    """Yield what is stopped, a cause a line, and who has not acknowledged it."""
    for stop in view["stops"]:
        yield f"STOPPED: {cause(stop)}"
        yield f"  {ending(stop)}"
    facts = (("heard it", names(view["acknowledged"])), ("silent", names(view["silent"])))
    yield from indented(facts)
