"""Tokens of agents that use HTTP: `safetyd agent add NAME --token` and `rotate`."""

from collections.abc import Callable, Sequence
from typing import Final

import click

from safetyd.bus.agent_tokens import AgentTokens
from safetyd.console.access.key_changes import SHARED, Terms, key_errors, on_standby, reloaded
from safetyd.console.failure import Failure
from safetyd.console.locations import Location, endpoint, make_private
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document

_ADDRESS: Final = "<the web address that `safetyd run` prints>"
_EXAMPLE: Final = """\
The token of {name}. It is not shown again:

  {token}

From now on, only agents with this token or a key can use the name {name}.

In the agent's shell:

  export SAFETYD_TOKEN=...   # the token
  printf 'Authorization: Bearer %s\\n' "$SAFETYD_TOKEN" | \\
    curl -s -H @- {web}/api/v1/propose/{name} \\
    -d '{{"type": "read_file", "paths": ["README.md"], "cwd": "/srv/app"}}'"""


def add_token(location: Location, name: str) -> None:
    """Create a token, make a running daemon accept it, and print it with an example."""
    token, lines = new_token(location, name)
    found = endpoint(location.data_dir)
    web = found.web if found else _ADDRESS
    click.echo("\n".join((*lines, _EXAMPLE.format(name=name, token=token, web=web))))


def new_token(location: Location, name: str) -> tuple[str, Sequence[str]]:
    """Create the first token of an agent, and make a running daemon accept it.

    Return the token, and lines to print.
    """
    make_private(location.data_dir)
    tokens = AgentTokens(location.keys)
    return _changed(location, tokens, name, lambda: tokens.add(name))


def rotate_token(location: Location, terms: Terms, *, as_json: bool) -> None:
    """Create a new token. The old one stays valid until the overlap ends."""
    tokens, name = AgentTokens(location.keys), terms.name
    token, lines = _changed(
        location, tokens, name, lambda: tokens.rotate(name, now=terms.now, until=terms.until)
    )
    until = None if terms.at_once else terms.until
    if as_json:
        click.echo(document({"ok": True, "name": name, "token": token, "old_until": until}))
        return
    old = f"is valid until {when(until)}" if until else "is no longer valid"
    shown = f"The new token of {name}. It is not shown again:\n\n  {token}"
    click.echo("\n".join((*lines, f"The old token {old}.", shown)))


def _changed(
    location: Location, tokens: AgentTokens, name: str, change: Callable[[], str]
) -> tuple[str, Sequence[str]]:
    """Change a token and reload the daemon. Return the token, and lines to print.

    If the daemon refuses, undo the change.
    """
    with key_errors(f"cannot write a token to {location.keys}"):
        before = tokens.read(name)
        token = change()
    try:
        status = None if on_standby(location) else reloaded(location)
    except Failure as exc:
        tokens.restore(name, before)
        raise Failure(
            f"no token was created for {name}, because the daemon refused: {exc.message}", exc.code
        ) from exc
    if on_standby(location):
        return token, (SHARED,)
    later = ("No daemon is running. The token becomes valid when the daemon starts.",)
    return token, () if status else later
