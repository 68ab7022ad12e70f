"""The project of a coding agent's call, if the configured default project is elsewhere."""

import posixpath
from collections.abc import Mapping
from typing import Final

import msgspec

from safetyd.core.messages.binding import object_of
from safetyd.core.messages.proposal import Proposal

# The project of a host's call in a repository that is not configured. Only the daemon names it.
OWN_FOLDER: Final = "(none)"


def in_its_project(proposal: Proposal, roots: Mapping[str, str], default: str) -> Proposal:
    """Name the project of a host's call, unless its repository is in the default project.

    `roots` are the roots of the configured projects.
    """
    folder, root = repository(proposal), roots.get(default)
    if proposal.project is not None or not root or not folder or _is_within(folder, root):
        return proposal
    around = [name for name, root in roots.items() if root and _is_within(folder, root)]
    named = max(around, key=lambda name: len(roots[name]), default=OWN_FOLDER)
    return msgspec.structs.replace(proposal, project=named)


def repository(proposal: Proposal) -> str:
    """Return the repository that the hook socket found for a host's call, or an empty string."""
    found = object_of(proposal.context).get("project_root")
    return posixpath.normpath(found) if isinstance(found, str) and found.startswith("/") else ""


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{posixpath.normpath(folder).rstrip('/')}/")
