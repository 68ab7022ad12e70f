"""`safetyd stop` and `safetyd resume`.

A stop sends the command, writes the stop file, then waits for acknowledgements. A resume clears
the operators' stops and the stop files, and prints the stops that remain.
"""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import click
import msgspec

from safetyd.clock import Clock
from safetyd.console import stop_file
from safetyd.console.agent_list import busy, everybody, still_open, unheard
from safetyd.console.failure import BLOCKED, Failure, NotReachable, WrongUsage
from safetyd.console.help_page import command
from safetyd.console.locations import Location, endpoint, is_hidden, make_private, running
from safetyd.console.operator_connection import OperatorConnection, connected
from safetyd.console.options import json_option, reaches_daemon, says_why
from safetyd.console.render.layout import indented, names
from safetyd.console.stop_file import told_of
from safetyd.console.terminal_text import document, plain
from safetyd.core.guards.stop import Stop, daemon_of
from safetyd.host import ENDPOINT
from safetyd.operators.contract.agent_contract import AgentSeen
from safetyd.operators.contract.hold_contract import ResumeCommand, StopCommand
from safetyd.operators.contract.status_contract import Standstill, StatusAnswer, StatusQuestion

WAIT_S: Final = 5.0
LOOK_S: Final = 0.1
COMMAND_S: Final = 60.0


Facts = dict[str, object]  # the output with --json


