"""The options of the client, for commands that act as an agent."""

import os

import click

from safetyd.client.arguments import Options
from safetyd.console.locations import KEY_VARIABLE, Location
from safetyd.core.messages.proposal import is_token


def check_agent_name(agent: str) -> None:
    if not is_token(agent):
        raise click.UsageError(
            f"{agent!r} is not a valid agent name. Use 1 to 64 of A-Z a-z 0-9 _ -"
        )


def agent_options(location: Location, agent: str) -> Options:
    """Return the client options: the daemon's address and the agent's key."""
    key_file = location.agent_key(agent)
    os.environ.pop(KEY_VARIABLE, None)  # otherwise the client might use an operator's key
    return Options(
        url=location.given, key_file=key_file, data_dir=location.data_dir, prefix=location.prefix
    )
