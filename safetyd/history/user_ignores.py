"""The file of what a user has git ignore everywhere."""

import os
from pathlib import Path

from safetyd.history.git_process import Git


def ignored_everywhere(git: Git) -> Path | None:
    """Return the file that `core.excludesFile` names for safetyd's user, or git's own choice."""
    home = os.environ.get("HOME", "")
    if not home:
        return None
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path(home) / ".config") / "git"
    looking = git.using(HOME=home)
    for file in (Path(home) / ".gitconfig", settings / "config"):
        found = looking.run(
            *("config", "--file", str(file), "--includes", "--type=path"),
            *("--get", "core.excludesFile"),
            codes=(0, 1, 128),
        )
        if found.code == 0 and found.out.strip():
            return Path(os.fsdecode(found.out.rstrip(b"\n")))
    return settings / "ignore"
