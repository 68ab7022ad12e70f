"""`safetyd protect`, `unprotect` and `verify`: the hooks in the settings of coding agents."""

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from safetyd.client.discovery import start_command
from safetyd.console.failure import NEEDS_PERSON, Failure
from safetyd.console.help_page import command
from safetyd.console.hosts.protected_hosts import HostState, ProtectedHosts
from safetyd.console.hosts.settings_files import Change
from safetyd.console.locations import endpoint
from safetyd.console.options import data_dir_option, json_option, together
from safetyd.console.terminal_text import document, plain
from safetyd.hosts.host_catalog import HOSTS
from safetyd.hosts.telemetry_settings import masked

UNCONFIRMED: Final = 2

_which = together(
    click.argument(
        "names",
        metavar="[HOST]...",
        nargs=-1,
        type=click.Choice(tuple(HOSTS)),
        help=f"{', '.join(HOSTS)}. Default: all that are installed.",
    ),
    click.option("--project", is_flag=True, help="In the current folder only."),
)


@command()
@_which
@click.option("--agent", metavar="NAME", help="The agent's name in safetyd. Default: the host.")
@click.option("--status", is_flag=True, help="Show which hosts are protected, and change nothing.")
@click.option("--dry-run", is_flag=True, help="Print the changes and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_dir_option
@json_option
def protect(  # noqa: PLR0913 - one for each option
    names: Sequence[str],
    directory: Path,
    agent: str | None,
    *,
    project: bool,
    status: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Guard a coding agent: it asks safetyd before every tool call.

    Adds hooks to the agent's settings. While safetyd is not running, the agent cannot use any
    tool.

    For example:
      safetyd protect claude-code
      safetyd protect --dry-run
      safetyd protect --status
    """
    hosts = ProtectedHosts(project=project, data_dir=directory)
    if status:
        _show_status(hosts, names, as_json=as_json)
        return
    chosen = hosts.chosen(names)
    plans = [(host, hosts.planned(host, agent)) for host in chosen]
    changes = [change for _, planned in plans for change in planned]
    if not as_json or dry_run:
        click.echo("".join(map(_diff, changes)), nl=False)
    if dry_run:
        return
    if changes and not yes:
        _confirm(f"Change {len(changes)} file{'s' * (len(changes) > 1)}?")
    for host, planned in plans:
        hosts.write(host, planned, agent)
    states = [hosts.verified(host, agent) for host in chosen]
    if as_json:
        click.echo(document({"hosts": states}))
    else:
        click.echo("\n".join(line for state in states for line in _told(state, directory)))
    if not all(one.holds for state in states for one in state.trials):
        sys.exit(1)


@command()
@_which
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_dir_option
@json_option
def unprotect(
    names: Sequence[str], directory: Path, *, project: bool, yes: bool, as_json: bool
) -> None:
    """Remove safetyd's hooks from the settings of a coding agent.

    A settings file that was not changed meanwhile becomes exactly what it was before.

    For example:
      safetyd unprotect claude-code
    """
    hosts = ProtectedHosts(project=project, data_dir=directory)
    chosen = [HOSTS[name] for name in names] or [*HOSTS.values()]
    plans = [(host, hosts.undone(host)) for host in chosen]
    changes = [change for _, planned in plans for change in planned]
    if not as_json:
        click.echo("".join(map(_diff, changes)) or "No host is protected here.\n", nl=False)
    if changes and not yes:
        _confirm("Remove the hooks? The agent will no longer ask safetyd.")
    for host, planned in plans:
        hosts.undo(host, planned)
    if as_json:
        click.echo(document({"files": [str(change.path) for change in changes]}))


@command()
@_which
@data_dir_option
@json_option
def verify(names: Sequence[str], directory: Path, *, project: bool, as_json: bool) -> None:
    """Try the hooks of protected hosts; no command is executed.

    For example:
      safetyd verify
    """
    hosts = ProtectedHosts(project=project, data_dir=directory)
    chosen = [host for host in hosts.chosen(names) if hosts.state(host).state == "protected"]
    if not chosen:
        raise Failure("no host is protected here. Run: safetyd protect", "open")
    states = [hosts.verified(host, None) for host in chosen]
    if as_json:
        click.echo(document({"hosts": states}))
    else:
        click.echo("\n".join(line for state in states for line in _told(state, directory)))
    if not all(one.holds for state in states for one in state.trials):
        sys.exit(1)


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        click.echo("Nothing was written. Use --yes to write without a terminal.", err=True)
        sys.exit(UNCONFIRMED)
    if not click.confirm(question, default=False):
        click.echo("Nothing was written.")
        sys.exit(UNCONFIRMED)


def _show_status(hosts: ProtectedHosts, names: Sequence[str], *, as_json: bool) -> None:
    states = [hosts.state(HOSTS[name]) for name in names or HOSTS]
    if as_json:
        click.echo(document({"hosts": states}))
    else:
        for state in states:
            click.echo(f"{state.host:12} {state.state:10} {plain(state.files[0])}")
    if any(state.found and state.state != "protected" for state in states):
        sys.exit(NEEDS_PERSON)


def _diff(change: Change) -> str:
    before, after = (
        (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
        for content in (change.before, change.after)
    )
    name = str(change.path)
    lines = difflib.unified_diff(before, after, name, name)
    return "".join(plain(masked(line.rstrip("\n"))) + "\n" for line in lines)


def _told(state: HostState, directory: Path) -> Iterator[str]:
    title = HOSTS[state.host].title
    works = all(one.holds for one in state.trials)
    yield f"{title} is guarded." if works else f"{title} is NOT guarded yet:"
    for one in state.trials:
        yield f"  {one.claim:36} {'yes' if one.holds else 'NO'}, {one.took_ms:.0f} ms"
    if not works and endpoint(directory) is None:
        yield f"  The daemon is not running. Start it: {start_command(directory)}"
    if state.telemetry:
        yield f"  {'costs and tools that ran':36} reported"
    else:
        yield f"  {'costs and tools that ran':36} NOT reported: {plain(state.without_telemetry)}"
    yield f"  To undo it: safetyd unprotect {state.host}"
