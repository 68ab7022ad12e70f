"""Calls that read commands from their input, such as a prompt of a build tool.

Readers find most of these calls. The list `open_input` of the table has the others. In this list,
`R` means the program without arguments, `sbt console` means the program with this verb,
`tmux new !-d` means a call without the option `-d`, and `less * !|` means a call whose output is
not piped into another program.
"""

import functools

from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.programs import matches

_Use = tuple[str, ...]


def find_open_input(inv: Invocation, listed: frozenset[str]) -> None:
    """Record that a listed call reads commands from its input."""
    call = inv.call
    runs = any(option in call.program.row.runs for option, _ in call.options)
    if not runs and any(_fits(inv, use) for use in _uses(listed, call.program.name)):
        inv.found_open_input()


def _fits(inv: Invocation, use: _Use) -> bool:
    call = inv.call
    excused = [word[1:] for word in use if word.startswith("!")]
    if any(map(call.has, excused)) or ("|" in excused and inv.scope.piped_to):
        return False
    verbs = [word for word in use if not word.startswith("!")]
    if not verbs:
        return not call.arguments
    given = [word.text for word in call.arguments[: len(verbs)]]
    return len(given) == len(verbs) and all(map(matches, verbs, given))


@functools.cache
def _uses(listed: frozenset[str], program: str) -> tuple[_Use, ...]:
    named = (entry for entry in sorted(listed) if f"{entry} ".startswith(f"{program} "))
    return tuple(tuple(entry.removeprefix(program).split()) for entry in named)
