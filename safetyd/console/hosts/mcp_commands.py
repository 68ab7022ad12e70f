"""`safetyd mcp` and `safetyd mcp proxy`: safetyd for programs that speak MCP."""

import logging
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.client import Safety
from safetyd.client.arguments import Options
from safetyd.console.agent_options import agent_options, check_agent_name
from safetyd.console.failure import Failure, WrongUsage, need
from safetyd.console.help_page import group
from safetyd.console.locations import Location
from safetyd.console.options import reaches_daemon, together
from safetyd.core.messages.proposal import is_token
from safetyd.hosts.mcp_proxy import McpProxy

AGENT: Final = "mcp"
WAIT_S: Final = 45.0  # many clients time out after a minute

# Programs that run other programs, so their names say nothing about the server.
_RUNNERS: Final = re.compile(
    r"(?:npx|bunx|pnpx|uvx|uv|pipx|node|bun|deno|docker|podman|python[\d.]*|(?:ba|z|da)?sh|env)\Z"
)

_waits = together(
    click.option(
        "--agent",
        default=AGENT,
        show_default=True,
        metavar="NAME",
        help="The agent's name in safetyd.",
    ),
    click.option(
        "--wait-s",
        type=click.FloatRange(min=0, max=86_400),
        default=WAIT_S,
        show_default=True,
        metavar="S",
        help="How many seconds a call waits for an operator.",
    ),
    click.option(
        "--wait-if-unreachable",
        is_flag=True,
        help="Wait even if nobody can be notified in that time, for example at night.",
    ),
)


@group(invoke_without_command=True)
@_waits
@reaches_daemon
@click.pass_context
def mcp(
    ctx: click.Context,
    location: Location,
    agent: str,
    *,
    wait_s: float,
    wait_if_unreachable: bool,
) -> None:
    """Serve MCP tools with which an agent asks for permission.

    The server speaks MCP on standard input and output. Its tools are request_permission,
    permission_status, check, and approve for `claude --permission-prompt-tool`. None of them
    answers a request.

    For example:
      claude mcp add safetyd -- safetyd mcp --agent claude-code
      claude -p "fix the tests" --permission-prompt-tool mcp__safetyd__approve
    """
    if ctx.invoked_subcommand is not None:
        return
    need("mcp", "mcp", extra="mcp")
    check_agent_name(agent)
    serve = partial(_serve, agent, agent_options(location, agent), wait_s)
    anyio.run(partial(serve, wait_if_unreachable=wait_if_unreachable))


async def _serve(agent: str, options: Options, wait_s: float, *, wait_if_unreachable: bool) -> None:
    # Imported only here: the package is an extra, and its import takes a second.
    from safetyd.hosts.mcp_server import PermissionServer  # noqa: PLC0415

    async with Safety(agent, **options) as safety:
        await PermissionServer(safety, wait_s, wait_if_unreachable=wait_if_unreachable).serve()


@mcp.command()
@click.argument("command", nargs=-1, required=True, help="The command that starts the MCP server.")
@click.option(
    "--name", metavar="SERVER", help="The server's name in requests. Default: the program's name."
)
@_waits
@reaches_daemon
def proxy(
    location: Location,
    command: Sequence[str],
    agent: str,
    *,
    name: str | None,
    wait_s: float,
    wait_if_unreachable: bool,
) -> int:
    """Run an MCP server behind a proxy that asks safetyd before each tool call.

    Give this command to an MCP client in place of COMMAND. While safetyd is not running, no tool
    runs. A call that needs approval waits for an operator. If there is no answer in time, the
    model gets the id of the request. After the approval, the same call runs, once.

    For example:
      safetyd mcp proxy -- notes-server /srv/notes
      safetyd mcp proxy --name files --agent claude-code -- npx -y files-server
    """
    logging.basicConfig(format="safetyd: %(message)s", level=logging.WARNING)
    check_agent_name(agent)
    server = _server_name(name, command[0])
    try:
        relay = partial(_relay, agent, agent_options(location, agent), server, wait_s, command)
        return anyio.run(partial(relay, wait_if_unreachable=wait_if_unreachable))
    except OSError as exc:
        raise Failure(f"cannot start {command[0]!r}: {exc.strerror}", "not_started") from exc


proxy.allow_interspersed_args = False  # everything after the program belongs to it


async def _relay(
    agent: str,
    options: Options,
    server: str,
    wait_s: float,
    command: Sequence[str],
    *,
    wait_if_unreachable: bool,
) -> int:
    async with Safety(agent, **options) as safety:
        relay = McpProxy(safety, server, wait_s, wait_if_unreachable=wait_if_unreachable)
        return await relay.run(command)


def _server_name(given: str | None, program: str) -> str:
    """Return the name of the server: an approval for one server is not valid for another."""
    name = Path(program).name if given is None else given
    if given is None and (_RUNNERS.match(name) or not is_token(name)):
        raise WrongUsage(f"name the server with --name: {name!r} does not say which one it is")
    if not is_token(name):
        raise WrongUsage(f"{name!r} is not a valid server name. Use 1 to 64 of A-Z a-z 0-9 _ -")
    return name
