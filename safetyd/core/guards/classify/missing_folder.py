"""Finds a path that nobody can place: it is relative, and the proposal names no folder."""

from typing import Final

from safetyd.core.messages.proposal import Proposal

# A path that begins like this is absolute, or is judged by the rules for homes and variables.
_ROOTED: Final = ("/", "~", "$")


def unplaced_path(proposal: Proposal, root: str) -> str | None:
    """Return the first path that starts in an unknown folder, or None.

    Relative paths start in `cwd`, and a relative `cwd` starts in the project's `root`.
    """
    if root or (proposal.cwd or "").startswith(_ROOTED):
        return None
    return next((path for path in proposal.paths if not path.startswith(_ROOTED)), None)
