"""Why something is stopped, and what ends that, in plain words."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetyd.console import stop_file
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import plain

View = Mapping[str, Any]


def cause(stop: View) -> str:
    """Say what is stopped, by what, since when and why."""
    whom = plain(stop["agent"]) if stop["agent"] else "everything"
    told = stop["reason"] and stop["reason"] != _unsaid(stop)
    reason = f": {plain(stop['reason'])}" if told else ""
    return f"{whom} by {_by(stop)} since {when(stop['since'])}{reason}"


def ending(stop: View) -> str:
    """Say what a person can do to end it."""
    kind, _, path = stop["source"].partition(":")
    if kind == "file":
        return _file_ending(Path(path))
    if kind == "environment":
        return "only a start of the daemon without that variable ends it"
    agent = f" --agent {plain(stop['agent'])}" if stop["agent"] else ""
    return f"`safetyd resume{agent}` ends it"


def _unsaid(stop: View) -> str:
    """Return the reason that a daemon gives for a file without one."""
    return f"{stop['source'].partition(':')[2]} is there"


def _by(stop: View) -> str:
    kind, _, path = stop["source"].partition(":")
    match kind:
        case "operator":
            return f"{plain(stop['by'])}'s command"
        case "file":
            signed = "" if stop["by"] == "file" else f" of {plain(stop['by'])}"
            return f"the file {plain(path)}{signed}"
        case "environment":
            return "the daemon's environment"
        case "anomaly":
            return "an anomaly"
    return f"{plain(stop['by'])} ({plain(stop['source'])})"


def _file_ending(path: Path) -> str:
    if not stop_file.is_there(path):
        return f"it ends when {plain(path)} is gone; it cannot be seen from here"
    if path.is_dir() and not path.is_symlink():
        return f"it is a directory, which `safetyd resume` leaves: `rm -r {plain(path)}` ends it"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"you cannot delete it: whoever may write to {plain(path.parent)} can end it"
    asks = "" if stop_file.is_ours(path) else ", which shows it and asks,"
    return f"`safetyd resume`{asks} ends it"
