"""`safetyd protect`, `unprotect` and `verify`: the hooks in the settings of coding agents."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.client.discovery import naming, start_command
from safetyd.console.failure import NEEDS_PERSON, Failure
from safetyd.console.help_page import command
from safetyd.console.hosts.accepted_files import AcceptedFiles, shown
from safetyd.console.hosts.protected_hosts import HostState, ProtectedHosts
from safetyd.console.hosts.rehearsal.rehearse import rehearsed
from safetyd.console.locations import endpoint
from safetyd.console.options import data_dir_option, json_option, together
from safetyd.console.recorded_files import Change, diff
from safetyd.console.service.service_installation import is_installed
from safetyd.console.terminal_text import document, plain, several
from safetyd.hosts import call_lock
from safetyd.hosts.host_catalog import HOSTS, Scope
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
    click.option(
        "--user", "scope", flag_value="user", default="user", help="For this user (default)."
    ),
    click.option("--project", "scope", flag_value="project", help="In the current folder only."),
    click.option("--system", "scope", flag_value="system", help="For all users; needs root."),
)


@command()
@_which
@click.option("--agent", metavar="NAME", help="The agent's name in safetyd. Default: the host's.")
@click.option("--status", is_flag=True, help="Show which hosts are protected, and change nothing.")
@click.option("--dry-run", is_flag=True, help="Print the changes and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_dir_option
@json_option
def protect(  # noqa: PLR0913 - one for each option
    names: Sequence[str],
    scope: Scope,
    directory: Path,
    agent: str | None,
    *,
    status: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Guard a coding agent: it asks safetyd before every tool call.

    Adds hooks and deny rules to the agent's settings. While safetyd is not running, the agent
    cannot use any tool. With --status, the exit code is 3 if an installed agent is not protected.

    For example:
      safetyd protect claude-code
      safetyd protect --dry-run
      safetyd protect --status
    """
    hosts = ProtectedHosts(scope=scope, data_dir=directory)
    if status:
        _show_status(hosts, AcceptedFiles(directory), names, as_json=as_json)
        return
    chosen = hosts.chosen(names)
    plans = [hosts.planned(host, agent) for host in chosen]
    changes = [change for plan in plans for change in plan.changes]
    if not as_json or dry_run:
        click.echo("".join(map(_diff, changes)), nl=False)
    files = AcceptedFiles(directory)
    found = [files.found(host) for host in chosen]
    if not as_json or dry_run:
        click.echo("".join(f"{line}\n" for one in found for line in one.lines()), nl=False)
    if dry_run:
        return
    if changes and not yes:
        _confirm(f"Change {several(len(changes), 'file')}?")
    elif any(one.differing for one in found) and not yes:
        _confirm("Accept these files?")
    hosts.write(plans)
    for one in found:
        click.echo(files.accept(one, [change.path for change in changes]), err=as_json)
    if not as_json and not is_installed():
        install = f"safetyd install-service --now{naming(directory)}"
        click.echo(f"To start safetyd at boot, because guarded agents need it: {install}")
    _show_trials(hosts.verified(chosen), directory, changes, as_json=as_json)


@command()
@_which
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_dir_option
@json_option
def unprotect(
    names: Sequence[str], scope: Scope, directory: Path, *, yes: bool, as_json: bool
) -> None:
    """Remove safetyd's hooks and deny rules from the settings of a coding agent.

    A settings file that nobody has changed since becomes exactly what it was before.

    For example:
      safetyd unprotect claude-code
    """
    hosts = ProtectedHosts(scope=scope, data_dir=directory)
    chosen = [HOSTS[name] for name in names] or [*HOSTS.values()]
    plans = [(host, hosts.undone(host)) for host in chosen]
    changes = [change for _, planned in plans for change in planned]
    if not as_json:
        click.echo("".join(map(_diff, changes)) or f"{_none(names)}.\n", nl=False)
    if changes and not yes:
        _confirm("Remove the hooks? The agent will no longer ask safetyd.")
    for host, planned in plans:
        hosts.undo(host, planned)
    if as_json:
        click.echo(document({"files": [str(change.path) for change in changes]}))
    elif changes:
        click.echo(f"safetyd's part was removed from {several(len(changes), 'file')}.")


@command()
@_which
@click.option("--rehearse", is_flag=True, help="Also run each host, with a stand-in for its model.")
@data_dir_option
@json_option
def verify(
    names: Sequence[str], scope: Scope, directory: Path, *, rehearse: bool, as_json: bool
) -> None:
    """Try the hooks of protected hosts; no command is executed.

    Runs the command line that is in the settings of each host, as the host would. With --rehearse,
    it also runs the host itself in an empty folder. A stand-in for its model on this machine then
    proposes a harmless command, which runs, and a destructive one, which must not. This takes some
    seconds for each host and uses no tokens. safetyd records both commands.

    For example:
      safetyd verify
      safetyd verify claude-code --rehearse
    """
    hosts = ProtectedHosts(scope=scope, data_dir=directory)
    chosen = hosts.protected(names)
    if not chosen:
        named = " ".join(("safetyd protect", *names))
        raise Failure(f"{_none(names)}. Run: {named}", "open")
    states = hosts.verified(chosen)
    if rehearse:
        states = [*map(_rehearsed, states)]
    _show_trials(states, directory, (), as_json=as_json)


