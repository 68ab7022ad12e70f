"""Programs that copy, move, link and write files, and the known contents of copies."""

import posixpath
import re
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.code.one_liners import is_substitution
from safetyd.core.shell.invocation import Invocation, changed, visible
from safetyd.core.shell.readers.deletions import delete
from safetyd.core.shell.reading import HOLE, Access, Effect
from safetyd.core.shell.words import NOTHING, UNKNOWN_TEXT, Word

_SCRATCH: Final = re.compile(r"(?:\./)?\.?(?:tmp|temp|scratch|sandbox)[\w.-]*")
_TARGET: Final = ("-t", "--target-directory")


def read_file_copy(inv: Invocation) -> None:
    """Analyse `cp`, `mv` and `install`."""
    call = inv.call
    sources, targets = list(call.arguments), call.values(*_TARGET)
    if not targets and len(sources) > 1 and not _makes_folders(inv):
        targets = [sources.pop()]
    if call.name.endswith("install"):
        _installed(inv)
    if _makes_folders(inv):
        sources, targets = [], sources
    for target in targets:
        inv.writes(target)
    if call.name.endswith("mv"):
        _moved(inv, sources, targets)
    else:
        inv.reads(*sources)
    for source in sources:
        for target in targets:
            _carry(inv, source, target)
            if call.has("-l", "--link", "-s", "--symbolic-link") and call.name.endswith("cp"):
                _shared(inv, source, target)
    if not targets:
        inv.found(Effect.READ, "copies nothing")
    inv.output = NOTHING


def _shared(inv: Invocation, source: Word, target: Word) -> None:
    """Record links between the project and a place outside it."""
    kinds = [inv.scope.place(word.text).kind for word in (source, target)]
    if kinds[0] != kinds[1] or kinds[0] not in {places.INSIDE, places.TEMPORARY}:
        why = f"creates links to {visible(source.text)}: writing to them changes the original"
        inv.found(Effect.UNKNOWN, why, remedy="as a copy")


def _makes_folders(inv: Invocation) -> bool:
    return inv.call.name.endswith("install") and inv.call.has("-d", "--directory")


def _installed(inv: Invocation) -> None:
    if inv.call.has("-o", "--owner", "-g", "--group"):
        inv.found(Effect.PRIVILEGED, "changes the owner of files", type="modify_permissions")
    for mode in inv.call.values("-m", "--mode"):
        if "s" in mode.text or (len(mode.text) > 3 and mode.text[0] in "2467"):  # noqa: PLR2004
            inv.found(Effect.PRIVILEGED, "sets the setuid or setgid bit")
    for program in inv.call.values("--strip-program"):
        inv.shell(program, "install --strip-program")


def _moved(inv: Invocation, sources: list[Word], targets: list[Word]) -> None:
    """Record that moving removes the source. Moving to a device loses the file."""
    inv.scope.moved |= {inv.scope.place(target.text).path for target in targets}
    lost = any(inv.scope.place(target.text).kind == places.STREAM for target in targets)
    away = any(inv.scope.place(target.text).kind != places.INSIDE for target in targets)
    for source in sources:
        where = inv.scope.place(source.text)
        if lost or ".git" in where.path.split("/") or where.path in {"", "."}:
            inv.found(
                Effect.IRREVERSIBLE, f"moves {visible(source.text)} away, which may lose data"
            )
        elif away and where.kind == places.INSIDE and not _is_file(source):
            delete(inv, source, recursive=True, what="moves")
        else:
            inv.changes(source.text, Access.DELETE, "moves")


def _is_file(word: Word) -> bool:
    """Return True if a path is a single file, judging by its suffix."""
    name = posixpath.basename(word.text)
    return word.fixed and "." in name[1:] and name.rpartition(".")[2].isalnum()


def _carry(inv: Invocation, source: Word, target: Word) -> None:
    """Record that a copy has the same content or origin as its source."""
    known = inv.scope.written_to(source.text)
    if known is not None:
        where = inv.scope.place(target.text).path
        inv.scope.files[where] = known
        inv.scope.files[posixpath.join(where, posixpath.basename(source.text))] = known


def read_mkdir(inv: Invocation) -> None:
    """Analyse `mkdir`, and remember folders that are certainly new."""
    rows.apply(inv)
    there = inv.call.has("-p", "--parents")  # with `-p`, only names such as tmp count as new
    inv.scope.made |= {
        inv.scope.place(word.text).path
        for word in inv.call.arguments
        if word.fixed and (not there or _SCRATCH.fullmatch(word.text.rstrip("/")))
    }


def read_ln(inv: Invocation) -> None:
    """Analyse `ln`. A link to a target outside the project needs approval."""
    sources, targets = list(inv.call.arguments), inv.call.values(*_TARGET)
    if not targets:
        targets = [sources.pop()] if len(sources) > 1 else [Word(".", 0, 0)]
    inv.found(Effect.READ, "links files")
    for target in targets:
        inv.writes(target)
        for source in sources:
            _linked(inv, source, target)
    inv.output = NOTHING


def _linked(inv: Invocation, source: Word, target: Word) -> None:
    folder = posixpath.dirname(target.text)
    symbolic = inv.call.has("-s", "--symbolic") and source.text[:1] not in {"/", "~", HOLE}
    where = inv.scope.place(posixpath.join(folder, source.text) if symbolic else source.text)
    if where.kind not in {places.INSIDE, places.TEMPORARY}:
        why = f"creates a link to {visible(source.text)}, which is outside the project"
        inv.found(Effect.UNKNOWN, why, remedy="as a copy")
    inv.reads(source)
    _carry(inv, source, target)


def read_tee(inv: Invocation) -> None:
    """Analyse `tee` and `sponge`, which write their input to files."""
    given = inv.stdin or UNKNOWN_TEXT
    inv.found(Effect.READ, "passes on its input")
    for word in inv.call.arguments:
        inv.saves(word, given, appends=inv.call.has("-a", "--append"))
    sponges = inv.call.name == "sponge" and inv.call.arguments
    inv.output = NOTHING if sponges else given


def read_dd(inv: Invocation) -> None:
    """Analyse `dd`, which reads `if=` and writes `of=`."""
    given = dict[str, Word]()
    for word in inv.call.words:
        name, _, value = word.text.partition("=")
        given[name] = word.with_text(value)
        if HOLE in name:
            inv.found(Effect.UNKNOWN, "copies files that are only known at run time")
    inv.found(Effect.READ, "copies bytes", said="")
    flow = changed(inv.stdin) if inv.stdin else UNKNOWN_TEXT
    if "if" in given:
        inv.reads(given["if"])
        flow = changed(inv.scope.written_to(given["if"].text) or flow)
    if "of" not in given:
        inv.output = flow
        return
    inv.saves(given["of"], flow)


def read_rename(inv: Invocation) -> None:
    """Analyse `rename`, whose first arguments are a Perl substitution or two words."""
    files = inv.call.arguments
    if inv.call.has("-n", "--no-act", "--nono") and not inv.call.options[1:]:
        inv.found(Effect.READ, "shows how files would be renamed")
    if not files:
        inv.found(Effect.UNKNOWN)
    elif is_substitution(files[0].text):
        files = files[1:]
    elif re.fullmatch(r"[\w.\-]*", files[0].text) and len(files) > 2:  # noqa: PLR2004 - both words
        files = files[2:]
    else:
        inv.found(Effect.UNKNOWN, "runs Perl, which is not analysed")
    for word in files:
        inv.writes(word, "renames")
