"""Commands that test, preview and inspect notifications, and resend undelivered ones."""

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
from safetyd.console.subcommands.rehearse_day import rehearse
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

TEST_S: Final = 45.0  # no channel takes longer for one attempt
LOOK_S: Final = 0.25
ROTATE_S: Final = 15.0

Rows = tuple[DeliveryRow, ...]

UNFINISHED: Final = frozenset({"open"})
STATES: Final = click.Choice(
    ["open", "parked", "accepted", "delivered", "undelivered", "dead", "cancelled", "expired"]
)
_STATES: Final = ", ".join(STATES.choices)


@group()
def notify() -> None:
    """Test, preview and inspect notifications.

    For example:
      safetyd notify test
      safetyd notify channels
      safetyd notify outbox --state undelivered
    """


@notify.command(sends=TestCommand)
@click.argument("channels", nargs=-1, metavar="[CHANNEL]...", help="Only these channels.")
@click.option(
    "--recipient", "recipients", multiple=True, metavar="NAME", help="Send only to this recipient."
)
@click.option(
    "--wait-click",
    type=click.IntRange(1, 3600),
    metavar="SECONDS",
    help="Wait for someone to open the link and press the button.",
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
    """The message is sent immediately, regardless of batching and quiet hours. With --wait-click,
    you can also test whether links in messages work.

    For example:
      safetyd notify test
      safetyd notify test email --wait-click 120
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
        click.echo(f"Sending {several(wanted, 'test message')} …", err=True)
        rows = await _until(operator, note, TEST_S, lambda rows: _sent(rows, wanted))
        if click_s is not None and any(delivery_tables.arrived(row) for row in rows):
            click.echo(
                f"Open a link in the message within {click_s} s and press the button.", err=True
            )
            rows = await _until(operator, note, click_s, _opened)
        return await _with_parked(operator, rows)


async def _with_parked(operator: OperatorConnection, rows: Rows) -> Rows:
    """Set the state of unsent messages to `parked` if their channel is parked."""
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
    """Poll the test messages until `done` returns True, for at most `patience_s`."""
    rows: Rows = ()
    with anyio.move_on_after(patience_s):
        while True:
            rows = (await operator.ask(OutboxQuestion(ref=note))).deliveries
            if done(rows):
                break
            await anyio.sleep(LOOK_S)
    return rows


def _sent(rows: Rows, wanted: int) -> bool:
    """Return True if safetyd has tried to send every message, even if an attempt failed."""
    tried = [row for row in rows if row.state not in UNFINISHED or row.error]
    return len(tried) >= wanted


def _opened(rows: Rows) -> bool:
    return any(row.opened_at for row in rows)


@notify.command(sends=PreviewQuestion)
@click.option("--channel", metavar="NAME", help="Only this channel.")
@click.option(
    "--urgency",
    type=click.Choice(["low", "normal", "high"]),
    default="normal",
    show_default=True,
    help="The urgency of the sample.",
)
@click.option("--request", "request_id", metavar="ID", help="Use this request instead of a sample.")
@click.option(
    "--batch",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=1,
    show_default=True,
    help="Number of requests in the message.",
)
@click.option("--digest", is_flag=True, help="Show the digest that follows quiet hours.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the HTML of the mail to this file.",
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
    """The output shows the text, its length, and when it would be sent. Nothing is sent.

    For example:
      safetyd notify preview --channel email --out mail.html
      safetyd notify preview --request req_3f2a
    """
    question = PreviewQuestion(channel=channel or "", request=request_id or "", **wanted)
    answer = ask(location, question)
    if out is not None:
        _write_page(out, answer.previews)
    echo(answer, delivery_tables.previews, as_json=as_json)


def _write_page(out: Path, previews: Sequence[PreviewRow]) -> None:
    pages = [shown.html for shown in previews if shown.html]
    if not pages:
        raise Failure("--out needs a mail channel, but none is configured or chosen", "no_channel")
    with using_file(out, "write"):
        out.write_text(pages[0], encoding="utf-8")


@notify.command()
@click.option("--copy", metavar="NAME", help="Copy this template to the data directory.")
@reaches_daemon
def templates(location: Location, copy: str | None) -> None:
    """List the message templates, or copy one to edit it.

    The daemon uses your copy instead of the shipped template. If rendering your copy fails, it uses
    the shipped template and raises an alert.

    For example:
      safetyd notify templates
      safetyd notify templates --copy mail.txt
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
        raise WrongUsage(f"unknown template {copy!r}. Choose one of {', '.join(NAMES)}")
    file = directory / copy
    with using_file(file, "write"):
        directory.mkdir(mode=0o700, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(shipped(copy))
    click.echo(
        f"Created {file}. The daemon now uses it. To check it, run `safetyd notify preview`."
    )


call_command(
    "outbox",
    OutboxQuestion,
    delivery_tables.outbox,
    click.option("--state", type=STATES, metavar="STATE", help=f"Only {_STATES}."),
    about="""For example:
      safetyd notify outbox
      safetyd notify outbox --state undelivered
    """,
    below=notify,
)
call_command(
    "channels",
    ChannelsQuestion,
    delivery_tables.channels,
    about="""For example:
      safetyd notify channels
    """,
    below=notify,
)
call_command(
    "retry",
    RetryCommand,
    lambda reply: f"{several(reply.retried, 'message')} will be sent again.",
    click.argument("id", metavar="[ID]", default="", help="A message, as `outbox` shows it."),
    click.option("--channel", default="", metavar="NAME", help="All messages of this channel."),
    about="""For example:
      safetyd notify retry --channel email
    """,
    below=notify,
)
call_command(
    "drop",
    DropCommand,
    lambda reply: f"Dropped {plain(reply.id)}.",
    click.argument("id", metavar="ID", help="A message, as `outbox` shows it."),
    about="""For example:
      safetyd notify drop dlv_82cd
    """,
    below=notify,
)
notify.add_command(rehearse)
pair = call_command(
    "pair",
    PairCommand,
    lambda reply: (
        f"Open this link in the browser of {plain(reply.recipient)} within ten minutes:\n"
        f"  {plain(reply.link)}"
    ),
    click.argument("recipient", default="", help="Whose browser. Default: the first recipient."),
    about="""Open the printed link within ten minutes. The pairing is valid for 90 days.

    For example:
      safetyd pair alice
    """,
)


@group()
def keys() -> None:
    """Manage the key that signs decision links.

    For example:
      safetyd keys rotate
    """


@keys.command(sends=RotateCommand)
@click.option("--revoke-now", is_flag=True, help="Invalidate all earlier links.")
@reaches_daemon
def rotate(location: Location, *, revoke_now: bool) -> None:
    """Earlier links work for another week, unless you use --revoke-now.

    For example:
      safetyd keys rotate --revoke-now
    """
    ask(location, RotateCommand(revoke_now=revoke_now), patience_s=ROTATE_S)
    click.echo(
        "All earlier links are now invalid. `safetyd list` shows pending requests."
        if revoke_now
        else "New links use the new key. Earlier links work for another week."
    )
