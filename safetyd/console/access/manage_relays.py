"""`safetyd relay`: serve links on a public machine, and manage the keys of relays."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.bus.keyring import KeyUnusable, seed_in
from safetyd.console.access.key_changes import name_argument, rotation_terms
from safetyd.console.access.manage_keys import (
    add_key,
    key_rows,
    revoke_key,
    rotate_key,
    rotates,
    show_keys,
)
from safetyd.console.failure import Failure, WrongUsage, need
from safetyd.console.help_page import group
from safetyd.console.locations import KEY_VARIABLE, PREFIX, URL_VARIABLE, Location
from safetyd.console.options import json_option, reaches_daemon, together
from safetyd.console.terminal_text import CTRL_C
from safetyd.core.messages.proposal import is_token
from safetyd.host import Unusable

LISTEN: Final = "127.0.0.1:8788"
MAX_PORT: Final = 65535

_USAGE: Final = """\

Copy the key to the relay's machine. There, run:

  safetyd relay --url {bus} --key-file {name}.nk --public-url https://safety.example.com

Set public_url in [web] to the same address, and restart the daemon. See `safetyd docs relay`."""


_serves = together(
    click.option(
        "--public-url",
        metavar="URL",
        envvar="SAFETYD_RELAY_PUBLIC_URL",
        help="The start of links, as in [web] public_url of the daemon.",
    ),
    click.option(
        "--listen",
        metavar="HOST:PORT",
        envvar="SAFETYD_RELAY_LISTEN",
        default=LISTEN,
        show_default=True,
        help="The address of the web server, to which your TLS proxy forwards.",
    ),
    click.option(
        "--allow-http", is_flag=True, help="Allow a public URL with http:// in a private network."
    ),
    click.option(
        "--name",
        metavar="NAME",
        envvar="SAFETYD_RELAY_NAME",
        help="The relay's name, if the key file is not named after it.",
    ),
    click.option(
        "--url",
        metavar="URL",
        envvar=URL_VARIABLE,
        help="The address of the bus. Separate several addresses with commas.",
    ),
    click.option(
        "--key-file",
        type=click.Path(path_type=Path),
        envvar=KEY_VARIABLE,
        help="The relay's key (an nkey seed).",
    ),
    click.option(
        "--prefix",
        default=PREFIX,
        show_default=True,
        metavar="PREFIX",
        help="The bus.prefix of the daemon.",
    ),
)


@group(invoke_without_command=True)
@_serves
@click.pass_context
def relay(  # noqa: PLR0913 - its options
    ctx: click.Context,
    *,
    public_url: str | None,
    listen: str,
    name: str | None,
    url: str | None,
    key_file: Path | None,
    prefix: str,
    allow_http: bool,
) -> None:
    """Serve decision links on a public machine, until Ctrl-C.

    The relay shows the pages of links and passes answers to the daemon over the bus. Its key can do
    nothing else. It stores nothing. Approvals through a relay need the code from the notification.

    For example:
      safetyd relay add edge
      safetyd relay --url tls://bus --key-file edge.nk --public-url https://ok.io
    """
    if ctx.invoked_subcommand is not None:
        return
    need("relay", "aiohttp", "jinja2")
    # Imported only here, because the web server takes long to import.
    from safetyd.monitoring import event_log  # noqa: PLC0415
    from safetyd.web.relay.relay_process import RelaySettings, run_relay  # noqa: PLC0415

    if not (public_url and url and key_file):
        raise WrongUsage("give --public-url, --url and --key-file")
    _check_url(public_url, private=allow_http)
    host, port = _address(listen)
    settings = RelaySettings(
        servers=_servers(url),
        key_file=key_file,
        name=_name(name, key_file),
        prefix=prefix,
        host=host,
        port=port,
        public_url=public_url.rstrip("/"),
    )
    event_log.set_up(verbose=False)
    try:
        anyio.run(run_relay, settings, _announce(settings.public_url))
    except* Unusable as group_:
        raise Failure("; ".join(map(str, group_.exceptions))) from None


@relay.command("add")
@name_argument
@reaches_daemon
def relay_add(location: Location, name: str) -> None:
    """Create a key for a relay and print how to use it.

    From then on, the codes in notifications have six digits, and no browser can be paired.

    For example:
      safetyd relay add edge
    """
    add_key(location, "relays", name, _USAGE)


@relay.command("list")
@json_option
@reaches_daemon
def relay_list(location: Location, *, as_json: bool) -> None:
    """List relays with a key."""
    show_keys("relays", key_rows(location, "relays"), {}, as_json=as_json)


@relay.command("rotate")
@rotates
def relay_rotate(
    location: Location, name: str, overlap: str | None, *, at_once: bool, as_json: bool
) -> None:
    """Replace the key of a relay. The old key stays valid for a while.

    For example:
      safetyd relay rotate edge --overlap 2h
      safetyd relay rotate edge --now
    """
    terms = rotation_terms("relays", name, overlap, at_once=at_once)
    rotate_key(location, terms, as_json=as_json)


@relay.command("revoke")
@name_argument
@reaches_daemon
def relay_revoke(location: Location, name: str) -> None:
    """Revoke the keys of a relay and close its connections."""
    revoke_key(location, "relays", name)


def _check_url(url: str, *, private: bool) -> None:
    from safetyd.web.web_config import url_problems  # noqa: PLC0415 - see `relay`

    for problem in url_problems("--public-url", url, private=private):
        raise WrongUsage(problem)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise WrongUsage(f"--listen is {listen!r}; use an address such as {LISTEN}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _servers(url: str) -> tuple[str, ...]:
    """Return the addresses of the bus."""
    given = Location(data_dir=Path(), url=url).given or url
    return tuple(server.strip() for server in given.split(","))


def _name(name: str | None, key_file: Path) -> str:
    """Return the relay's name, after checking that the key can be used."""
    try:
        seed_in(key_file)
    except KeyUnusable as exc:
        raise Failure(str(exc), "no_key") from exc
    except OSError as exc:
        raise Failure(f"cannot read {key_file}: {exc.strerror}", "no_key") from exc
    found = name or key_file.stem
    if not is_token(found):
        raise WrongUsage(f"{found!r} is not a valid relay name. Give the relay's name with --name")
    return found


def _announce(public_url: str) -> Callable[[str], None]:
    def announce(address: str) -> None:
        with suppress(BrokenPipeError):
            click.echo(f"safetyd relay for {public_url} listens on {address}\n{CTRL_C}")

    return announce
