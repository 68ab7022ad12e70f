"""Tokens of coding agents, for a daemon that admits no anonymous agents (`bus.open_agents`)."""

import os
from pathlib import Path

from safetyd.console.access.manage_tokens import new_token
from safetyd.console.failure import Failure, using_file
from safetyd.console.hosts.hook_trial import Trial
from safetyd.console.locations import Location
from safetyd.host import write_whole
from safetyd.hosts.hook_answer import NEEDS_TOKEN


def needs_token(trial: Trial) -> bool:
    """Ask the daemon without a token; return whether it requires one."""
    return NEEDS_TOKEN in trial.answer()


def write_token(path: Path, agent: str, data_dir: Path) -> None:
    """Create a token and write it to a file that only this user can read, unless there is one."""
    if os.access(path, os.R_OK):
        return
    try:
        token, _ = new_token(Location(data_dir=data_dir), agent)
    except Failure as exc:
        raise Failure(
            f"{agent} needs a token, but none was created: {exc.message}. An operator creates one "
            f"with `safetyd agent add {agent} --token`. Write it to {path}, run "
            f"`chmod 600 {path}`, then run this again. Nothing was written",
            "no_token",
        ) from exc
    with using_file(path, "write"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, f"{token}\n".encode())
