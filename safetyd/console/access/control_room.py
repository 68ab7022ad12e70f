"""`safetyd open` signs a browser in to the control room, `safetyd sessions end` signs it out."""

import os
import re
import webbrowser
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.console.help_page import command
from safetyd.console.locations import Location, endpoint
from safetyd.console.operator_connection import ask, connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import Columns, table
from safetyd.console.terminal_text import document, echo, plain, several
from safetyd.host import write_whole
from safetyd.operators.contract.session_contract import (
    SessionEndCommand,
    SessionRow,
    SessionsAnswer,
    SessionsQuestion,
    SignInQuestion,
)

MAX_CHARS: Final = 40  # how much of an unknown browser's User-Agent header is shown

# The first match counts, because a User-Agent header usually names several browsers.
_BROWSERS: Final = {
    "Edge": r"Edg(?:e|A|iOS)?/(\d+)",
    "Opera": r"OPR/(\d+)",
    "Samsung Internet": r"SamsungBrowser/(\d+)",
    "Firefox": r"(?:Firefox|FxiOS)/(\d+)",
    "Chrome": r"(?:HeadlessChrome|Chrome|Chromium|CriOS)/(\d+)",
    "Safari": r"Version/(\d+)[\d.]* .*Safari/",
}
_SYSTEMS: Final = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "macOS": "Macintosh",
    "ChromeOS": "CrOS",
    "Linux": "Linux",
}


@command("open")
@click.option("--print", "only_print", is_flag=True, help="Print the link instead of opening it.")
@click.option("--numeric", is_flag=True, help="Use 127.0.0.1, for Safari.")
@json_option
@reaches_daemon
def open_(location: Location, *, only_print: bool, numeric: bool, as_json: bool) -> None:
    """Open the control room in a browser, signed in.

    The link works once and expires after five minutes. Over ssh, forward the port and use --print.
    If several daemons use one bus, this opens the control room of the daemon on this machine.

    The address is a random subdomain of localhost that changes whenever the daemon starts, so no
    other page in the browser can reach the control room. Safari cannot open such addresses: use
    --numeric.

    For example:
      safetyd open
      safetyd open --print
    """
    here = None if location.given else endpoint(location.data_dir)
    daemon = here.name if here and here.standby else ""
    answer = ask(location, SignInQuestion(numeric=numeric, daemon=daemon))
    if as_json:
        click.echo(document(answer))
        return
    minutes = round(answer.expires_s / 60)
    if not only_print and _has_browser() and webbrowser.open(_redirect_page(answer.url)):
        click.echo(f"Opening the control room in your browser, signed in as {answer.operator}.")
        click.echo("If no window opens, run `safetyd open --print`.", err=True)
        return
    click.echo(answer.url)
    click.echo(
        f"The link signs in one browser as {answer.operator} and expires in {minutes} minutes.",
        err=True,
    )


@command(sends=SessionsQuestion)
@click.argument("action", type=click.Choice(["list", "end"]), default="list")
@click.argument("ids", nargs=-1)
@click.option(
    "--of", "owner", metavar="NAME", default="", help="Sign out all browsers of this operator."
)
@click.option("--all", "everybody", is_flag=True, help="Sign out all browsers.")
@json_option
@reaches_daemon
def sessions(
    location: Location,
    action: str,
    ids: tuple[str, ...],
    owner: str,
    *,
    everybody: bool,
    as_json: bool,
) -> None:
    """To sign browsers out, use `end` with the IDs of their sessions, --of NAME or --all.

    For example:
      safetyd sessions
      safetyd sessions end --of alice
    """
    if action == "list":
        echo(ask(location, SessionsQuestion()), _listed, as_json=as_json)
        return
    if bool(ids) + bool(owner) + everybody != 1:
        raise click.UsageError("give session IDs, --of NAME or --all")
    commands = [SessionEndCommand(id=id_) for id_ in ids]
    commands = commands or [SessionEndCommand(operator=owner, all=everybody)]
    ended = anyio.run(_ended, location, commands)
    count = f"Signed out {several(len(ended), 'browser')}."
    click.echo(document({"ok": True, "ended": ended}) if as_json else count)


def _listed(answer: SessionsAnswer) -> str:
    if not answer.sessions:
        return "No browser is signed in. To sign in, run `safetyd open`."
    return table(answer.sessions, _SESSIONS)


def browser_name(said: str) -> str:
    """Return the name of a browser and its operating system, such as `Chrome 156 on Linux`.

    For an unknown browser, return the start of its User-Agent header.
    """
    for name, pattern in _BROWSERS.items():
        if found := re.search(pattern, said):
            system = next((known for known, word in _SYSTEMS.items() if word in said), "")
            return f"{name} {found[1]}{f' on {system}' if system else ''}"
    return plain(said, MAX_CHARS)


_SESSIONS: Final[Columns[SessionRow]] = {
    "session": lambda row: row.id,
    "operator": lambda row: row.operator,
    "opened": lambda row: row.opened_at,
    "last used": lambda row: row.used_at,
    "browser": lambda row: browser_name(row.browser),
}


def _redirect_page(link: str) -> str:
    """Write a private page that redirects to a link. Return the address of the page.

    The link itself is not passed to the browser, because other users can see the arguments of a
    process.
    """
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or Path.home() / ".cache")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    page = folder / "safetyd-open.html"
    write_whole(page, f'<meta http-equiv="refresh" content="0;url={escape(link)}">\n'.encode())
    return page.as_uri()


def _has_browser() -> bool:
    """Return True if this is a desktop session, and not a session over ssh."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


async def _ended(location: Location, commands: Sequence[SessionEndCommand]) -> list[str]:
    async with connected(location) as person:
        answers = [await person.ask(command) for command in commands]
        return [ended for answer in answers for ended in answer.ended]
