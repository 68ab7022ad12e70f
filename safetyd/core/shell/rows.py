"""Applies a row of the table to a call."""

import re
from typing import Final

from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.programs import Use, matches
from safetyd.core.shell.reading import HOLE, Access, Effect, each
from safetyd.core.shell.words import (
    COMMAND,
    DECODED,
    DOWNLOADED,
    KNOWN,
    NAME,
    NETWORK,
    UNKNOWN_TEXT,
    Flow,
    Word,
    least_trusted,
)

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_UNREAD: Final = (".jsx", ".tsx", ".vue", ".svelte")  # languages that are not analysed
RUN_BY: Final = {  # the interpreter of a script, by suffix
    ".py": "python",
    ".rb": "ruby",
    **each("node", ".js .mjs .cjs .ts .mts"),
}


def apply(inv: Invocation) -> None:
    """Record the effects of a call as the program's row describes them."""
    call, row = inv.call, inv.call.program.row
    if call.asks_help or _asks_help(call):
        inv.found_help()
        return
    use = _use(call)
    verbs = len(use.words) if use else 0
    if use and use.words:
        inv.named = " ".join((call.name, *(word.text for word in call.arguments[:verbs])))
    elif call.program.has_verbs and call.arguments:
        verb = call.arguments[0].text
        inv.named = call.name if HOLE in verb else f"{call.name} {verb}"
    effect = _effect(call, use)
    verb_said = use.verb if use else None
    inv.found(
        effect,
        (verb_said.why if verb_said else "") or row.why,
        type=(verb_said.type if verb_said else "") or row.type,
        blocks=verb_said.blocks if verb_said else row.blocks,
        remedy=(verb_said.remedy if verb_said else "") or row.remedy,
    )
    what = (verb_said.arguments if verb_said else None) or row.arguments
    _arguments(inv, call.arguments[verbs + row.patterns :], effect, what)
    _options(inv)
    if use and use.words and use.words[0] in row.run:
        _runs_elsewhere(inv, verbs)
    inv.output = printed(inv)


def _asks_help(call: Call) -> bool:
    """Return True if a program with verbs only prints help about a verb."""
    if not call.program.has_verbs or call.verb in call.program.row.run:
        return False
    return call.verb == "help" or call.has_surely("--help")


def _effect(call: Call, use: Use | None) -> Effect:
    row = call.program.row
    if use is not None:
        return use.effect
    if not call.words and row.bare is not None:
        return row.bare
    return row.effect or row.otherwise or Effect.UNKNOWN


def _use(call: Call) -> Use | None:
    """Return the best match: the use with most words, then most options, then the strictest."""
    uses = call.program.uses_of(call.verb)
    best = next((use for use in uses if _fits(use, call)), None)
    if best is None or not best.words:
        return best
    # Options that are listed without a verb apply to every verb.
    stricter = (use for use in call.program.by_options if use.effect.rank > best.effect.rank)
    return next((use for use in stricter if not use.effect.passes and _fits(use, call)), best)


def _fits(use: Use, call: Call) -> bool:
    if len(call.arguments) < len(use.words):
        return False
    for pattern, word in zip(use.words, call.arguments, strict=False):
        if not matches(pattern, word.text):
            return False
    verb = use.verb
    if not (use.options or verb.with_ or verb.without):
        return True
    # An option that makes a use harmless must certainly be given. For a harmful use it is enough
    # that the option may be given.
    has = call.has_surely if use.effect.passes else call.has
    excused = call.has if use.effect.passes else call.has_some
    return (
        all(has(option) for option in use.options)
        and (not verb.with_ or any(has(option) for option in verb.with_))
        and not any(excused(option) for option in verb.without)
    )


def _arguments(inv: Invocation, words: list[Word], effect: Effect, what: str) -> None:
    if what == "text" or not words:
        if effect is Effect.WORK:
            _scripts(inv, words)
        return
    if what in {"copy", "move"} and len(words) > 1:
        _transfers(inv, words, what)
    elif what in {"run", "script"}:
        for word in words if what == "run" else words[:1]:
            load(inv, word, inv.named)
        inv.reads(*words[1:])
    elif what in {"write", "delete"}:
        access, said = (Access.WRITE, "writes") if what == "write" else (Access.DELETE, "deletes")
        for word in words:
            inv.changes(word.text, access, said)
    elif effect.passes or effect is Effect.UNKNOWN:
        inv.reads(*words)


