"""`safetyd doctor`: look at everything, say what is wrong and what to do."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from safetyd.console.doctor.checks import examine
from safetyd.console.doctor.findings import Finding
from safetyd.console.failure import BLOCKED
from safetyd.console.locations import Place
from safetyd.console.options import config_option, json_option, reaches_daemon
from safetyd.console.terminal_text import document, plain


@click.command()
@config_option
@json_option
@reaches_daemon
def doctor(place: Place, config_path: Path | None, *, as_json: bool) -> int:
    """Look for what is wrong, and say what to do.

    Without a daemon that says what a start would meet; name the file that you start with.
    """
    found = list(examine(place, config_path))
    wrong = sum(finding.level == "wrong" for finding in found)
    if as_json:
        click.echo(document({"ok": not wrong, "findings": msgspec.to_builtins(found)}))
    else:
        click.echo("\n".join(map(_line, found)))
        click.echo(_verdict(found, wrong))
    return BLOCKED if wrong else 0


def _verdict(found: Sequence[Finding], wrong: int) -> str:
    stopped = any(finding.check == "stop" and finding.level == "note" for finding in found)
    if wrong:
        return f"{wrong} wrong, and everything is STOPPED." if stopped else f"{wrong} wrong."
    return "Nothing is wrong, but everything is STOPPED." if stopped else "Nothing is wrong."


def _line(finding: Finding) -> str:
    return f"{finding.level:<5}  {finding.check:<11}  {plain(finding.text, 1000)}"
