"""Finds the patches in a proposal, and the files that they touch even if `paths` omits them.

A patch may be in the text of an editing action, in any field of its context, and in any unknown
field.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from safetyd.core.messages.proposal import Proposal
from safetyd.core.text.patches import MAX_FILES, NO_PATCH, Patch, read_patch

_TOO_MANY: Final = f"the patches touch more than {MAX_FILES} files"

# Usual spellings of modes: 755, 0755, 0o755, 100755.
_mode = re.compile(r"(?:0o?|100)?([4-7][0-7]{2})\Z").match


def may_patch(proposal: Proposal, *, edits: bool) -> bool:
    """Return True if there may be a patch (cheap check); `edits` is a trait of the kind."""
    return (
        proposal.context is not None or proposal.extra is not None or bool(edits and proposal.text)
    )


def patch_of(proposal: Proposal, *, edits: bool) -> Patch:
    """Return all patches of a proposal combined."""
    if proposal.context is None and proposal.extra is None:
        return read_patch(proposal.text) if edits else NO_PATCH
    read = map(read_patch, _texts(proposal, edits=edits))
    patches = [patch for patch in read if patch is not NO_PATCH]
    if len(patches) <= 1:
        return patches[0] if patches else NO_PATCH
    files = tuple(file for patch in patches for file in patch.files)
    problem = next((patch.problem for patch in patches if patch.problem), "")
    return Patch(files[:MAX_FILES], problem if len(files) <= MAX_FILES else _TOO_MANY)


def says_executable(proposal: Proposal) -> bool:
    """Return True if the context makes a file executable."""
    said = _decoded(proposal.context)
    if not isinstance(said, Mapping):
        return False
    mode = said.get("mode")
    plain = _mode(mode) if isinstance(mode, str) else None
    return said.get("executable") is True or (plain is not None and bool(int(plain[1], 8) & 0o111))


def _texts(proposal: Proposal, *, edits: bool) -> Iterator[str]:
    if edits and proposal.text:
        yield proposal.text
    for said in (proposal.context, proposal.extra):
        if said is not None:
            yield from _strings(_decoded(said))


def _strings(said: object) -> Iterator[str]:
    """Yield every string in an object. A list of strings may also be the lines of one text."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, Mapping):
        for value in said.values():
            yield from _strings(value)
    elif isinstance(said, list):
        lines = [value for value in said if isinstance(value, str)]
        yield "\n".join(lines)
        for value in said:
            if not isinstance(value, str):
                yield from _strings(value)


def _decoded(said: object) -> object:
    """Return an agent's object, decoded if it is still raw because it is not yet journalled."""
    return msgspec.json.decode(said) if isinstance(said, msgspec.Raw) else said
