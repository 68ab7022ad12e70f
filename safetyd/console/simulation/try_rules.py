"""`safetyd simulate`: apply other rules, or a grant, to past decisions."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from safetyd.clock import Clock
from safetyd.console.daemon_config import read_config
from safetyd.console.failure import NEEDS_PERSON, WrongUsage, using_file
from safetyd.console.help_page import command
from safetyd.console.options import config_option, data_dir_option, json_option
from safetyd.console.simulation import simulation_words
from safetyd.console.simulation.past_grants import (
    PastGrant,
    PastRequests,
    cover,
    of_command,
    of_request,
    past_request,
)
from safetyd.console.simulation.past_record import PastRecord, PastSimulation, recorded_policy
from safetyd.console.subcommands.manage_grants import grant_options
from safetyd.console.subcommands.read_records import some_files
from safetyd.console.terminal_text import document
from safetyd.console.time_input import since as read_since
from safetyd.console.time_input import until
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.policy import Policy
from safetyd.daemon.settings import policy_of
from safetyd.host import own_config
from safetyd.operators.contract.grant_contract import GrantCommand, RequestGrantTerms
from safetyd.operators.grant_commands import LONGEST, LONGEST_NAMED, MOST_NAMED
from safetyd.operators.views.grant_offer import LOOKED_BACK

MOST: Final = 1000  # uses
_CLEARED: Final = "\r\x1b[K"


@command()
@config_option
@click.option("--since", metavar="TIME", help="Only since this time: 7d, 9:00, 'yesterday 9:00'.")
@click.option("--grant", is_flag=True, help="Simulate a grant with the options under Grant.")
@click.option("--grant-request", metavar="ID", help="Simulate `approve --grant` of this request.")
@grant_options(required=False)
@data_dir_option
@json_option
def simulate(
    config_path: Path | None,
    since: str | None,
    directory: Path,
    grant_request: str | None,
    *,
    grant: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Repeat past decisions under other rules and show the differences.

    The new rules come from --config, or from the current content of the daemon's configuration
    file. The past decisions come from the audit files. No daemon is needed, and nothing is changed.
    The exit code is 3 if an action that was blocked would be allowed.

    With --grant or --grant-request, the output shows instead which requests the grant would have
    covered since --since (default: in the last week).

    For example:
      safetyd simulate --config new.toml --since 7d
      safetyd simulate --grant --agent code --type push
    """
    where = directory / "audit"
    some_files(where)
    begin = None if since is None else read_since(since, Clock().now().at)
    terms = {name: value for name, value in options.items() if value}
    if grant and grant_request:
        raise WrongUsage("give --grant or --grant-request, not both")
    if grant_request:
        past = _of_request(where, grant_request, terms, begin)
    elif grant:
        past = _of_command(where, terms, begin)
    else:
        if terms:
            raise WrongUsage(f"--{next(iter(terms)).rstrip('_')} needs --grant or --grant-request")
        return _simulated(where, _policy(config_path, directory, where), begin, as_json=as_json)
    told = document({"ok": True, **msgspec.to_builtins(past)})
    click.echo(told if as_json else simulation_words.grant(past))
    return 0


def _policy(config_path: Path | None, place: Path, where: Path) -> Policy:
    """Return the rules of the given file, or of the daemon's configuration file."""
    recorded = recorded_policy(where)
    path = config_path or _followed(recorded, place) or own_config(place)
    if path is None:
        raise WrongUsage("no configuration found. Give the rules to simulate with --config")
    policy = policy_of(read_config(path), place, path)
    if recorded is None:
        return policy
    own = msgspec.structs.replace(policy.own, settings=recorded.own.settings)
    return msgspec.structs.replace(policy, own=own)


def _followed(recorded: Policy | None, place: Path) -> Path | None:
    """Return the configuration file that the daemon used last.

    Return None if `place` is not the data directory of that daemon.
    """
    if recorded is None or str(place.resolve()) not in recorded.own.directories:
        return None
    return next((path for path in map(Path, recorded.own.settings) if path.is_file()), None)


def _simulated(where: Path, policy: Policy, since: datetime | None, *, as_json: bool) -> int:
    with using_file(where, "read"):
        run = PastSimulation(PastRecord(where), policy, _progress()).run(since)
    if sys.stderr.isatty():
        click.echo(_CLEARED, err=True, nl=False)
    told = document({"ok": True, "same": run.report.changes_nothing, **msgspec.to_builtins(run)})
    click.echo(told if as_json else simulation_words.simulation(run, policy.timezone))
    return NEEDS_PERSON if run.report.loosened else 0


def _progress() -> simulation_words.Progress:
    """Return a function that shows progress on a terminal."""
    if not sys.stderr.isatty():
        return lambda _share, _decisions: None

    def tell(share: float, decisions: int) -> None:
        click.echo(f"{_CLEARED}{share:4.0%}  {decisions} decisions", err=True, nl=False)

    return tell


def _state(where: Path) -> EngineState:
    """Return an engine state with the last recorded rules."""
    return EngineState(recorded_policy(where) or Policy())


def _of_command(where: Path, terms: dict[str, Any], since: datetime | None) -> PastGrant:
    if "agent" not in terms:
        raise WrongUsage("--grant needs --agent NAME")
    now = Clock().now()
    longest, most = (LONGEST_NAMED, MOST_NAMED) if "rule" in terms else (LONGEST, MOST)
    uses = terms.get("uses")
    length = terms.pop("for_", None)
    ends = until(length, now.at) if length else now.at + longest
    command = GrantCommand(**{"uses": most, "reason": "a trial", **terms, "until": ends})
    state, past = _state(where), PastRequests(where, command.agent)
    granted = of_command(state, command, now)
    granted = msgspec.structs.replace(granted, keyed=not past.keyless)
    begin = since or now.at - LOOKED_BACK
    return cover(state, granted, past.since(begin), begin, uses)


def _of_request(where: Path, id_: str, terms: dict[str, Any], since: datetime | None) -> PastGrant:
    if terms.keys() - {"reason", "uses", "for_", "text", "max_usd"}:
        raise WrongUsage(
            "--grant-request takes only --uses, --for, --text and --max-usd: "
            "the request determines the rest"
        )
    request = past_request(where, id_)
    asked = request.asked
    wanted = RequestGrantTerms(
        uses=terms.get("uses", 1),
        until=until(terms["for_"], asked.at) if "for_" in terms else asked.at + LONGEST,
        max_usd=terms.get("max_usd"),
        text=terms.get("text"),
    )
    state = _state(where)
    granted = of_request(state, request, wanted)
    begin = since or asked.at - LOOKED_BACK
    past = PastRequests(where, asked.agent).since(begin)
    return cover(state, granted, past, begin, terms.get("uses"))
