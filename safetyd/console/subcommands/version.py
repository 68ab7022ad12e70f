"""`safetyd version`: what is at work here."""

import platform
import subprocess
from importlib import metadata
from typing import Final

import click

from safetyd import __version__
from safetyd.bus.embedded_server import ServerMissing, shipped_binary
from safetyd.console.options import json_option
from safetyd.console.terminal_text import document, plain

RUN_S: Final = 5.0


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the versions of what is at work."""
    found = {
        "safetyd": __version__,
        "python": platform.python_version(),
        "nats-py": metadata.version("nats-py"),
        "nats-server": nats_server_version(),
    }
    if as_json:
        click.echo(document({"ok": True, **found}))
        return
    for name, number in found.items():
        click.echo(f"{name:<12} {plain(number)}")


def nats_server_version(binary: str = "") -> str:
    """Return the version of the nats-server that would be started, or why there is none."""
    try:
        command = [binary or shipped_binary(), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=RUN_S)  # noqa: S603
    except (ServerMissing, OSError, subprocess.SubprocessError) as exc:
        return f"missing: {exc}"
    return done.stdout.strip().removeprefix("nats-server: v")
