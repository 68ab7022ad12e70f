"""Messages to people: whether they get through, what they say, and what to do when they do not."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import click
import msgspec

from safetyd.console.failure import BLOCKED, Failure, WrongUsage, using_file
from safetyd.console.help_page import group
from safetyd.console.locations import Location
from safetyd.console.operator_connection import OperatorConnection, ask, connected
from safetyd.console.options import call_command, json_option, reaches_daemon
from safetyd.console.render import delivery_tables
from safetyd.console.terminal_text import document, echo, plain, several
from safetyd.operators.contract.notification_contract import (
    ChannelsQuestion,
    DeliveryRow,
    DropCommand,
    OutboxQuestion,
    PairCommand,
    PreviewQuestion,
    PreviewRow,
    RetryCommand,
    RotateCommand,
    TestCommand,
)

TEST_S: Final = 45.0  # no channel takes longer for one try
LOOK_S: Final = 0.25
ROTATE_S: Final = 15.0

Rows = tuple[DeliveryRow, ...]

UNFINISHED: Final = frozenset({"open"})
STATES: Final = click.Choice(
    ["open", "parked", "accepted", "delivered", "undelivered", "dead", "cancelled", "expired"]
)


@group()
def notify() -> None:
    """Try how people are told, and see what was not told."""


@notify.command(sends=TestCommand)
@click.argument("channels", nargs=-1, metavar="[CHANNEL]...")
@click.option("--recipient", "recipients", multiple=True, metavar="NAME", help="Only to them.")
@click.option(
    "--wait-click", type=click.IntRange(1, 3600), metavar="S", help="Wait until a link is opened."
)
@json_option
@reaches_daemon
def test(
    location: Location,
    channels: tuple[str, ...],
    recipients: tuple[str, ...],
    wait_click: int | None,
    *,
    as_json: bool,
) -> int:
    """It goes through every channel, or those that are named.

    It skips batches and quiet hours. With --wait-click it waits until somebody has opened the link
    in it and pressed the button there, which proves the way back.
    """
    rows = anyio.run(_test, location, channels, recipients, wait_click)
    if as_json:
        click.echo(document({"deliveries": rows}))
    else:
        click.echo(delivery_tables.tested(rows, waited_for_click=wait_click is not None))
    return (
        0
        if all(delivery_tables.went_well(row, wait_click is not None) for row in rows)
        else BLOCKED
    )


async def _test(
    location: Location, channels: tuple[str, ...], recipients: tuple[str, ...], click_s: int | None
) -> Rows:
    async with connected(location) as operator:
        begun = await operator.ask(TestCommand(channels=channels, recipients=recipients))
        wanted, note = len(begun.lanes), begun.note
        click.echo(f"Sending {several(wanted, 'test message')}.", err=True)
        rows = await _until(operator, note, TEST_S, lambda rows: _sent(rows, wanted))
        if click_s is not None and any(delivery_tables.arrived(row) for row in rows):
            click.echo(f"Open a link within {click_s} s and press the button there.", err=True)
            rows = await _until(operator, note, click_s, _opened)
        return await _waiting_for_mending(operator, rows)


async def _waiting_for_mending(operator: OperatorConnection, rows: Rows) -> Rows:
    """Say of messages that their channel waits to be mended, although no try of theirs said so."""
    if not any(row.state == "open" and row.error for row in rows):
        return rows
    channels = (await operator.ask(ChannelsQuestion())).channels
    parked = {channel.name for channel in channels if channel.fuse == "parked"}
    return tuple(
        msgspec.structs.replace(row, state="parked")
        if row.state == "open" and row.channel in parked
        else row
        for row in rows
    )


async def _until(
    operator: OperatorConnection,
    note: str,
    patience_s: float,
    done: Callable[[Rows], bool],
) -> Rows:
    """Look at what became of the messages until `done` says yes or patience ends."""
    rows: Rows = ()
    with anyio.move_on_after(patience_s):
        while True:
            rows = (await operator.ask(OutboxQuestion(ref=note))).deliveries
            if done(rows):
                break
            await anyio.sleep(LOOK_S)
    return rows


def _sent(rows: Rows, wanted: int) -> bool:
    """Say whether every message was tried: one that failed for now is tried again later."""
    tried = [row for row in rows if row.state not in UNFINISHED or row.error]
    return len(tried) >= wanted


def _opened(rows: Rows) -> bool:
    return any(row.opened_at for row in rows)


@notify.command(sends=PreviewQuestion)
@click.option("--channel", metavar="NAME", help="Only on this channel.")
@click.option(
    "--urgency", type=click.Choice(["low", "normal", "high"]), default="normal", show_default=True
)
@click.option("--request", "request_id", metavar="ID", help="About this request, not a sample.")
@click.option(
    "--batch", type=click.IntRange(1, 1000), default=1, show_default=True, help="So many requests."
)
@click.option("--digest", is_flag=True, help="As after quiet hours.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the mail's HTML here."
)
@json_option
@reaches_daemon
def preview(
    location: Location,
    out: Path | None,
    channel: str | None,
    request_id: str | None,
    *,
    as_json: bool,
    **wanted: Any,
) -> None:
    """It says how long each message is, and when it would be sent."""
    question = PreviewQuestion(channel=channel or "", request=request_id or "", **wanted)
    answer = ask(location, question)
    if out is not None:
        _write_page(out, answer.previews)
    echo(answer, delivery_tables.previews, as_json=as_json)


def _write_page(out: Path, previews: Sequence[PreviewRow]) -> None:
    pages = [shown.html for shown in previews if shown.html]
    if not pages:
        raise Failure("no mail is configured, so there is no HTML to write", "no_channel")
    with using_file(out, "written"):
        out.write_text(pages[0], encoding="utf-8")


@notify.command()
@click.option("--copy", metavar="NAME", help="Copy this template, to edit it.")
@reaches_daemon
def templates(location: Location, copy: str | None) -> None:
    """List the templates of messages, or copy one to the data directory.

    The daemon uses a copy instead of the shipped template. If a copy fails, the daemon uses the
    shipped one and raises an alert.
    """
    from safetyd.notify.channel_templates import TEMPLATES  # noqa: PLC0415 - see below
    from safetyd.notify.template_rendering import NAMES, shipped  # noqa: PLC0415 - it imports jinja

    directory = location.data_dir / TEMPLATES
    if copy is None:
        for name in NAMES:
            file = directory / name
            click.echo(f"{name:<12}  {file if file.exists() else 'as shipped'}")
        return
    if copy not in NAMES:
        raise WrongUsage(f"{copy!r} is not one of {', '.join(NAMES)}")
    file = directory / copy
    with using_file(file, "written"):
        directory.mkdir(mode=0o700, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(shipped(copy))
    click.echo(f"{file} is used from now on; `safetyd notify preview` shows the messages.")


call_command(
    "outbox",
    OutboxQuestion,
    delivery_tables.outbox,
    click.option("--state", type=STATES, help="Only messages in this state."),
    below=notify,
)
call_command("channels", ChannelsQuestion, delivery_tables.channels, below=notify)
call_command(
    "retry",
    RetryCommand,
    lambda reply: f"{several(reply.retried, 'message')} will be tried again.",
    click.argument("id", metavar="ID", default=""),
    click.option("--channel", default="", metavar="NAME", help="All messages of this channel."),
    below=notify,
)
call_command(
    "drop",
    DropCommand,
    lambda reply: f"{plain(reply.id)} is dropped.",
    click.argument("id", metavar="ID"),
    below=notify,
)
pair = call_command(
    "pair",
    PairCommand,
    lambda reply: (
        f"Open this in the browser of {plain(reply.recipient)} within ten minutes:\n"
        f"  {plain(reply.link)}"
    ),
    click.argument("recipient", default=""),
    about="""It answers for RECIPIENT, the first one if none is named.

    Open the link in that browser within ten minutes; it holds for 90 days.
    """,
)


@group()
def keys() -> None:
    """Manage what decision links are signed with."""


@keys.command(sends=RotateCommand)
@click.option("--revoke-now", is_flag=True, help="Let every link that is out there die at once.")
@reaches_daemon
def rotate(location: Location, *, revoke_now: bool) -> None:
    """Earlier links work for another week."""
    ask(location, RotateCommand(revoke_now=revoke_now), patience_s=ROTATE_S)
    click.echo(
        "Every link that was sent is dead; `safetyd list` shows what waits."
        if revoke_now
        else "New links have a new key; old ones work for a week."
    )
