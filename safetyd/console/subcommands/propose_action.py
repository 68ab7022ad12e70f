"""`check`, `propose` and `outcome`: commands that act as an agent.

Unknown fields are recorded and shown, but no guard uses them. `propose` prints a warning for each.
"""

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

import anyio
import click
import msgspec

from safetyd.bus.codec import repeated
from safetyd.client import Decision, Safety, Severity
from safetyd.client.arguments import Options
from safetyd.client.draft import Draft, id_of, in_folder, prepared
from safetyd.client.encoding import check as read
from safetyd.client.encoding import encode
from safetyd.client.exceptions import Down, KeyRejected, Malformed
from safetyd.client.outcome_queue import tell
from safetyd.console.agent_options import agent_options, check_agent_name
from safetyd.console.failure import (
    BLOCKED,
    NEEDS_PERSON,
    NOT_REACHABLE,
    USAGE,
    Failure,
    NotReachable,
    WrongUsage,
)
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render import decision_table
from safetyd.console.render.explanation import way_out
from safetyd.console.terminal_text import document, plain
from safetyd.core.messages.proposal import (
    MAX_MESSAGE_BYTES,
    Proposal,
    shortest,
)
from safetyd.core.messages.telemetry import Noted, Outcome
from safetyd.operators.contract.decision_contract import ExplainQuestion

DEADLINE_S: Final = 5.0
_EXIT: Final = {Severity.ALLOW: 0, Severity.ASK: NEEDS_PERSON, Severity.BLOCK: BLOCKED}
_NOT_ASKED: Final = {USAGE: "no_key", NOT_REACHABLE: "not_reachable"}
_read_object = msgspec.json.Decoder(dict[str, object], float_hook=shortest).decode


def unknown_fields(proposal: Mapping[str, object]) -> Iterator[str]:
    """Yield a warning for each unknown field, since it may be a typo."""
    for name, meant in _unknown(Proposal, proposal, ""):
        hint = f" Did you mean {meant}?" if meant else ""
        yield f"unknown field {plain(name, 100)}: no guard uses it.{hint}"


def _unknown(
    kind: type[msgspec.Struct], fields: Mapping[str, object], path: str
) -> Iterator[tuple[str, str]]:
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in fields.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            yield path + name, path + near[0] if near else ""
        elif (inner := _struct(known[name])) and isinstance(value, Mapping):
            yield from _unknown(inner, value, f"{path}{name}.")


def _struct(kind: object) -> type[msgspec.Struct] | None:
    """Return the struct in a union such as `Target | None`."""
    kinds = (k for k in get_args(kind) if isinstance(k, type) and issubclass(k, msgspec.Struct))
    return next(kinds, None)


