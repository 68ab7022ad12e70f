"""Deletions: build results may be deleted, files outside the project need approval."""

from typing import Final

from safetyd.core.shell import places
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.programs import matches
from safetyd.core.shell.reading import HOLE, Access, Code, Effect, Touch
from safetyd.core.shell.words import COMMAND, Word

_SYSTEM_FOLDERS: Final = (
    *("/bin/", "/boot/", "/etc/", "/lib/", "/lib64/", "/sbin/", "/sys/", "/proc/", "/dev/"),
    *("/usr/bin/", "/usr/lib/", "/usr/sbin/", "/System/", "/Library/"),
)
_OF_FILES: Final = (
    *(".json", ".lock", ".yml", ".yaml", ".toml", ".txt", ".md", ".log", ".csv", ".html", ".css"),
    *(".xml", ".cfg", ".ini", ".zip", ".gz", ".tgz", ".png", ".jpg", ".svg", ".pdf", ".out"),
    *(".py", ".js", ".ts", ".sh", ".c", ".h", ".go", ".rs", ".java", ".rb", ".sql"),
)


def read_rm(inv: Invocation) -> None:
    """Analyse `rm`, `rmdir`, `unlink`, `shred` and similar programs."""
    call = inv.call
    recursive = call.name not in {"rmdir", "unlink"} and call.has(
        "-r", "-R", "--recursive", "-d", "--dir"
    )
    if call.has("--no-preserve-root"):
        inv.found(Effect.IRREVERSIBLE, "deletes the whole file system", blocks=True)
    if not call.arguments:
        inv.found(Effect.READ, "deletes nothing")
    for word in call.arguments:
        delete(inv, word, recursive=recursive)


def delete(inv: Invocation, word: Word, *, recursive: bool, what: str = "deletes") -> None:
    """Record that a path is deleted or moved away, in every folder where the shell may be."""
    _delete(inv, word, what, recursive=recursive)
    scope = inv.scope
    folders = (scope.others | scope.stayed) - {scope.cwd}
    if not folders or word.text[:1] in {"/", "~"}:
        return
    for folder in sorted(folders, key=str):
        with scope.inside(folder):
            _delete(inv, word, f"(if `cd` fails) {what}", recursive=recursive, certain=False)


def _delete(
    inv: Invocation, word: Word, what: str, *, recursive: bool, certain: bool = True
) -> None:
    where = inv.scope.place(word.text)
    touches = (Touch(where.path, Access.DELETE),)
    shown = visible(word.text)
    if where.kind in {places.SYSTEM, places.HOME, places.DISK}:
        named = {places.HOME: "a home folder", places.DISK: "a disk"}.get(
            where.kind, "part of the system"
        )
        why = f"{what} {shown}, which is {named}"
        inv.found(Effect.IRREVERSIBLE, why, blocks=certain, touches=touches)
    elif where.kind == places.OUTSIDE or places.is_all_temporary(where.path):
        blocks = certain and recursive and where.path.startswith(_SYSTEM_FOLDERS)
        why = f"{what} {shown}, which is outside the project"
        inv.found(
            Effect.IRREVERSIBLE,
            why,
            blocks=blocks,
            touches=touches,
            type="delete_file_outside",
            remedy="with a path inside the project",
        )
    elif where.kind == places.UNKNOWN or (HOLE in word.text and _all_of(word.text)):
        why = f"{what} {shown}, a path that is only known at run time"
        inv.found(
            Effect.IRREVERSIBLE,
            why,
            touches=touches,
            type="delete_file",
            remedy="with a literal path inside the project",
        )
    elif inv.scope.moved and _holds_moved(where.path, inv):
        why = f"{what} {shown}, into which this command moved files"
        inv.found(Effect.IRREVERSIBLE, why, touches=touches, type="delete_file")
    elif word.fixed and where.path in inv.scope.made:
        inv.found(Effect.WORK, f"{what} {shown}, which this command created", touches=touches)
    elif where.kind == places.TEMPORARY or is_recreated(where.path, inv):
        inv.found(
            Effect.WORK,
            f"{what} {shown}, which is temporary or created by a build",
            touches=touches,
        )
    elif (recursive and not _is_file(word)) or _is_broad(word):
        why = f"{what} everything {'that matches' if word.globs else 'in'} {shown}"
        inv.found(
            Effect.IRREVERSIBLE,
            why,
            touches=touches,
            type="delete_file",
            remedy="for single files",
        )
    else:
        inv.found(Effect.WORK, f"{what} {shown}", touches=touches, type="delete_file")


def run_code(inv: Invocation, code: Code, word: Word, way: str) -> None:
    """Record the effects of the code in `word`, which is not a shell script."""
    for effect, why in code.findings:
        inv.found(effect, f"runs code that {why}")
    for path, access, *_ in code.touches:
        named = word._replace(text=path, globs=False)
        if access is Access.READ:
            inv.reads(named._replace(globs="*" in path or "?" in path or "[" in path))
        elif access is Access.WRITE:
            inv.changes(path, Access.WRITE, "runs code that writes")
        else:
            # Outside the project, treat the path as a single file.
            inside = inv.scope.place(path).kind == places.INSIDE
            folder = inside and "." not in path.rpartition("/")[2]
            delete(inv, named, recursive=folder, what="runs code that deletes")
    for text in code.shell:
        inv.runner.text(text, word.with_text(text), inv.scope, way, None)
    for given in code.commands:
        words = [word._replace(text=each, inner=-1, origin=COMMAND) for each in given]
        inv.runner.program(words, inv.command, inv.scope, way)


def is_recreated(path: str, inv: Invocation) -> bool:
    """Return True if a build recreates a file or folder, judging by its name."""
    made = inv.runner.listed("recreated")
    files = inv.runner.listed("recreated_files")
    below = places.below_root(path, inv.scope.project)
    parts = [part for part in below.split("/") if part]
    if any(part in made for part in parts):
        return HOLE not in path
    return bool(parts) and any(matches(pattern, parts[-1]) for pattern in files)


def _holds_moved(path: str, inv: Invocation) -> bool:
    """Return True if the command moved something to a path or below it."""
    folder = path.partition("*")[0].rstrip("/")
    return any(f"{moved}/".startswith(f"{folder}/") for moved in inv.scope.moved)


def _all_of(text: str) -> bool:
    """Return True if a path would be empty without its unknown parts."""
    return not text.replace(HOLE, "").strip("./*")


def _is_file(word: Word) -> bool:
    """Return True if a path is a single file, judging by its suffix."""
    return word.fixed and word.text.endswith(_OF_FILES)


def _is_broad(word: Word) -> bool:
    """Return True if a pattern may match most of a folder."""
    last = word.text.rstrip("/").rpartition("/")[2]
    if last in {"", ".", "..", ".git"} or "**" in word.text:
        return True
    return not last.replace("*", "").replace("?", "").strip(".")
