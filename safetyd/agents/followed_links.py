"""Follows the links in every path that a proposal touches, also in its command and its patches.

The result is recorded with the decision, so that a replay need not look. It is found again before
an approved action starts.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from safetyd.agents.path_resolution import follow
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.messages.binding import as_shown, shown_paths
from safetyd.core.shell.reading import HOLE, Access, Touch
from safetyd.core.text.folding import is_masked
from safetyd.core.text.path_globs import UNFOLLOWED

MAX_SHOWN: Final = 200  # paths that the sender of a proposal is asked to look at


class Links(NamedTuple):
    """Where the links in the paths of a proposal lead."""

    resolved: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # those that its command writes or deletes
    hidden: tuple[str, ...] = ()  # paths that the daemon cannot see


NO_LINKS: Final = Links()


def links_of(
    state: EngineState, event: Proposed | Decided, seen: Mapping[str, str] | None = None
) -> Links:
    """Return where the links of a proposal lead now.

    For a permission request, use the paths that it shows to operators. `seen` has the targets of
    hidden paths that the sender saw; None if it cannot look.
    """
    facts = state.facts_of(event)
    proposal, paths = event.proposal, event.proposal.paths
    if event.permission:
        proposal, paths = as_shown(proposal), shown_paths(proposal)
    if facts.patch.files:
        paths = (*paths, *(file.path for file in facts.patch.files))
    touches = tuple(_followed(facts.touches)) if facts.touches else ()
    if touches:
        paths = (*paths, *(path for path, _ in touches))
    if not paths:
        return NO_LINKS
    known = state.policy.project_of(proposal.project)
    root = "" if known is None else known.root
    if not root and not proposal.cwd and not any(path[:1] in {"/", "~"} for path in paths):
        return NO_LINKS
    named = dict.fromkeys(paths)
    found = follow(named, root, proposal.cwd, seen)
    if not (found.targets or found.hidden or found.weary):
        return NO_LINKS
    changes = {path for path, access in touches if access is not Access.READ}
    changed = (found.targets[path] for path in named if path in changes and path in found.targets)
    return Links(found.resolved, tuple(dict.fromkeys(changed)), found.hidden[:MAX_SHOWN])


def moved(state: EngineState, asked: Decided) -> str:
    """Return why an approved action is not what the operator saw, or an empty string."""
    if is_masked(asked.proposal.text):  # its paths are not recorded
        return ""
    now = links_of(state, asked)
    if now.hidden:  # what the sender saw is not known now
        same = {*now.resolved} - {UNFOLLOWED} <= {*asked.resolved}
    else:
        same = now.resolved == asked.resolved
    return "" if same else MOVED


MOVED: Final = "A link in its paths leads elsewhere than when the request was made"


def _followed(touches: tuple[Touch, ...]) -> Iterator[tuple[str, Access]]:
    """Yield the paths in a command. Deleting a link leaves its target alone."""
    for touch in touches:
        path = touch.path
        if HOLE in path or touch.pattern:
            path = _literal_folder(path)
        elif touch.access is Access.DELETE:
            path = posixpath.dirname(path)
        if path:
            yield path, touch.access


def _literal_folder(path: str) -> str:
    """Return the folder of a pattern, as far as its name is known."""
    names = list[str]()
    for name in path.split("/")[:-1]:
        if HOLE in name or any(char in name for char in "*?[{"):
            break
        names.append(name)
    return "/".join(names)