class StopHeard(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that acknowledged the stop, and those that did not."""

    acknowledged: Sequence[str] = ()
    silent: Sequence[str] = ()
    known: bool = True  # False: the daemon did not answer


@command(sends=StopCommand)
@says_why
@click.option("--agent", metavar="NAME", help="Stop only this agent. Write no stop file.")
@json_option
@reaches_daemon
def stop(location: Location, reason: str, agent: str | None, *, as_json: bool) -> int:
    """The stop takes effect immediately. This command also writes the stop file, waits up to five
    seconds for agents to acknowledge the stop, and runs the `commands` of [stop] in the
    configuration. If no daemon answers, the stop file takes effect when the daemon starts.

    For example:
      safetyd stop
      safetyd stop "wrong customer list"
      safetyd stop --agent crawler
    """
    facts: Facts = {"agent": agent}
    code = _stopped(location, reason, agent, facts)
    if as_json:
        click.echo(document({"ok": code == 0, **facts}))
    return code


def _stopped(location: Location, reason: str, agent: str | None, facts: Facts) -> int:
    """Stop, add the results to `facts`, and return the exit code."""
    if location.observes:
        raise Failure(
            f"the key {location.seed} belongs to an observer, who cannot stop agents. "
            "Use --key-file with an operator's key",
            "refused",
        )
    try:
        return anyio.run(_stop, location, reason, agent, facts)
    except Failure as exc:
        wrong = exc
    except Exception as exc:  # noqa: BLE001 - the stop file must still be written
        wrong = Failure(f"unexpected answer from the daemon ({type(exc).__name__}: {exc})")
    if _is_down(location, wrong):
        click.echo(_unstopped(location), err=True)
    if agent is not None:
        raise wrong
    facts |= {"error": wrong.message, "code": wrong.code}
    return _by_file(location, reason, wrong)


async def _stop(location: Location, reason: str, agent: str | None, facts: Facts) -> int:
    async with connected(location) as operator:
        reply = await operator.ask(StopCommand(reason=reason, agent=agent))
        _say(f"Stopped {plain(agent) if agent else 'all agents'}.")
        lasts = reply.journalled or reply.held
        if reply.held:
            _say("The stop is stored. It is recorded as soon as a daemon decides.")
        elif not lasts:
            _say("The stop is active but not recorded yet: the journal does not answer.")
        status = await _status(operator)
        files = [Path(file) for file in status.stop_files] if status else []
        path = files[0] if files else location.data_dir / stop_file.NAME
        written = agent is None and _write(path, operator.name, reason, wordless=not lasts)
        heard = await _wait(operator, agent, path if written and files else None)
        rows = await _agents(operator)
    _tell(heard, rows, agent)
    if not (lasts or written):
        _say("A restart would lose the stop. Free disk space, then run `safetyd stop` again.")
    if agent is None and status is None:
        _say("No [stop] commands were run: the daemon did not say which are configured.")
    commands = status.stop_commands if status and agent is None else ()
    failed = [command for command in commands if not _run(command)]
    facts |= {"journalled": reply.journalled, "file": str(path) if written else None}
    facts |= {"acknowledged": heard.acknowledged, "silent": heard.silent, "failed": failed}
    ended = _end(heard, rows, failed, agent)
    return ended if lasts or written else BLOCKED


def _is_down(location: Location, wrong: Failure) -> bool:
    """Return whether it is certain that no daemon runs on the data directory."""
    if not isinstance(wrong, NotReachable) or location.given:
        return False
    directory = location.data_dir
    known = endpoint(directory) is not None or not is_hidden(directory / ENDPOINT)
    return known and running(directory) is None


def _unstopped(location: Location) -> str:
    other = "To stop the agents of another daemon: safetyd stop --data-dir DIR"
    down = f"no daemon is running on {plain(location.data_dir)}"
    return f"NOTHING WAS STOPPED: {down}.\n{other} (or set SAFETYD_DATA_DIR)."


def _by_file(location: Location, reason: str, wrong: Failure) -> int:
    """Only write the stop file, because the daemon does not answer."""
    try:
        make_private(location.data_dir)
        written = _write(location.data_dir / stop_file.NAME, _name(location), reason, wordless=True)
    finally:
        click.echo(f"safetyd: {plain(wrong.message, 2000)}", err=True)
    if written:
        _say(_holds(location))
        _say("No daemon acknowledged the stop, and no [stop] commands were run.")
    else:
        click.echo("Nothing was stopped.", err=True)
    return wrong.exit_code


def _name(location: Location) -> str:
    try:
        return location.name
    except Failure:
        return "unknown"


def _holds(location: Location) -> str:
    """Return when the stop file takes effect."""
    pid = running(location.data_dir)
    if pid is None:
        return "It takes effect when the daemon starts, unless `files` in [stop] was changed."
    return f"The running daemon (pid {pid}) stops all agents, unless `files` in [stop] was changed."


def _write(path: Path, by: str, reason: str, *, wordless: bool) -> bool:
    """Write the stop file. If that fails and `wordless` is set, create it without text."""
    try:
        stop_file.write(path, by, Clock().now().at, reason)
    except OSError as exc:
        if wordless and stop_file.put(path):
            _say(f"Created the stop file {path} without a reason: {exc.strerror}.")
            return True
        click.echo(f"Cannot write the stop file {path}: {exc.strerror}.", err=True)
        return False
    _say(f"Wrote the stop file {path}.")
    return True


async def _wait(operator: OperatorConnection, agent: str | None, path: Path | None) -> StopHeard:
    """Wait until all agents have acknowledged the stop, for at most `WAIT_S`.

    If `path` is given, also wait until the daemon has found that stop file.
    """
    heard = StopHeard(known=False)
    with anyio.move_on_after(WAIT_S):
        while True:
            status = await _status(operator)
            if status:
                heard = _heard(status.stop, agent)
                if not heard.silent and (path is None or path in _files(status.stop.stops)):
                    break
            await anyio.sleep(LOOK_S)
    return heard


async def _status(operator: OperatorConnection) -> StatusAnswer | None:
    """Return the daemon's status, or None if it does not answer."""
    try:
        return await operator.ask(StatusQuestion(), patience_s=1.0)
    except Failure:
        return None


async def _agents(operator: OperatorConnection) -> list[AgentSeen] | None:
    """Return all agents, or None if the daemon does not answer."""
    try:
        return await everybody(operator, patience_s=1.0)
    except Failure:
        return None


def _heard(view: Standstill, agent: str | None) -> StopHeard:
    return StopHeard(
        acknowledged=[name for name in view.acknowledged if agent in {None, name}],
        silent=[name for name in view.silent if agent in {None, name}],
    )


def _tell(heard: StopHeard, rows: list[AgentSeen] | None, agent: str | None) -> None:
    if heard.known:
        facts = [("acknowledged by", names(heard.acknowledged)), ("silent", names(heard.silent))]
        _say("\n".join(indented(facts)))
    else:
        _say("The daemon did not say which agents acknowledged the stop.")
    if rows is None:
        _say("The daemon did not say which allowed actions are still running.")
    elif left := still_open(rows, agent):
        _say(left)


def _run(command: str) -> bool:
    """Run a command of [stop] as the user who typed `safetyd stop`."""
    try:
        out = sys.stderr.fileno() if _for_programs() else None
        done = subprocess.run(command, shell=True, check=False, timeout=COMMAND_S, stdout=out)  # noqa: S602
    except subprocess.TimeoutExpired:
        _say(f"{plain(command)}: timed out after {COMMAND_S:g} s")
        return False
    _say(f"{plain(command)}: exit code {done.returncode}")
    return done.returncode == 0


def _end(
    heard: StopHeard, rows: list[AgentSeen] | None, failed: Sequence[str], agent: str | None
) -> int:
    """Print the problems and return the exit code. If there are none, print that all is halted."""
    if heard.silent:
        _say(f"Not acknowledged by {names(heard.silent)}. Check these agents manually.")
    alone = [name for name in busy(rows or (), agent) if name not in heard.acknowledged]
    if absent := [name for name in alone if name not in heard.silent]:
        _say(f"Actions of {names(absent)} may still be running: the stop was not acknowledged.")
    if failed:
        _say(f"{len(failed)} of the [stop] commands failed.")
    if stranger := unheard(agent, rows):
        _say(f"{stranger} The stop applies to that name anyway.")
    if heard.silent or absent or failed or stranger or rows is None or not heard.known:
        return BLOCKED
    halted = f"{plain(agent)} is halted" if agent else "All autonomous operations halted"
    _say(f"{halted}, except the actions above" if busy(rows, agent) else halted)
    return 0


def _say(words: str) -> None:
    # If standard output is closed, the stop must still be completed.
    with suppress(BrokenPipeError):
        click.echo(words, err=_for_programs())


def _for_programs() -> bool:
    """Return True if standard output is for JSON. Then text is printed to standard error."""
    context = click.get_current_context(silent=True)
    return bool(context and context.params.get("as_json"))


@command(sends=ResumeCommand)
@click.option("--agent", metavar="NAME", help="Resume only this agent. Delete no stop file.")
@says_why
@click.option("--all-except", metavar="NAME", multiple=True, help="Keep this agent stopped.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, and delete all stop files.")
@json_option
@reaches_daemon
def resume(
    location: Location,
    reason: str,
    agent: str | None,
    all_except: tuple[str, ...],
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """The command deletes the stop files that `safetyd stop` wrote. It asks before it deletes other
    stop files. On a terminal, it asks for a reason if you give none.

    For example:
      safetyd resume "list is fixed"
      safetyd resume --all-except crawler
      safetyd resume --agent crawler
    """
    if agent is not None and all_except:
        raise WrongUsage("give --agent or --all-except, not both")
    if len(all_except) > 1:
        hold = "First pause the others with `safetyd pause NAME`"
        raise WrongUsage(f"--all-except takes one agent, but {len(all_except)} were given. {hold}")
    if not (reason or yes) and sys.stdin.isatty():
        reason = _asked_why(err=as_json)
    try:
        if agent is None:
            left, holds = anyio.run(_resume, location, reason, yes, next(iter(all_except), None))
            code = BLOCKED if holds else 0
        else:
            left = anyio.run(_resume_agent, location, reason, agent)
            code = BLOCKED if left else 0
    except NotReachable as exc:
        raise NotReachable(exc.message + _without_daemon(location)) from exc
    if as_json:
        click.echo(document({"ok": code == 0, "left": left}))
    return code


def _asked_why(*, err: bool) -> str:
    """Ask for the reason; an empty line, `n` or `no` cancels."""
    question = "Why is it safe to resume? (Press Enter or type n to cancel)"
    reason: str = click.prompt(question, default="", show_default=False, err=err).strip()
    if reason.lower() in {"", "n", "no"}:
        raise Failure("cancelled: nothing was resumed", "cancelled")
    return reason


async def _resume(
    location: Location,
    reason: str,
    yes: bool,  # noqa: FBT001
    all_except: str | None,
) -> tuple[list[Stop], bool]:
    async with connected(location) as operator:
        if all_except is not None:
            _check_known(all_except, await everybody(operator))
        before = await operator.ask(StatusQuestion())
        found = [path for path in map(Path, before.stop_files) if stop_file.is_there(path)]
        chosen = [path for path in found if _may_go(path, yes=yes)]
        done = await operator.ask(ResumeCommand(reason=reason, all_except=all_except))
        gone = [path for path in chosen if _deleted(path)]
        left = await _left(operator, gone, set(found) - set(gone))
    held = found or any(stop.agent is None for stop in before.stop.stops)
    holds = len(gone) < len(found) or any(stop.agent is None for stop in left)
    if not holds and all_except is not None:
        _say(f"Resumed all agents except {plain(all_except)}.")
    elif not holds:
        _say("Resumed all agents." if held else _nothing(left))
    for daemon in done.absent:
        _say(f"Cleared the stop of {plain(daemon)}, which is not running.")
        _say("  If its stop file or variable is still there, it stops all agents when it starts.")
    _still(left)
    return left, holds


def _check_known(agent: str, rows: Sequence[AgentSeen]) -> None:
    """Reject an unknown agent: with a typo, the agent to exclude would be resumed."""
    if stranger := unheard(agent, rows):
        raise Failure(f"{stranger} Nothing was resumed.", "not_found")


async def _resume_agent(location: Location, reason: str, agent: str) -> list[Stop]:
    async with connected(location) as operator:
        cleared = (await operator.ask(ResumeCommand(reason=reason, agent=agent))).cleared
        stops = (await operator.ask(StatusQuestion())).stop.stops
        rows = await everybody(operator)
    left = [stop for stop in stops if stop.agent in {None, agent}]
    if stranger := unheard(agent, rows):
        _say(stranger)
    _say(_resumed(plain(agent), lifted=bool(cleared), held=bool(left)))
    _still(left)
    return left


def _resumed(agent: str, *, lifted: bool, held: bool) -> str:
    if not lifted:
        return f"There was no separate stop for {agent}."
    return f"Cleared the stop of {agent}." if held else f"Resumed {agent}."


def _nothing(left: Sequence[Stop]) -> str:
    return "No stop applied to all agents." if left else "Nothing was stopped."


def _still(left: Sequence[Stop]) -> None:
    for cause, ending in told_of(left):
        _say(f"Still stopped: {cause}")
        _say(f"  {ending}")


def _without_daemon(location: Location) -> str:
    path = location.data_dir / stop_file.NAME
    if not stop_file.is_there(path):
        return ""
    return f"\nthe stop file {path} exists and takes effect at the next start. You can delete it"


def _may_go(path: Path, *, yes: bool) -> bool:
    if yes or stop_file.is_ours(path):
        return True
    _say(f"{path} was not written by `safetyd stop`:")
    for line in stop_file.text_of(path).splitlines() or ["(empty)"]:
        _say(f"  {plain(line)}")
    if sys.stdin.isatty():
        return click.confirm("Delete it?", default=False, err=_for_programs())
    _say("Not deleted. Without a terminal, confirm with --yes.")
    return False


def _deleted(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        _say(f"Cannot delete {path}: {exc.strerror}. Its stop stays active.")
        return False
    return True


async def _left(
    operator: OperatorConnection, gone: Iterable[Path], kept: Iterable[Path]
) -> list[Stop]:
    """Return the remaining stops, after the daemon has noticed the deleted files, or after 5 s."""
    ended, lasting = set(gone), set(kept)
    left: list[Stop] = []
    with anyio.move_on_after(WAIT_S):
        while True:
            left = list((await operator.ask(StatusQuestion())).stop.stops)
            files = _files(left)
            if lasting <= files and not ended & files:
                break
            await anyio.sleep(LOOK_S)
    return left


def _files(stops: Iterable[Stop]) -> set[Path]:
    """Return the stop files that the daemon has found. One of several daemons adds its name."""
    found = (stop.source.partition(":") for stop in stops)
    places = [(place, daemon_of(f"file:{place}")) for kind, _, place in found if kind == "file"]
    return {Path(place.removesuffix(f" on {daemon}")) for place, daemon in places}