def _none(names: Sequence[str]) -> str:
    if not names:
        return "no host is protected here"
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} not protected here"


def _rehearsed(state: HostState) -> HostState:
    host = HOSTS[state.host]
    click.echo(f"Running {host.title} with a stand-in for its model ...", err=True)
    return msgspec.structs.replace(state, trials=(*state.trials, *rehearsed(host)))


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        click.echo("Nothing was written. Use --yes to write without a terminal.", err=True)
        sys.exit(UNCONFIRMED)
    if not click.confirm(question, default=False):
        click.echo("Nothing was written.")
        sys.exit(UNCONFIRMED)


def _show_status(
    hosts: ProtectedHosts, files: AcceptedFiles, names: Sequence[str], *, as_json: bool
) -> None:
    states = hosts.states([HOSTS[name] for name in names or HOSTS])
    folders = files.accepted(names)
    if as_json:
        click.echo(document({"hosts": states, "loaded": folders}))
    else:
        for state in states:
            version, path = state.version or "-", plain(" ".join(state.files[:1]))
            click.echo(f"{state.host:12} {state.state:10} {version:10} {path}")
            for problem in state.problems:
                click.echo(f"  {problem.code}: {plain(problem.message, 1000)}")
                click.echo(f"    {plain(problem.fix, 1000)}")
            for folder in folders:
                if folder.host == HOSTS[state.host].dialect:
                    click.echo(f"  {plain(shown(folder), 1000)}")
    if any(state.found and state.state != "protected" for state in states):
        sys.exit(NEEDS_PERSON)


def _show_trials(
    states: Sequence[HostState], directory: Path, changes: Sequence[Change], *, as_json: bool
) -> None:
    if as_json:
        click.echo(document({"hosts": states}))
    else:
        lines = (line for state in states for line in _summary(state, directory, changes))
        click.echo("\n".join(lines))
    if not all(map(_is_guarded, states)):
        sys.exit(1)


def _is_guarded(state: HostState) -> bool:
    tried = bool(state.trials) and all(one.holds for one in state.trials)
    return tried and state.state == "protected"


def _diff(change: Change) -> str:
    return diff(change, lambda line: plain(call_lock.masked(masked(line))))


def _summary(state: HostState, directory: Path, changes: Sequence[Change]) -> Iterator[str]:
    host, works = HOSTS[state.host], _is_guarded(state)
    title = f"{host.title} {state.version}".strip()
    fails_open = any(problem.code == "fails_open" for problem in state.problems)
    guarded = f"{title} is guarded, but not always:" if fails_open else f"{title} is guarded."
    yield guarded if works else f"{title} is NOT guarded yet:"
    if not state.version:
        yield f"  {host.title} is not installed. The settings apply once it is."
    yield from _changed(state, changes)
    for one in state.trials:
        times = f" (median of {one.calls} calls)" if one.calls > 1 else ""
        yield f"  {one.claim:40} {'yes' if one.holds else 'NO'}, {one.took_ms:.0f} ms{times}"
    for problem in state.problems:
        if problem.breaks or problem.code == "fails_open":
            yield f"  {plain(problem.message, 1000)}. {plain(problem.fix, 1000)}."
    readable = any(problem.code == "key_readable" for problem in state.problems)
    yield f"  {'this agent can read your key':40} {_SAME_USER if readable else 'no'}"
    if not works and endpoint(directory) is None:
        yield f"  The daemon is not running. Start it: {start_command(directory)}"
    if state.telemetry:
        yield f"  {'costs and tools that ran':40} reported"
    else:
        yield f"  {'costs and tools that ran':40} NOT reported: {plain(state.without_telemetry)}"
    option = "" if state.scope == "user" else f" --{state.scope}"
    yield f"  To undo this: safetyd unprotect {state.host}{option}"
    if changes:
        yield f"  Start new sessions of {host.title}: open sessions may not ask safetyd."
    if host.does_not_hold:
        yield f"  {host.title} cannot be made to hold here: {host.does_not_hold}."
    if host.unguarded:
        yield f"  The hooks are skipped by {host.unguarded}."


_SAME_USER: Final = "YES: it runs as you. `safetyd doctor` says how to separate them."


def _changed(state: HostState, changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        if str(change.path) in state.files:
            yield f"  {plain(str(change.path))} ({_added(change):+d} lines)"


def _added(change: Change) -> int:
    before, after = (
        len((content or b"").splitlines()) for content in (change.before, change.after)
    )
    return after - before
