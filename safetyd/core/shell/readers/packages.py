"""Programs that install packages, build a project or run configured commands."""

import copy
import re
from itertools import pairwise
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.addresses import is_address
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.readers.families import looks
from safetyd.core.shell.reading import Effect, each
from safetyd.core.shell.words import Word

_FIELDS: Final = ("-f", "-F", "--field", "--raw-field", "--input", "--form")
_runs_in_make = re.compile(r"\$[({](?:shell|eval|file|guile|call|load)\b").search
_ARCHIVES: Final = (".whl", ".tar.gz", ".zip")
_ELSEWHERE: Final = (
    *("-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f"),
    *("--find-links", "--trusted-host", "--allow-insecure-host"),
)
_JAVA_LOADS: Final = (
    *("-javaagent", "-agentlib", "-agentpath", "-Xrun", "-Xbootclasspath", "-XX:OnError"),
    *("-XX:OnOutOfMemoryError", "-XX:Flags", "-XX:VMOptionsFile", "--patch-module", "-J-"),
    "--upgrade-module-path",
)
_DRY: Final = {
    **each(("-n", "--dry-run", "--just-print", "--recon"), "make gmake"),
    "just": ("-n", "--dry-run"),
    "task": ("-n", "--dry", "--dry-run"),
    "gradle": ("-m", "--dry-run"),
    "gradlew": ("-m", "--dry-run"),
    "rake": ("-n", "--dry-run"),
    "ninja": ("-n",),
}
# Read-only verbs of command-line tools for servers.
_ASKS_SERVER: Final = frozenset({"console", "session-id", "who-am-i", "mail"})
_ADDRESSED: Final = frozenset({"-s", "-auth", "-i", "-user", "-p", "-url", "--url", "--server"})
_HOMES: Final = frozenset({"HOME", "XDG_CONFIG_HOME", "USERPROFILE"})
_UNGUARDED: Final = ("disableAllHooks", "features.hooks", "hooks=", "codex_hooks")


def read_forge(inv: Invocation) -> None:
    """Analyse `gh` and `glab`. API requests are judged by method, other uses by row."""
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
        inv.found(Effect.READ, "queries the Git host")
    else:
        inv.found(Effect.LEAVES, "changes something on the Git host", remedy="with `--method GET`")


def read_pip(inv: Invocation) -> None:
    """Analyse `pip` and `uv pip`. Only the project's dependencies are allowed."""
    if inv.call.verb not in {"install", "sync"}:
        rows.apply(inv)
        return
    call, inv.named = inv.call, f"pip {inv.call.verb}"
    if call.has_surely("--dry-run"):
        inv.found(Effect.READ, "only shows what it would install")
        return
    for word in call.values("-t", "--target", "--prefix", "--root"):
        inv.writes(word)
    lists = call.values("-r", "--requirement", "-e", "--editable", "--group")
    packages = call.arguments[1:]
    if call.verb == "sync":
        lists, packages = [*lists, *packages], []
    if call.has(*_ELSEWHERE):
        why, remedy = "installs from a different package index", "without another index"
    elif not [*packages, *lists] or not all(_is_own(word, inv) for word in packages):
        why, remedy = "installs new packages", "as `pip install -r requirements.txt`"
    elif not all(inv.scope.place(word.text).kind == places.INSIDE for word in lists) or any(
        "://" in word.text for word in lists
    ):
        why, remedy = (
            "installs packages that are listed outside the project",
            "with a requirements file of the project",
        )
    else:
        inv.found(Effect.WORK, "installs the project's dependencies")
        inv.reads(*lists)
        return
    inv.found(Effect.INSTALLS, why, type="install_package", remedy=remedy)


def _is_own(word: Word, inv: Invocation) -> bool:
    """Return True if a package is the project itself, or a file in the project."""
    text = word.text.partition("[")[0]
    local = text.startswith(".") or text.endswith(_ARCHIVES)
    return local and "://" not in text and inv.scope.place(text).kind == places.INSIDE


def read_targets(inv: Invocation) -> None:
    """Analyse a build program whose arguments are targets."""
    whole = inv.call
    for word in whole.values("-D", "--define", "-P", "--project-prop", "--system-prop"):
        _, _, value = word.text.partition("=")
        if value[:1] in {"/", "~", "."} and inv.scope.place(value).kind != places.INSIDE:
            why = f"sets {visible(word.text)}, a path outside the project"
            inv.found(Effect.UNKNOWN, why, remedy="with a path inside the project")
    for word in whole.arguments:
        _make_variable(inv, word)
    if _only_shows(whole):
        inv.found(Effect.READ, "only shows what it would run")
        return
    if not whole.arguments:
        rows.apply(inv)
    for goal in whole.arguments:
        inv.call = _with(whole, goal)
        rows.apply(inv)


def _make_variable(inv: Invocation, word: Word) -> None:
    """Record a variable of make whose value runs a command."""
    name, equals, value = word.text.partition("=")
    if not equals or not inv.call.name.endswith("make"):
        return
    if name.endswith("!"):
        inv.shell(word.with_text(value), f"{inv.call.name} {name}=")
    elif _runs_in_make(value):
        inv.found(Effect.UNKNOWN, "sets a variable to text that make runs or evaluates")


