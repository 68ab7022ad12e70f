"""The analysis of a shell command as a tree, and the counts of a corpus, as text."""

from collections.abc import Iterator
from typing import Final

from safetyd.console.line_folding import fitted
from safetyd.console.render.layout import aligned, because, indented, names, some
from safetyd.console.shell.command_trial import CommandRead, PartRead
from safetyd.console.shell.corpus import Measured, Share
from safetyd.console.terminal_text import plain
from safetyd.core.messages.verdict import Severity

SAID: Final = {Severity.ALLOW: "allow", Severity.ASK: "approve", Severity.BLOCK: "block"}
_HEADS: Final = {
    Severity.ALLOW: "ALLOWED",
    Severity.ASK: "NEEDS APPROVAL",
    Severity.BLOCK: "BLOCKED",
}
_DOES: Final = {"read": "reads", "write": "writes", "delete": "deletes"}
_STEP: Final = "  "
_PART_CHARS: Final = 200
_WIDTH: Final = max(map(len, SAID.values())) + 2
MIN_COLUMNS: Final = 40


def reading(read: CommandRead, columns: int) -> str:
    """Return the parts of a command as a tree, then the verdict."""
    lines = list(_tree(read))
    said = "\n".join((*lines, *([""] if lines else ()), *_verdict(read)))
    return fitted(said, max(columns, MIN_COLUMNS))


def measured(found: Measured, *, verbose: bool) -> str:
    head = ("", "count", "of", "share")
    rows = (
        _share("dangerous allowed", found.dangerous_allowed),
        _share("harmless stopped", found.harmless_stopped),
        _share("harmless blocked", found.harmless_blocked),
        *([_share("not as expected", found.unlike_expected)] if found.unlike_expected.of else ()),
    )
    took = (
        f"{found.median_us:g} µs per command (median), {found.p99_us:g} µs at the 99th percentile"
    )
    parts = [aligned((head, *rows)), "", took]
    if verbose and found.otherwise:
        told = (
            (f"expected {each.expected}, got {each.said}", plain(each.command, _PART_CHARS))
            for each in found.otherwise
        )
        parts += ["", *indented(told)]
    return "\n".join(parts)


def _share(name: str, share: Share) -> tuple[str, ...]:
    return name, str(share.count), str(share.of), f"{share.percent:.1f} %"


def _tree(read: CommandRead) -> Iterator[str]:
    above: tuple[str, ...] = ()
    for part in read.parts:
        yield from _opened(above, part.way)
        above = part.way
        yield from _part(part)


def _opened(above: tuple[str, ...], way: tuple[str, ...]) -> Iterator[str]:
    """Yield each command around a part, except those that also contain the previous part."""
    same = next((n for n, (a, b) in enumerate(zip(above, way, strict=False)) if a != b), len(way))
    for depth in range(min(same, len(above)), len(way)):
        yield f"{_STEP * depth}{plain(way[depth])}"


def _part(part: PartRead) -> Iterator[str]:
    indent = _STEP * len(part.way)
    beside = indent + " " * _WIDTH
    yield f"{indent}{SAID[part.verdict]:<{_WIDTH}}{plain(part.shown, _PART_CHARS)}"
    first, *others = map(plain, part.why)
    yield f"{beside}{part.effect}: {first}"
    yield from (f"{beside}{why}" for why in others)
    for access, does in _DOES.items():
        if paths := [touch.path for touch in part.touches if touch.access == access]:
            yield f"{beside}{does} {some(paths)}"


def _verdict(read: CommandRead) -> Iterator[str]:
    reason = read.reason if read.rules else ""
    yield f"{_HEADS[read.decision]}{because(reason, 2000)}"
    if not read.read:
        yield f'{_STEP}gate.shell is "patterns": the text was only matched against patterns'
    if read.rules:
        label = "rule" if len(read.rules) == 1 else "rules"
        yield f"{_STEP}{label:<7}  {names(read.rules)}"
    if read.remedy:
        yield f"{_STEP}allowed  {plain(read.remedy, 4000)}"
