"""Tokens of agents that propose over HTTP: `safetyd agent add NAME --token` and `rotate`."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import click

from safetyd.bus.agent_tokens import AgentTokens
from safetyd.bus.keyring import KeyExists, KeyMissing, KeyUnusable
from safetyd.console.access.key_rotation import Terms
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.locations import Location, endpoint, make_private
from safetyd.console.operator_connection import connected
from safetyd.console.render.layout import when
from safetyd.console.subcommands.hold_agents import RELOAD_S
from safetyd.console.terminal_text import document
from safetyd.operators.contract.hold_contract import ReloadCommand

_ADDRESS: Final = "<the web address that `safetyd run` prints>"


def add_token(location: Location, name: str) -> None:
    """Create a token, make a running daemon accept it, and print it with an example."""
    make_private(location.data_dir)
    tokens = AgentTokens(location.keys)
    token, lines = _changed(location, tokens, name, lambda: tokens.add(name))
    for line in (*lines, f"The token of {name}, shown only now:", "", f"  {token}"):
        click.echo(line)
    found = endpoint(location.data_dir)
    click.echo(f"\nAn agent that already runs as {name} without a key or token is cut off.")
    click.echo("\nIn the agent's shell:\n")
    click.echo("  export SAFETYD_TOKEN=...   # the token")
    click.echo("  printf 'Authorization: Bearer %s\\n' \"$SAFETYD_TOKEN\" | \\")
    click.echo(f"    curl -s -H @- {found.web if found else _ADDRESS}/api/v1/propose/{name} \\")
    click.echo('    -d \'{"type": "read_file", "paths": ["README.md"]}\'')


def rotate_token(location: Location, terms: Terms, *, as_json: bool) -> None:
    """Replace a token; the old one is accepted until the overlap ends."""
    tokens, name = AgentTokens(location.keys), terms.name
    token, lines = _changed(
        location, tokens, name, lambda: tokens.rotate(name, now=terms.now, until=terms.until)
    )
    until = None if terms.at_once else terms.until
    if as_json:
        click.echo(document({"ok": True, "name": name, "token": token, "old_until": until}))
        return
    old = f"until {when(until.isoformat())}" if until else "no longer"
    for line in (*lines, f"The old token is accepted {old}."):
        click.echo(line)
    click.echo(f"The new token of {name}, shown only now:\n\n  {token}")


def _changed(
    location: Location, tokens: AgentTokens, name: str, change: Callable[[], str]
) -> tuple[str, Sequence[str]]:
    """Return the new token and what the daemon says; without its consent nothing changes."""
    try:
        before = tokens.read(name)
        token = change()
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    except KeyExists as exc:
        raise Failure(str(exc), "exists") from exc
    except KeyMissing as exc:
        raise Failure(str(exc), "not_found") from exc
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it first", "no_key") from exc
    except OSError as exc:
        raise Failure(f"cannot write a token to {location.keys}: {exc.strerror}") from exc
    try:
        anyio.run(_reload, location)
    except NotReachable:
        return token, ("No daemon answers; the token is accepted from its next start.",)
    except Failure as exc:
        tokens.restore(name, before)
        raise Failure(f"no token for {name}: the daemon refuses: {exc.message}", exc.code) from exc
    return token, ()


async def _reload(location: Location) -> None:
    async with connected(location) as operator:
        await operator.ask(ReloadCommand(), patience_s=RELOAD_S)
