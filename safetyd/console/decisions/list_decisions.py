"""`safetyd decisions`: list decisions, or follow them."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import anyio
import click
from msgspec.structs import replace

from safetyd.clock import Clock
from safetyd.console.failure import NotReachable
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.decision_table import VERDICTS, decision_line, decisions
from safetyd.console.subcommands.read_records import readable
from safetyd.console.terminal_text import CTRL_C, document
from safetyd.console.time_input import since as read_since
from safetyd.core.messages.verdict import Severity
from safetyd.journal.audit_reading import WITHOUT_BOUNDS, NewestFirst, Rests
from safetyd.operators.contract.decision_contract import (
    DecisionsAnswer,
    DecisionsQuestion,
    Row,
)
from safetyd.operators.views import decision_view

SEARCH_S: Final = 30.0
PAGE: Final = 1000  # rows per query, the most that the daemon accepts
LOOK_S: Final = 0.5
MAX_NEW: Final = 500  # new rows per query with --follow

Answered = Callable[[DecisionsQuestion], Awaitable[DecisionsAnswer]]
Newest = tuple[list[Row], bool, int]


@command("decisions", sends=DecisionsQuestion)
@click.option("--agent", metavar="A", help="Only decisions about this agent.")
@click.option(
    "--verdict",
    type=click.Choice([*VERDICTS, *(verdict.value for verdict in Severity)]),
    help="Only this verdict.",
)
@click.option("--rule", metavar="R", help="Only rules that start with this text.")
@click.option(
    "--not-rule", "not_rules", metavar="R", multiple=True, help="Omit this rule. Can be repeated."
)
@click.option("--text", metavar="T", help="Only actions or reasons that contain this text.")
@click.option("--since", metavar="WHEN", help="Only since this time: 2h, 9:00, 'yesterday 9:00'.")
@click.option("--events", is_flag=True, help="Include events such as stops, answers and limits.")
@click.option("--only-events", is_flag=True, help="Only events, no decisions.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new decisions until Ctrl-C.")
@json_option
@reaches_daemon
def decided(  # noqa: PLR0913 - the options of a command
    location: Location,
    *,
    agent: str | None,
    verdict: str | None,
    rule: str | None,
    not_rules: tuple[str, ...],
    text: str | None,
    since: str | None,
    limit: int,
    events: bool,
    only_events: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """The newest come first. With --follow, the newest come last and --json prints one object per
    line. If no daemon is running, this reads the audit files.

    For example:
      safetyd decisions --verdict block --since 24h
      safetyd decisions --agent code --events --follow
      safetyd decisions --only-events --since 1h --limit 200 --not-rule rate

    """
    asked = DecisionsQuestion(
        what="events" if only_events else "all" if events else "decisions",
        agent=agent,
        verdict=Severity(VERDICTS.get(verdict, verdict)) if verdict else None,
        rule=rule,
        text=text,
        since=read_since(since, Clock().now().at) if since else None,
    )
    try:
        if follow:
            anyio.run(_follow, location, asked, not_rules, limit, as_json)
            return
        rows, more, _ = anyio.run(_listed, location, asked, not_rules, limit)
    except KeyboardInterrupt:
        click.echo(err=True)
        return
    if as_json:
        click.echo(document({"ok": True, "rows": rows, "more": more}))
    else:
        click.echo(decisions(rows, more=more))


async def _listed(
    location: Location, asked: DecisionsQuestion, not_rules: tuple[str, ...], limit: int
) -> Newest:
    try:
        async with connected(location) as operator:
            ask = partial(operator.ask, patience_s=SEARCH_S)
            return await _newest(ask, asked, not_rules, limit)
    except NotReachable as exc:
        where = readable(location, exc)

    async def read(question: DecisionsQuestion) -> DecisionsAnswer:
        lines = NewestFirst(where, question.before, WITHOUT_BOUNDS, Rests(0.0))
        return decision_view.decisions(lines, question)

    return await _newest(read, asked, not_rules, limit)


async def _newest(
    answered: Answered, asked: DecisionsQuestion, not_rules: tuple[str, ...], limit: int
) -> Newest:
    """Return the newest rows, True if there are more, and the number of the newest event."""
    rows: list[Row] = []
    more, newest = True, 0
    while more and len(rows) < limit:
        asked = replace(asked, limit=PAGE if not_rules else min(limit - len(rows), PAGE))
        answer = await answered(asked)
        rows += (row for row in answer.rows if not (row.rule or "").startswith(not_rules))
        asked = replace(asked, before=answer.before)
        more, newest = answer.more, newest or answer.newest
    return rows[:limit], more or len(rows) > limit, newest


async def _follow(
    location: Location,
    asked: DecisionsQuestion,
    not_rules: tuple[str, ...],
    limit: int,
    as_json: bool,  # noqa: FBT001 - called by anyio.run
) -> None:
    async with connected(location) as operator:
        ask = partial(operator.ask, patience_s=SEARCH_S)
        rows, _, newest = await _newest(ask, asked, not_rules, limit)
        _print(rows, as_json=as_json)
        click.echo(f"Following {operator.address}. {CTRL_C}", err=True)
        while True:
            await anyio.sleep(LOOK_S)
            later = replace(asked, after=newest)
            rows, more, last = await _newest(ask, later, not_rules, MAX_NEW)
            if more:
                click.echo(
                    "Too many new decisions: some were skipped. Use --agent or --verdict.", err=True
                )
            _print(rows, as_json=as_json)
            newest = last or newest


def _print(rows: Sequence[Row], *, as_json: bool) -> None:
    for row in reversed(rows):
        click.echo(document(row) if as_json else decision_line(row))
