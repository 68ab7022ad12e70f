"""Cloud storage: downloads are allowed, uploads need approval."""

from typing import Final

from safetyd.core.shell import rows
from safetyd.core.shell.addresses import is_local, is_remote
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.readers.deletions import delete
from safetyd.core.shell.reading import Effect
from safetyd.core.shell.words import DOWNLOADED, NOTHING, Word

_GROUPS: Final = {"aws": "s3", "gcloud": "storage"}
_COPIES: Final = frozenset(
    {"cp", "sync", "mv", "rsync", "copy", "copyto", "move", "moveto", "mirror", "get", "put"}
)
_MOVES: Final = frozenset({"mv", "move", "moveto"})
_DELETES: Final = ("--delete", "--delete-removed", "--delete-unmatched-destination-objects", "-d")
_DRY: Final = ("--dryrun", "--dry-run", "-n")
# Programs in whose commands a bucket looks like a folder.
_NO_SCHEME: Final = frozenset({"mc", "gdrive", "dropbox"})


def read_bucket(inv: Invocation) -> None:
    """Analyse a cloud storage program: its row, and the direction of a copy."""
    rows.apply(inv)
    call = inv.call
    for word in call.values("--endpoint-url", "--endpoint", "--host"):
        if not is_local(word.text):
            inv.found(
                Effect.LEAVES, f"sends requests to {visible(word.text)} with the user's credentials"
            )
    words = list(call.arguments)
    group = _GROUPS.get(call.name, "")
    if group and words and words[0].text == group:
        words = words[1:]
    elif group:
        return
    verb = words[0].text if words else ""
    if verb == "cat":
        inv.output = DOWNLOADED
    if verb not in _COPIES or call.has_surely("--help"):
        return
    if any(call.has_surely(option) for option in _DRY):
        inv.found(Effect.READ, "only shows what it would copy")
        return
    _copy(inv, verb, words[1:])


def _copy(inv: Invocation, verb: str, words: list[Word]) -> None:
    call = inv.call
    target = words[-1] if len(words) > 1 else None
    sources = words[:-1] if target is not None else words
    here = [word for word in sources if not is_remote(word)]
    remedy = "" if call.name == "gsutil" else "with `--dry-run`"
    if call.name in _NO_SCHEME or (target is not None and is_remote(target)) or verb == "put":
        where = visible(target.text) if target is not None else "another machine"
        inv.found(Effect.LEAVES, f"copies to {where}", remedy=remedy)
        inv.reads(*here)
        return
    if verb in _MOVES:
        inv.found(Effect.IRREVERSIBLE, "deletes the source after copying", remedy=remedy)
    inv.reads(*here)
    inv.output = NOTHING
    if target is None:
        inv.found(Effect.WORK, "downloads files from the cloud")
    elif target.text == "-":
        inv.output = DOWNLOADED
    else:
        inv.saves(target, DOWNLOADED)
        if verb in {"sync", "rsync", "mirror"} and _deletes(inv):
            delete(inv, target, recursive=True)


def _deletes(inv: Invocation) -> bool:
    return inv.call.name == "rclone" or inv.call.has(*_DELETES)
