"""Programs that change permissions and owners of files."""

import re
from typing import Final

from safetyd.core.shell import places
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.reading import HOLE, Access, Effect, Touch
from safetyd.core.shell.words import Word

_TYPE: Final = "modify_permissions"
_OPTIONS: Final = frozenset("Rvfch")
_removes_rights = re.compile(r"-[rwxXst]+(,.*)?").fullmatch
_gives_owner = re.compile(r"[-+=]?0*[2-7][0-7]{3}|.*[+=][rwxX]*s.*").fullmatch
_opens_to_all = re.compile(r"[-+=]?[0-7]*[2367]|(.*,)?[ugo]*[oa][ugo]*[+=][rxX]*w.*").fullmatch


def read_chmod(inv: Invocation) -> None:
    """Analyse `chmod`. It is allowed in the project, unless files become writable by everyone."""
    mode, files, recursive = _chmod(inv)
    for word in files:
        _changed(inv, word, recursive=recursive)
    if HOLE in mode or _gives_owner(mode):
        inv.found(Effect.PRIVILEGED, "sets the setuid or setgid bit", type=_TYPE)
    elif recursive and _opens_to_all(mode):
        remedy = "with only the permissions that are needed, as `chmod -R u+rwX`"
        inv.found(
            Effect.IRREVERSIBLE, "makes files writable by everyone", type=_TYPE, remedy=remedy
        )
    if not files:
        inv.found(Effect.READ, "changes nothing")


def _chmod(inv: Invocation) -> tuple[str, list[Word], bool]:
    """Return the mode, the files, and whether the change is recursive."""
    rest, recursive, mode = list[Word](), False, ""
    for word in inv.call.words:
        text = word.text
        if text.startswith("--"):
            recursive = recursive or "--recursive".startswith(text[:4])
            mode = mode or ("=" if text.startswith("--ref") else "")
        elif text.startswith("-") and not mode and _removes_rights(text):
            mode = text
        elif text.startswith("-") and set(text[1:]) <= _OPTIONS:
            recursive = recursive or "R" in text
        elif not mode:
            mode = text
        else:
            rest.append(word)
    return mode, rest, recursive


def _changed(inv: Invocation, word: Word, *, recursive: bool) -> None:
    where, shown = inv.scope.place(word.text), visible(word.text)
    touches = (Touch(where.path, Access.WRITE, word.text),)
    if where.kind in {places.INSIDE, places.TEMPORARY}:
        why = f"changes the permissions of {shown}"
        inv.found(Effect.WORK, why, type=_TYPE, touches=touches)
    else:
        blocks = recursive and where.kind in {places.SYSTEM, places.HOME}
        why = f"changes the permissions of {shown}, which is outside the project"
        inv.found(Effect.IRREVERSIBLE, why, type=_TYPE, touches=touches, blocks=blocks)


def read_chown(inv: Invocation) -> None:
    """Analyse `chown` and `chgrp`."""
    inv.found(Effect.PRIVILEGED, "changes the owner of files", type=_TYPE)
    recursive = inv.call.has("-R", "--recursive")
    reference = inv.call.has("--reference")
    for word in inv.call.arguments if reference else inv.call.arguments[1:]:
        if inv.scope.place(word.text).kind not in {places.INSIDE, places.TEMPORARY}:
            _changed(inv, word, recursive=recursive)
