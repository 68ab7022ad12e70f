"""`check`, `propose` and `outcome`: commands that speak as an agent.

Fields that safetyd does not know are kept and shown, but judged by no guard; the command says so.
"""

import difflib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

import anyio
import click
import msgspec

from safetyd.bus.codec import repeated
from safetyd.client import Decision, Safety, Severity
from safetyd.client.arguments import Options
from safetyd.client.draft import Draft, id_of, prepared
from safetyd.client.encoding import check as read
from safetyd.client.encoding import encode
from safetyd.client.exceptions import Down, Malformed
from safetyd.client.outcome_queue import tell
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
from safetyd.console.locations import KEY_VARIABLE, Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render import decision_table
from safetyd.console.render.explanation import way_out
from safetyd.console.terminal_text import document, plain
from safetyd.core.messages.proposal import (
    MAX_MESSAGE_BYTES,
    Proposal,
    is_token,
    shortest,
)
from safetyd.core.messages.telemetry import Noted, Outcome, Unreported
from safetyd.operators.contract.decision_contract import ExplainQuestion

DEADLINE_S: Final = 5.0
_EXIT: Final = {Severity.ALLOW: 0, Severity.ASK: NEEDS_PERSON, Severity.BLOCK: BLOCKED}
_NOT_ASKED: Final = {USAGE: "no_key", NOT_REACHABLE: "not_reachable"}
_read_object = msgspec.json.Decoder(dict[str, object], float_hook=shortest).decode


