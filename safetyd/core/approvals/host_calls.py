"""The context and project that a tool call of a coding agent adds to its command.

The daemon's socket writes this context, not the agent, so the context is not part of the action.
"""

import posixpath
from collections.abc import Iterable
from typing import Final

import msgspec

from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.messages.binding import is_all, object_of

CONTEXT: Final = frozenset({"host", "tool", "permission_mode", "uid", "project_root"})


def is_command_alone(event: Proposed | Decided) -> bool:
    """Return whether a proposal is only a command and its folder."""
    alone = msgspec.structs.replace(event.proposal, cwd=None)
    if event.host and alone.context is not None and object_of(alone.context).keys() <= CONTEXT:
        alone = msgspec.structs.replace(alone, context=None)
    return is_all(alone)


def project_folder(event: Proposed | Decided, roots: Iterable[str]) -> str:
    """Return the folder of the project that a tool call works in, or an empty string.

    That is the configured root above its folder, else the root that the socket found, else its
    folder.
    """
    cwd = event.proposal.cwd or ""
    if not event.host or not cwd.startswith("/"):
        return ""
    cwd = posixpath.normpath(cwd)
    configured = max((root for root in roots if _is_within(cwd, root)), key=len, default="")
    found = object_of(event.proposal.context).get("project_root")
    named = found if isinstance(found, str) and _is_within(cwd, found) else cwd
    return posixpath.normpath(configured or named)


def _is_within(path: str, folder: str) -> bool:
    return folder.startswith("/") and f"{path}/".startswith(f"{posixpath.normpath(folder)}/")
