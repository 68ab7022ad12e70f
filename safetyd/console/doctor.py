"""`safetyd doctor`: look at everything, say what is wrong and what to do."""

import click
import msgspec

from safetyd.console.checks import Finding, examine
from safetyd.console.failure import BLOCKED
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.places import Place
from safetyd.console.plain import document, plain


@click.command()
@json_option
@reaches_daemon
def doctor(place: Place, *, as_json: bool) -> int:
    """Look for what is wrong, and say what to do."""
    found = list(examine(place))
    wrong = sum(finding.level == "wrong" for finding in found)
    if as_json:
        click.echo(document({"ok": not wrong, "findings": msgspec.to_builtins(found)}))
    else:
        click.echo("\n".join(map(_line, found)))
        click.echo(f"{wrong} wrong." if wrong else "Nothing is wrong.")
    return BLOCKED if wrong else 0


def _line(finding: Finding) -> str:
    return f"{finding.level:<5}  {finding.check:<11}  {plain(finding.text, 1000)}"