def unknown_fields(proposal: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each, since it may be a slip of the pen."""
    for name, meant in _unknown(Proposal, proposal, ""):
        hint = f"; did you mean {meant}?" if meant else ""
        yield f"no guard knows the field {plain(name, 100)}{hint}"


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
    """Return the struct of `Target | None`."""
    kinds = (k for k in get_args(kind) if isinstance(k, type) and issubclass(k, msgspec.Struct))
    return next(kinds, None)


@command()
@click.argument("agent")
@click.argument("kind", metavar="TYPE")
@click.option("--text", default="", help="Exactly what would be executed, typed or sent.")
@click.option("--path", "paths", multiple=True, help="A file it touches; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Only look: nothing is consumed, nobody is asked.")
@click.option("--wait", is_flag=True, help="Wait for a person's answer, at most an hour.")
@json_option
@reaches_daemon
def check(  # noqa: PLR0913 - the options of a command
    location: Location,
    agent: str,
    kind: str,
    text: str,
    paths: Sequence[str],
    *,
    dry_run: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Ask, as an agent, whether an action may run.

    This is a real proposal: it counts, and may ask a person. It is over when it is answered: no
    outcome follows.
    """
    said: dict[str, object] = {"type": kind, "text": text, "paths": paths}
    said |= {"dry_run": dry_run, "wait": wait}
    answer = _ask(location, agent, {name: value for name, value in said.items() if value})
    if as_json:
        click.echo(document(_told(answer)))
    else:
        shown = decision_table.decision(answer, kind, dry_run=dry_run)
        click.echo("\n".join((shown, *_way_out(location, answer))))
    return _exit_code(answer)


@command()
@click.argument("agent", default="unknown")
@click.option(
    "--outcome-follows", is_flag=True, help="You will report the result with `safetyd outcome`."
)
@json_option
@reaches_daemon
def propose(location: Location, agent: str, *, outcome_follows: bool, as_json: bool) -> int:
    """Propose the action that stands as JSON on standard input.

    Prints the Decision as JSON, on one line with --json. It is over when it is answered, unless
    --outcome-follows is given.
    """
    fields = _stdin()
    for note in unknown_fields(fields):
        click.echo(f"safetyd: {note}", err=True)
    answer = _ask(location, agent, fields, outcome_follows=outcome_follows)
    click.echo(document(_told(answer), indent=None if as_json else 2))
    return _exit_code(answer)


@command()
@click.argument("agent")
@click.argument("id_", metavar="ID")
@click.argument("result", type=click.Choice(["ok", "error"]))
@click.option("--error", default="", help="What went wrong.")
@click.option("--exit-code", type=int, help="The exit code of a command that ran.")
@click.option("--cost-usd", type=float, help="What it cost, in US dollars.")
@click.option("--latency-ms", type=float, help="How long it took, in milliseconds.")
@json_option
@reaches_daemon
def outcome(
    location: Location, agent: str, id_: str, result: str, *, as_json: bool, **given: object
) -> int:
    """Report how an allowed action of an agent went.

    ID is the id of the Decision. The result is `error` only if the action could not be carried
    out: a command that ran and failed is `ok --exit-code 1`.
    """
    _check_name(agent)
    exit_code = given.pop("exit_code")
    details = {} if exit_code is None else {"details": {"exit_code": exit_code}}
    said = {name: value for name, value in given.items() if value not in {None, ""}} | details
    payload = encode({"type": "outcome", "id": id_, "ok": result == "ok", **said})
    try:
        read(payload, Outcome)
    except Malformed as exc:
        raise WrongUsage(str(exc)) from exc
    noted = anyio.run(_report, agent, _options(location, agent), payload)
    if not noted.ok:
        raise Failure(f"the outcome was not recorded: {noted.error}", noted.code or "failed")
    click.echo(document({"ok": True}) if as_json else f"Recorded: {id_} of {agent}: {result}.")
    return 0


async def _report(agent: str, where: Options, payload: bytes) -> Noted:
    async with _Speaker(agent, **where) as speaker:
        return await speaker.report_payload(payload)


class _Speaker(Safety):
    """A client that sends proposals as they were written, unknown fields and all."""

    async def put(self, said: Draft, *, outcome_follows: bool) -> Decision:
        """Propose, and say that no outcome comes unless one will be reported."""
        answer = self._refusal(said)
        if answer is None:
            ends = anyio.current_time() + self._patience_s(said, DEADLINE_S)
            answer = await self._ask(said, ends)
        if answer.allowed and not outcome_follows:
            await self._tell(Unreported(id=answer.id))
        return answer

    async def report_payload(self, payload: bytes) -> Noted:
        """Send an outcome and return whether the daemon has recorded it."""
        if self._open is None:
            raise AssertionError("a speaker is opened before it speaks")
        try:
            return await tell(self._open.link, payload, DEADLINE_S)
        except Down as down:
            raise NotReachable(str(down)) from down


def _way_out(location: Location, answer: Decision) -> list[str]:
    """Return what would let a block pass, for a person: at a terminal, with an operator's key.

    The answer itself does not say it, because it is the agent's.
    """
    if answer.decision is not Severity.BLOCK or answer.seq is None or not sys.stdout.isatty():
        return []
    person = msgspec.structs.replace(location, key_file=None)  # the option names the agent's
    try:
        account = ask(person, ExplainQuestion(id=answer.id))
    except Failure:
        return []
    own = (row for row in account.decisions if row.seq == answer.seq)
    return [way_out(row) for row in own if row.remedy]


def _check_name(agent: str) -> None:
    if not is_token(agent):
        raise click.UsageError(f"{agent!r} is no agent's name: use 1 to 64 of A-Z a-z 0-9 _ -")


def _options(location: Location, agent: str) -> Options:
    """Return where the daemon is and the key of the agent."""
    key_file = location.agent_key(agent)
    os.environ.pop(KEY_VARIABLE, None)  # the client would take an operator's for the agent's
    return Options(
        url=location.given, key_file=key_file, data_dir=location.data_dir, prefix=location.prefix
    )


def _ask(
    location: Location, agent: str, fields: dict[str, object], *, outcome_follows: bool = False
) -> Decision:
    _check_name(agent)
    said = _draft(agent, fields)
    where = _options(location, agent)

    async def ask() -> Decision:
        async with _Speaker(agent, **where) as speaker:
            return await speaker.put(said, outcome_follows=outcome_follows)

    return anyio.run(ask)


def _draft(agent: str, fields: dict[str, object]) -> Draft:
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


def _told(answer: Decision) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(answer)
    code = _NOT_ASKED.get(_exit_code(answer))
    if code:
        told |= {"ok": False, "error": answer.reason, "code": code}
    return told


def _exit_code(answer: Decision) -> int:
    if "client.unavailable" not in answer.triggered_rules:
        return _EXIT[answer.decision]
    return USAGE if "`safetyd agent add" in answer.reason else NOT_REACHABLE