def _scripts(inv: Invocation, words: list[Word]) -> None:
    """Record scripts outside the project, which a program that builds or serves it may run."""
    for word in words:
        path = word.text
        if path[:1] in {"/", "~", "."} and path[path.rfind(".") :] in RUN_BY:
            load(inv, word, inv.named)


def _transfers(inv: Invocation, words: list[Word], what: str) -> None:
    """Record that files are copied or moved to the last argument."""
    *sources, target = words
    inv.writes(target)
    if what == "copy":
        inv.reads(*sources)
    else:
        for source in sources:
            inv.changes(source.text, Access.DELETE, "moves")


def _options(inv: Invocation) -> None:
    row = inv.call.program.row
    if not inv.call.options:
        return
    for name, value in inv.call.options:
        if value is None:
            continue
        if name in row.writes:
            inv.writes(value)
        elif name in row.runs:
            inv.shell(value, f"{inv.call.name} {name}")
        elif name in row.loads:
            load(inv, value, f"{inv.call.name} {name}")
        elif name not in row.texts:
            inv.reads(value)


def load(inv: Invocation, word: Word, way: str) -> None:
    """Record that a program runs a file, or code from a URL."""
    file, names_test, _ = word.text.partition("::")
    if names_test:  # `test_x.py::test_a[1]` names a test in the file
        globs = word.globs and not set(file).isdisjoint("*?[")
        word = word._replace(text=file, globs=globs)
    _, equals, path = word.text.rpartition("=")
    if equals and path[:1] in {"/", "~", "."}:  # `name=path`
        word = word.with_text(path)
    source = inv.source(word)
    by = RUN_BY.get(word.text[word.text.rfind(".") :])
    if _ADDRESS.match(word.text):
        inv.runs_unknown(NETWORK, "a file")
    elif by and source is not None and source.text is not None:
        inv.runner.program([word.with_text(by), word], inv.command, inv.scope, way)
    elif source is not None and source.text is not None and word.text.endswith(_UNREAD):
        inv.found(
            Effect.WORK, f"runs {visible(word.text)}, which this command wrote into the project"
        )
    else:
        inv.script(word, way)


def _runs_elsewhere(inv: Invocation, verbs: int) -> None:
    """Analyse the command after `--`, or after the name of the container."""
    words = [word.text for word in inv.call.words]
    at = words.index("--") + 1 if "--" in words else 0
    inner = list(inv.call.words[at:]) if at else inv.call.arguments[verbs + 1 :]
    if inner:
        inv.runner.program(inner, inv.command, inv.scope.copy(elsewhere=True), inv.named)


def printed(inv: Invocation) -> Flow:
    """Return the output of a program, as its row describes it."""
    if inv.stdin is None and not inv.scope.files and not inv.call.program.row.output:
        return UNKNOWN_TEXT
    return _printed(inv)


def _printed(inv: Invocation) -> Flow:
    call, row = inv.call, inv.call.program.row
    given, scope = inv.stdin, inv.scope
    held = [scope.written_to(word.text) for word in call.arguments if scope.files]
    flows = [flow for flow in (given, *held) if flow is not None]
    origins = [COMMAND, *(flow.origin for flow in flows)]
    if row.output == "network":
        return DOWNLOADED
    if row.output == "decoded":
        return Flow(None, least_trusted([DECODED, *origins]))
    if row.output == "text":
        origin = least_trusted([word.origin for word in call.words])
        return Flow(" ".join(word.text for word in call.arguments) + "\n", origin)
    if row.output == "same" and not call.arguments and given is not None:
        return given
    if (
        row.output == "lines"
        and given
        and (given.origin == NAME or (given.text and given.origin == COMMAND))
    ):
        return given  # the lines are names, and the program only drops some lines
    # A program that transforms text makes it unknown.
    hidden = any(flow.text is not None and flow.origin == KNOWN for flow in flows)
    return Flow(None, least_trusted([*origins, DECODED if hidden else COMMAND]))
