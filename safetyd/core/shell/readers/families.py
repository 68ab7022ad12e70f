"""Tools with many verbs: read-only verbs are allowed even if the table does not list them.

Other uses are judged by their words: `describe` and `list-*` only read, `delete` and `put-*` change
something. The row covers the rest. A dry run is allowed.
"""

import re
from typing import Final

from safetyd.core.shell import rows
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.programs import matches
from safetyd.core.shell.reading import Effect
from safetyd.core.shell.words import Word

MAX_VERBS: Final = 4  # number of first words that may contain the verb

_DRY_RUNS: Final = (
    *("--dry-run", "--dryrun", "--dry_run", "--what-if", "--whatif", "--noop", "--preview-only"),
)
_DRY_VALUES: Final = frozenset({"true", "client", "server", "yes", "1"})
_parts_of = re.compile(r"[-:_.]").split


def read_family(inv: Invocation) -> None:
    """Analyse a tool: first dry runs, then uses that its row lists, then read-only verbs."""
    call = inv.call
    if _acts_by_options(call) or call.verb in call.program.row.run:
        rows.apply(inv)
    elif is_dry_run(call):
        _named(inv)
        inv.found(Effect.READ, "only shows what it would change")
        inv.reads(*call.values(*call.program.row.reads))
    elif not _is_listed(call) and looks(inv, call.arguments):
        _named(inv)
        inv.found(Effect.READ, "only reads")
        inv.reads(*call.values(*call.program.row.reads))
    else:
        rows.apply(inv)


def is_dry_run(call: Call) -> bool:
    """Return True if an option certainly makes the call a dry run."""
    for name in _DRY_RUNS:
        values = call.values(name)
        if values and all(value.text in _DRY_VALUES for value in values):
            return not call.may_be_value(name) and not call.is_cancelled(name)
        if not values and call.has_surely(name):
            return True
    return False


def looks(inv: Invocation, words: list[Word]) -> bool:
    """Return True if the verb among the first words only reads."""
    listed = inv.runner.listed
    reading, changing = listed("reading_verbs"), listed("changing")
    nouns = listed("changing_or_noun")
    verb, secret, noun = "", False, False
    for word in words[:MAX_VERBS]:
        if not word.known or inv.call.may_be_value(word.text):
            return False
        parts = _parts_of(word.text.lower())
        if any(part in changing for part in word.text.lower().split(":")[1:]):
            return False
        if noun and parts[0] not in reading:
            return False
        noun = not verb and parts[0] in nouns
        if parts[0] in changing and not noun:
            return False
        if not verb and parts[0] in reading:
            verb = parts[0]
        secret = secret or not listed("secret_nouns").isdisjoint(parts)
    return bool(verb) and not noun and (not secret or verb in listed("naming_verbs"))


def _acts_by_options(call: Call) -> bool:
    """Return True if options write, load, run or change something, so that the row must decide."""
    row = call.program.row
    return bool(call.values(*row.writes, *row.runs, *row.loads)) or any(
        not use.effect.passes and call.has(*use.options, *use.verb.with_)
        for use in call.program.by_options
    )


def _is_listed(call: Call) -> bool:
    """Return True if the row lists this use as one that needs approval."""
    said = [word.text for word in call.arguments]
    return any(
        use.words
        and not use.effect.passes
        and (use.words[-1] != "*" or use.effect is Effect.SECRETS)
        and len(use.words) <= len(said)
        and all(matches(pattern, text) for pattern, text in zip(use.words, said, strict=False))
        for use in call.program.uses
    )


def _named(inv: Invocation) -> None:
    if inv.call.arguments and inv.call.arguments[0].known:
        inv.named = f"{inv.call.name} {inv.call.verb}"
