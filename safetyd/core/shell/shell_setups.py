"""Tools whose output sets up a shell, such as `brew shellenv`. A script may pass it to `eval`.

The list `activating` of the table has these calls, each by its first words.
"""

import functools

from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import Effect
from safetyd.core.shell.words import SETUP, Flow


def find_setup(inv: Invocation) -> bool:
    """Return True, and record the finding and the output, for a call that prints such a setup."""
    call = inv.call
    setups = _setups(inv.runner.listed("activating")).get(call.name)
    if setups is None or not all(word.fixed for word in call.words):
        return False
    said = tuple(word.text for word in call.words)
    # After other words, ssh-agent runs a command.
    open_ended = call.program.row.wraps is None
    if not any(words == (said[: len(words)] if open_ended else said) for words in setups):
        return False
    inv.found(Effect.READ, "prints how it sets up a shell")
    inv.output = Flow(None, SETUP)
    return True


@functools.cache
def _setups(listed: frozenset[str]) -> dict[str, list[tuple[str, ...]]]:
    """Return the first words of the listed calls, by program."""
    setups: dict[str, list[tuple[str, ...]]] = {}
    for entry in listed:
        name, *words = entry.split()
        setups.setdefault(name, []).append(tuple(words))
    return setups