@command()
@click.argument("agent", help="The name of the agent.")
@click.argument("kind", metavar="TYPE", help="The type of action. See `safetyd types`.")
@click.option("--text", default="", metavar="TEXT", help="What would be executed, typed or sent.")
@click.option("--path", "paths", multiple=True, metavar="PATH", help="A file. Can be repeated.")
@click.option("--project", default="", metavar="NAME", help="The configured project.")
@click.option(
    "--cwd",
    default="",
    metavar="DIR",
    help="Where a command runs and --path begins. Default for --path: here.",
)
@click.option("--dry-run", is_flag=True, help="Use up no limits, and create no request.")
@click.option("--wait", is_flag=True, help="Wait up to an hour for an operator's answer.")
@json_option
@reaches_daemon
def check(  # noqa: PLR0913 - the options of a command
    location: Location,
    agent: str,
    kind: str,
    text: str,
    paths: Sequence[str],
    *,
    project: str,
    cwd: str,
    dry_run: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Propose an action as an agent and print the decision.

    This is a real proposal: it counts against limits and may create a request for approval. To
    prevent both, use --dry-run. You need not report an outcome.

    For example:
      safetyd check code run_shell --text 'rm -rf build'
      safetyd check code edit_file --path /etc/hosts --dry-run
    """
    said: dict[str, object] = {"type": kind, "text": text, "paths": paths}
    said |= {"project": project, "cwd": cwd, "dry_run": dry_run, "wait": wait}
    given = in_folder({name: value for name, value in said.items() if value})
    answer, exit_code = _ask(location, agent, given)
    if as_json:
        click.echo(document(_as_json(answer, exit_code)))
    else:
        shown = decision_table.decision(answer, kind, dry_run=dry_run)
        click.echo("\n".join((shown, *_way_out(location, answer))))
    return exit_code


@command()
@click.argument("agent", default="unknown", help="The name of the agent.")
@click.option(
    "--outcome-follows", is_flag=True, help="You will report the result with `safetyd outcome`."
)
@json_option
@reaches_daemon
def propose(location: Location, agent: str, *, outcome_follows: bool, as_json: bool) -> int:
    """Read a proposal as JSON from standard input and print the decision.

    The decision is JSON too. With --json it is one line. `safetyd docs protocol` lists the fields.

    For example:
      echo '{"type": "run_shell", "text": "git push"}' | safetyd propose code
    """
    fields = _stdin()
    for note in unknown_fields(fields):
        click.echo(f"safetyd: {note}", err=True)
    answer, exit_code = _ask(location, agent, fields, outcome_follows=outcome_follows)
    click.echo(document(_as_json(answer, exit_code), indent=None if as_json else 2))
    return exit_code


@command()
@click.argument("agent", help="The name of the agent.")
@click.argument("id_", metavar="ID", help="The id of the decision.")
@click.argument("result", type=click.Choice(["ok", "error"]), help="ok if the action ran.")
@click.option("--error", default="", metavar="TEXT", help="What went wrong.")
@click.option("--exit-code", type=int, metavar="N", help="The exit code of the command.")
@click.option("--cost-usd", type=float, metavar="USD", help="The cost in US dollars.")
@click.option("--latency-ms", type=float, metavar="MS", help="The duration in milliseconds.")
@json_option
@reaches_daemon
def outcome(
    location: Location, agent: str, id_: str, result: str, *, as_json: bool, **given: object
) -> int:
    """Report the outcome of an allowed action.

    Use `error` only if the action could not run. If a command ran and failed, report
    `ok --exit-code 1`.

    For example:
      safetyd outcome code 01JQ0Z3M9V ok --exit-code 0
      safetyd outcome code 01JQ0Z3M9V error --error "no space left on device"
    """
    check_agent_name(agent)
    exit_code = given.pop("exit_code")
    details = {} if exit_code is None else {"details": {"exit_code": exit_code}}
    said = {name: value for name, value in given.items() if value not in {None, ""}} | details
    payload = encode({"type": "outcome", "id": id_, "ok": result == "ok", **said})
    try:
        read(payload, Outcome)
    except Malformed as exc:
        raise WrongUsage(str(exc)) from exc
    noted = anyio.run(_report, agent, agent_options(location, agent), payload)
    if not noted.ok:
        raise Failure(f"outcome not recorded: {noted.error}", noted.code or "failed")
    if as_json:
        click.echo(document({"ok": True, "note": noted.note} if noted.note else {"ok": True}))
        return 0
    click.echo(f"Recorded the outcome of {agent}'s action {id_}: {result}.")
    if noted.note:
        click.echo(f"safetyd: warning: {plain(noted.note)}", err=True)
    return 0


async def _report(agent: str, where: Options, payload: bytes) -> Noted:
    async with _Speaker(agent, **where) as speaker:
        return await speaker.report_payload(payload)


class _Speaker(Safety):
    """A client that sends proposals unchanged, including unknown fields."""

    async def put(self, said: Draft, *, outcome_follows: bool) -> tuple[Decision, int]:
        """Propose an action. Return the decision and the exit code for it.

        Unless an outcome follows, tell the daemon not to expect one.
        """
        answer = self._refusal(said)
        if answer is None:
            ends = anyio.current_time() + self._patience_s(said, DEADLINE_S)
            try:
                answer = await self._decision(said, ends)
            except Down as down:
                exit_code = USAGE if isinstance(down, KeyRejected) else NOT_REACHABLE
                return said.refused("unavailable", str(down)), exit_code
        if answer.allowed and not outcome_follows:
            await self.unreported(answer.id)
        return answer, _EXIT[answer.decision]

    async def report_payload(self, payload: bytes) -> Noted:
        """Send an outcome and return the daemon's acknowledgement."""
        if self._open is None:
            raise AssertionError("the client is not open")
        try:
            return await tell(self._open.link, payload, DEADLINE_S)
        except Down as down:
            raise NotReachable(str(down)) from down


def _way_out(location: Location, answer: Decision) -> list[str]:
    """Return how to get a blocked action allowed.

    This is not part of the decision, because agents read decisions. It is printed only on a
    terminal, and only for a user with an operator's key.
    """
    if answer.decision is not Severity.BLOCK or answer.seq is None or not sys.stdout.isatty():
        return []
    # --key-file names the agent's key, which is not allowed to ask for explanations.
    operator = msgspec.structs.replace(location, key_file=None)
    try:
        account = ask(operator, ExplainQuestion(id=answer.id))
    except Failure:
        return []
    own = (row for row in account.decisions if row.seq == answer.seq)
    return [way_out(row) for row in own if row.remedy]


def _ask(
    location: Location, agent: str, fields: Mapping[str, object], *, outcome_follows: bool = False
) -> tuple[Decision, int]:
    check_agent_name(agent)
    said = _draft(agent, fields)
    where = agent_options(location, agent)

    async def ask() -> tuple[Decision, int]:
        async with _Speaker(agent, **where) as speaker:
            return await speaker.put(said, outcome_follows=outcome_follows)

    return anyio.run(ask)


def _draft(agent: str, fields: Mapping[str, object]) -> Draft:
    try:
        return prepared(agent, fields)
    except TypeError as exc:
        return Draft(agent=agent, id=id_of(fields), flaw=str(exc))


def _stdin() -> dict[str, object]:
    content = sys.stdin.buffer.read(MAX_MESSAGE_BYTES + 1)
    if len(content) > MAX_MESSAGE_BYTES:
        raise click.UsageError(f"standard input has more than {MAX_MESSAGE_BYTES} bytes")
    if not content.strip():
        raise click.UsageError("standard input is empty")
    try:
        fields = _read_object(content)
        twice = repeated(content, fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise click.UsageError(f"standard input is not a JSON object: {exc}") from exc
    if twice is not None:
        raise click.UsageError(f"standard input has the key {twice!r} twice in one object")
    return fields


def _as_json(answer: Decision, exit_code: int) -> dict[str, object]:
    """Return a decision and, if the daemon was not reached, the error code."""
    fields: dict[str, object] = msgspec.to_builtins(answer)
    code = _NOT_ASKED.get(exit_code)
    if code:
        fields |= {"ok": False, "error": answer.reason, "code": code}
    return fields