def _only_shows(call: Call) -> bool:
    """Return True for a dry run of targets."""
    dry = any(call.has_surely(option) for option in _DRY.get(call.name, ("--dry-run",)))
    settings = any("=" in word.text for word in call.arguments) or call.has("-E", "--eval")
    return dry and not settings and not call.values(*call.program.row.loads)


def _with(whole: Call, goal: Word) -> Call:
    call = copy.copy(whole)
    call.arguments = [goal]
    return call


def read_compiler(inv: Invocation) -> None:
    """Analyse a compiler. `@file` contains options. Values may directly follow their option."""
    rows.apply(inv)
    for word in inv.call.words:
        if word.text.startswith("-o") and word.text not in inv.call.program.valued:
            inv.writes(word.with_text(word.text[2:]))
        elif word.text.startswith("-Wl,") and "plugin" in word.text:
            inv.found(Effect.UNKNOWN, "lets the linker load code", remedy="without a plugin")
        elif word.text.startswith("-B"):
            inv.found(
                Effect.UNKNOWN, "uses compiler programs from another folder", remedy="without `-B`"
            )
    for word in inv.call.arguments:
        if word.text.startswith("@"):
            inv.script(word.with_text(word.text[1:]), inv.call.name)


def read_java(inv: Invocation) -> None:
    """Analyse `java`. Arguments after the class or archive belong to the Java program."""
    call, words = inv.call, list(inv.call.words)
    own: list[Word] = []
    while words and words[0].text.startswith(("-", "@")):
        own.append(words.pop(0))
        if own[-1].text in call.program.valued and words:
            own.append(words.pop(0))
    inv.call = Call(call.program, call.name, own, inv.stdin)
    read_compiler(inv)
    if any(word.text.startswith(_JAVA_LOADS) for word in own):
        why = "loads or runs a program that an option names"
        inv.found(Effect.UNKNOWN, why, remedy="without this option")
    for path in inv.call.values("-cp", "-classpath", "--class-path", "-p", "--module-path"):
        for part in path.text.split(":"):
            inv.script(path.with_text(part or "."), f"{call.name} {path.text}")
    if words and words[0].text.endswith(".java"):
        inv.script(words[0], call.name)
    archive = next(iter(inv.call.values("-jar")), None)
    given = words if archive is not None else words[1:]
    if archive is not None:
        _server_tool(inv, archive, given)
    inv.reads(*given)


def _server_tool(inv: Invocation, archive: Word, words: list[Word]) -> None:
    """Record the effects of a server's command-line tool."""
    name = archive.text.rpartition("/")[2].removesuffix(".jar").lower()
    of_server = any(name.startswith(each) for each in inv.runner.listed("server_clis"))
    addressed = any(is_address(word.text) for word in words)
    if not (of_server or addressed or name.endswith(("-cli", "-client", "ctl"))):
        return
    verbs = [
        word
        for before, word in pairwise([archive, *words])
        if not word.text.startswith(("-", "@"))
        and before.text not in _ADDRESSED
        and not is_address(word.text)
    ]
    asks = verbs[:1] and verbs[0].text in _ASKS_SERVER
    if asks or looks(inv, verbs) or not verbs:
        inv.found(Effect.READ, "queries a server")
    else:
        inv.found(Effect.LEAVES, f"changes a server with the command {visible(verbs[0].text)}")


def read_cargo(inv: Invocation) -> None:
    """Analyse `cargo`. The options of `cargo watch` are commands."""
    rows.apply(inv)
    if inv.call.verb == "watch":
        for word in inv.call.values("-x", "--exec"):
            inv.shell(word.with_text(f"cargo {word.text}"), "cargo watch -x")
        for word in inv.call.values("-s", "--shell"):
            inv.shell(word, "cargo watch -s")


def read_commands(inv: Invocation) -> None:
    """Analyse a program whose arguments are commands, such as `concurrently`."""
    row = inv.call.program.row
    inv.found(Effect.READ, "runs the commands in its arguments")
    for word in inv.call.values(*row.writes):
        inv.writes(word)
    for word in [*inv.call.values(*row.runs), *inv.call.arguments]:
        if word.text.startswith("npm:"):
            word = word.with_text(f"npm run {word.text[4:]}")  # noqa: PLW2901
        inv.shell(word, inv.call.name)


def read_agent(inv: Invocation) -> None:
    """Analyse another agent. If its hooks are disabled, nothing checks its actions."""
    call = inv.call
    here = {name for name, _ in inv.command.assignments} | inv.scope.variables.keys()
    texts = [word.text for word in call.words]
    marked = any(mark in text for text in texts for mark in _UNGUARDED)
    disabled = any(word.text == "hooks" or not word.fixed for word in call.values("--disable"))
    if here & _HOMES or marked or disabled:
        why = "runs another agent with its safety hooks disabled"
        inv.found(Effect.UNKNOWN, why, blocks=True, remedy="with its own settings")
    rows.apply(inv)
