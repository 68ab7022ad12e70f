"""The project that a coding agent works in."""

import os.path
from pathlib import Path


def project_root(cwd: str) -> str:
    """Return the nearest folder with `.git`, from `cwd` upwards, or an empty string."""
    folder = Path(os.path.normpath(cwd))
    if not folder.is_absolute():
        return ""
    above = (folder, *folder.parents)
    # Unlike `Path.exists`, this is False for folders that the daemon may not read.
    return next((str(one) for one in above if os.path.exists(one / ".git")), "")  # noqa: PTH110
