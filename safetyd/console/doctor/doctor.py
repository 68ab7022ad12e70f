"""`safetyd doctor`: run all checks, and print each problem with its fix."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.clock import Clock
from safetyd.console.doctor.daemon_checks import (
    channels,
    config_given,
    daemon,
    disk,
    histories,
    parts,
    start,
    web,
)
from safetyd.console.doctor.file_checks import (
    Finding,
    audit,
    checkpoints,
    data_dir,
    keys,
    nats_server,
    note,
    operators,
    separation,
    wrong,
)
from safetyd.console.doctor.host_checks import hosts
from safetyd.console.doctor.replica_checks import replicas
from safetyd.console.failure import BLOCKED, Failure
from safetyd.console.file_history.list_history import READ_S
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import config_option, json_option, reaches_daemon
from safetyd.console.terminal_text import document, plain, several
from safetyd.host import own_config
from safetyd.operators.contract.cluster_contract import ReplicasQuestion
from safetyd.operators.contract.history_contract import CommitsQuestion
from safetyd.operators.contract.status_contract import HealthQuestion, StatusQuestion

BUS_S: Final = 15.0  # a cluster without a leader answers late


def examine(location: Location, config_path: Path | None) -> Iterator[Finding]:
    """Yield the results of all checks of a data directory and its daemon."""
    yield from data_dir(location.data_dir)
    yield from keys(location.keys)
    yield from operators(location.keys, Clock().now().at)
    yield nats_server()
    yield from audit(location.data_dir / "audit")
    yield from checkpoints(location.data_dir / "checkpoints")
    try:
        answer = ask(location, HealthQuestion())
    except Failure as exc:
        yield wrong("daemon", exc.message)
        file = config_path or own_config(location.data_dir)
        yield disk(file, location.data_dir)
        yield from config_given(file, location.data_dir)
        yield from channels(file, location.data_dir)
        yield from start(location, file)
    else:
        yield from parts(answer)
        yield from _replicas(location)
        yield from _running(location, config_path)
    yield from web(location.data_dir)
    yield from hosts(location.data_dir)
    yield separation(location.keys / "operator.nk")


def _replicas(location: Location) -> Iterator[Finding]:
    try:
        yield from replicas(ask(location, ReplicasQuestion(), patience_s=BUS_S))
    except Failure as exc:
        yield wrong("replicas", exc.message)


def _running(location: Location, config_path: Path | None) -> Iterator[Finding]:
    try:
        status = ask(location, StatusQuestion())
    except Failure as exc:  # for example a full disk, which the health checks report
        yield note("status", exc.message)
        yield from config_given(config_path, location.data_dir)
    else:
        yield from daemon(status)
        file = config_path or (Path(status.config) if status.config else None)
        yield from config_given(file, None)
        yield from channels(file, location.data_dir)
        # The daemon checks this, because it may have access to fewer folders than this user.
        commits = ask(location, CommitsQuestion(limit=1), patience_s=READ_S)
        yield from histories(commits, status)


@command()
@config_option
@json_option
@reaches_daemon
def doctor(location: Location, config_path: Path | None, *, as_json: bool) -> int:
    """Check the daemon, its files and channels, and print what to fix.

    If no daemon is running, this checks whether one could start. Use --config if the configuration
    is not safetyd.toml in the data directory. The exit code is 1 if there are problems.

    For example:
      safetyd doctor
      safetyd doctor --config /etc/safetyd/safetyd.toml
    """
    found = list(examine(location, config_path))
    wrong = sum(finding.level == "wrong" for finding in found)
    if as_json:
        click.echo(document({"ok": not wrong, "findings": msgspec.to_builtins(found)}))
    else:
        click.echo("\n".join(map(_line, found)))
        click.echo(_verdict(found, wrong))
    return BLOCKED if wrong else 0


def _verdict(findings: Sequence[Finding], wrong: int) -> str:
    stopped = any(one.check == "stop" and one.level == "note" for one in findings)
    found = several(wrong, "problem") if wrong else "No problems"
    return f"{found} found. Everything is STOPPED." if stopped else f"{found} found."


def _line(finding: Finding) -> str:
    return f"{finding.level:<5}  {finding.check:<13}  {plain(finding.text, 1000)}"
