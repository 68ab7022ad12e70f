"""What talks to a forge or takes in packages: requests, packages by name, and lists of goals."""

import copy
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import Effect
from safetyd.core.shell.words import Word

_FIELDS: Final = ("-f", "-F", "--field", "--raw-field", "--input", "--form")
_ARCHIVES: Final = (".whl", ".tar.gz", ".zip")
_ELSEWHERE: Final = (
    *("-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f"),
    *("--find-links", "--trusted-host", "--allow-insecure-host"),
)


def read_forge(inv: Invocation) -> None:
    """Read `gh` and `glab`: requests to the API by their method, the rest by the row."""
    call = inv.call
    if call.verb != "api":
        rows.apply(inv)
        return
    inv.named = f"{call.name} api"
    methods = [word.text.upper() for word in call.values("-X", "--method")]
    fields = call.values(*_FIELDS)
    asks = [word.text for word in call.arguments[1:2]] == ["graphql"] and not methods
    if (asks and not any("mutation" in word.text or not word.known for word in fields)) or (
        methods or ["POST" if fields else "GET"]
    )[-1] in {"GET", "HEAD"}:
        inv.found(Effect.READ, "asks the forge")
    else:
        inv.found(Effect.LEAVES, "changes something at the forge", remedy="with `--method GET`")


def read_pip(inv: Invocation) -> None:
    """Read `pip`, also as `uv pip`: what the project names is work, all else is new."""
    if inv.call.verb != "install":
        rows.apply(inv)
        return
    call, inv.named = inv.call, "pip install"
    if call.has("--dry-run"):
        inv.found(Effect.READ, "only says what it would install")
        return
    for word in call.values("-t", "--target", "--prefix", "--root"):
        inv.writes(word)
    lists = call.values("-r", "--requirement", "-e", "--editable", "--group")
    named = [*call.arguments[1:], *lists]
    if call.has(*_ELSEWHERE):
        why, remedy = "installs from another place than the usual one", "without another index"
    elif not named or not all(_is_own(word, inv) for word in call.arguments[1:]):
        why, remedy = "installs something new", "as `pip install -r requirements.txt`"
    elif not all(inv.scope.place(word.text).kind == places.INSIDE for word in lists) or any(
        "://" in word.text for word in lists
    ):
        why, remedy = "installs what is named elsewhere", "with a list of the project"
    else:
        inv.found(Effect.WORK, "installs what the project names")
        inv.reads(*lists)
        return
    inv.found(Effect.INSTALLS, why, type="install_package", remedy=remedy)


def _is_own(word: Word, inv: Invocation) -> bool:
    """Say whether a package is the project itself, or built by it."""
    text = word.text.partition("[")[0]
    local = text.startswith(".") or text.endswith(_ARCHIVES)
    return local and "://" not in text and inv.scope.place(text).kind == places.INSIDE


def read_goals(inv: Invocation) -> None:
    """Read a program whose words are goals, each of which is reached."""
    whole = inv.call
    if not whole.arguments:
        rows.apply(inv)
    for goal in whole.arguments:
        inv.call = _with(whole, goal)
        rows.apply(inv)


def _with(whole: Call, goal: Word) -> Call:
    call = copy.copy(whole)
    call.arguments = [goal]
    return call
