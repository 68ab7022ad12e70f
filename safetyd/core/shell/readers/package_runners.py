"""Programs that run a program from a package: `npx`, `uv run`, `bundle exec` and similar."""

from typing import Final, NamedTuple

from safetyd.core.shell import rows
from safetyd.core.shell.addresses import host, is_local
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.programs import matches
from safetyd.core.shell.readers.deletions import delete
from safetyd.core.shell.readers.interpreters import LANGUAGES, run, run_module
from safetyd.core.shell.reading import HOLE, Effect, each
from safetyd.core.shell.words import NETWORK, Word

# The public registries of packages.
_REGISTRIES: Final = frozenset(
    {"registry.npmjs.org", "registry.yarnpkg.com", "npm.pkg.github.com", "registry.npmmirror.com"}
)


class Launch(NamedTuple):
    """A way to run a program from a package."""

    verbs: tuple[str, ...]
    fetches: bool = False  # True if a missing package is downloaded
    script: bool = False  # True if the name may also be a script of the project
    skip: int = 0  # the number of the runner's own words before the command


_FETCHES: Final = Launch((), fetches=True)
_EXEC: Final = Launch(("exec",))
_LAUNCHES: Final[dict[str, tuple[Launch, ...]]] = {
    **each((_FETCHES,), "npx pnpx bunx uvx"),
    "npm": (Launch(("exec",), fetches=True), Launch(("x",), fetches=True)),
    "pnpm": (Launch(("dlx",), fetches=True), _EXEC),
    "yarn": (Launch(("dlx",), fetches=True), _EXEC),
    "bun": (Launch(("x",), fetches=True),),
    "pipx": (Launch(("run",), fetches=True),),
    "uv": (Launch(("run",), script=True), Launch(("tool", "run"), fetches=True)),
    **each((Launch(("run",), script=True),), "poetry pipenv rye"),
    **each((Launch(("run",), script=True),), "pdm hatch pixi"),
    **each((Launch(("run",), script=True),), "conda mamba micromamba"),
    **each((_EXEC,), "bundle bundler rbenv pyenv asdf tox"),
    **each((_EXEC,), "composer dune opam stack cabal"),
    **each((_EXEC, Launch(("x",))), "mise rtx"),
    **each((Launch(("run",)), Launch(("exec",))), "volta fnm"),
    **each((Launch(("run",)), Launch((), script=True)), "nyc c8 dotenv"),
    "rustup": (Launch(("run",), skip=1),),
    **each((Launch(("exec",), skip=1),), "nvm n"),
    "dotenvx": (Launch(("run",)),),
    "dotnet": (Launch(("tool", "run")),),
}
# Packages whose program has a different name.
_PROGRAM_OF: Final = {
    "@biomejs/biome": "biome",
    "typescript": "tsc",
    "@angular/cli": "ng",
    "@nestjs/cli": "nest",
    "@playwright/test": "playwright",
    "@redocly/cli": "redocly",
    "@tailwindcss/cli": "tailwindcss",
    "@changesets/cli": "changeset",
    "@commitlint/cli": "commitlint",
    "@vscode/vsce": "vsce",
    "@stoplight/spectral-cli": "spectral",
    "@storybook/cli": "storybook",
    "@sentry/cli": "sentry-cli",
    "@openapitools/openapi-generator-cli": "openapi-generator-cli",
    "@vue/cli": "vue",
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@google/gemini-cli": "gemini",
    "opencode-ai": "opencode",
    "@github/copilot": "copilot",
    "@bufbuild/buf": "buf",
}
_OWN_PACKAGE: Final = ("-p", "--package", "--with", "--from", "--spec", "--with-requirements")
_SHELL_TEXT: Final = ("-c", "--call", "--shell-mode")
_NAMING: Final = frozenset({"yarn", "pnpm", "bun"})  # scripts of the project work as verbs
_NEW: Final = "runs a package that it may download first"


def read_package_runner(inv: Invocation) -> None:
    """Analyse a verb that runs a program from a package. The row covers other verbs."""
    if inv.call.program.name == "bun" and _runs_code(inv.call):
        run(inv, LANGUAGES["bun"], list(inv.call.words))
        return
    call = inv.call = _in_workspace(inv.call)
    for value in call.values("--registry"):
        if host(value.text) not in _REGISTRIES and not is_local(value.text):
            inv.found(Effect.LEAVES, "contacts a registry that the command names")
    launches = _LAUNCHES.get(call.program.name, ())
    launch = next((each for each in launches if _fits(each, call)), None)
    if call.name == "uv" and call.verb == "pip":
        at = [word.text for word in call.words].index("pip")
        inv.output = inv.runner.program(call.words[at:], inv.command, inv.scope, "uv")
    elif launch is None and call.name in _NAMING and call.verb and not _has_verb(call):
        _named(inv)
    elif launch is None or (not launch.verbs and _has_verb(call)):
        rows.apply(inv)
        if call.name == "uv" and call.verb == "venv":
            _cleared(inv, call.arguments[1:])
        if call.name == "bun" and call.verb == "run":
            for word in call.arguments[1:2]:
                rows.load(inv, word, "bun run")
    else:
        inv.named = " ".join((call.name, *launch.verbs))
        _launch(inv, launch)


def read_venv(inv: Invocation) -> None:
    """Analyse a program that creates a Python environment."""
    rows.apply(inv)
    _cleared(inv, inv.call.arguments)


def _cleared(inv: Invocation, folders: list[Word]) -> None:
    """Record that `--clear` deletes the contents of a folder."""
    for word in folders if inv.call.has("--clear", "-c") else []:
        delete(inv, word, recursive=True)


def _launch(inv: Invocation, launch: Launch) -> None:
    """Analyse the options of a runner and the command that it runs."""
    name, row = inv.call.name, inv.call.program.row
    own, inner = _apart(inv, launch)
    for word in own.values(*row.loads):
        rows.load(inv, word, inv.named)
    if (launch.fetches or name == "uv") and own.values(*_OWN_PACKAGE):
        inv.found(Effect.INSTALLS, _NEW, type="install_package", remedy="without another package")
    text = own.values(*_SHELL_TEXT) if name in {"npx", "npm", "pnpm"} else []
    for word in text:
        inv.shell(word, f"{inv.named} -c")
    module = own.values("-m", "--module") if name == "uv" else []
    if module:
        run_module(inv, module[0], inner)
    elif inner:
        _run(inv, launch, inner)
    elif not text:
        inv.found(Effect.UNKNOWN, "runs a program that the command does not name")


def _in_workspace(call: Call) -> Call:
    """Return the call without the words that select a workspace."""
    words, said = list(call.words), [word.text for word in call.arguments]
    if call.name == "pnpm":
        words = [word for word in words if word.text not in {"-w", "recursive"}]
    elif call.name == "yarn" and said[:1] == ["workspace"]:
        words = [word for word in words if word not in call.arguments[:2]]
    elif call.name == "yarn" and said[:1] == ["workspaces"] and {"run", "exec"} & {*said[1:]}:
        at = min(said.index(verb) for verb in ("run", "exec") if verb in said)
        words = words[words.index(call.arguments[at]) :]
    return Call(call.program, call.name, words, call.stdin)


def _has_verb(call: Call) -> bool:
    return any(use.words and matches(use.words[0], call.verb) for use in call.program.uses)


def _named(inv: Invocation) -> None:
    """Analyse `yarn NAME`: a script of the project, a file, or a program from a package."""
    call = inv.call
    inv.named = f"{call.name} run"
    for word in call.values(*call.program.row.loads):
        rows.load(inv, word, inv.named)
    at = [word.text for word in call.words].index(call.verb)
    _run(inv, Launch((), script=True), list(call.words[at:]))


def _runs_code(call: Call) -> bool:
    """Return True if `bun` runs code or a script, as `node` does."""
    first = call.words[0].text if call.words else ""
    return first in LANGUAGES["bun"].code or first.endswith(tuple(rows.RUN_BY))


def _fits(launch: Launch, call: Call) -> bool:
    return tuple(word.text for word in call.arguments[: len(launch.verbs)]) == launch.verbs


def _apart(inv: Invocation, launch: Launch) -> tuple[Call, list[Word]]:
    """Split the words into the runner's own call and the command that it runs."""
    words, program = list(inv.call.words), inv.call.program
    at, verbs = 0, list(launch.verbs)
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            break
        if text.startswith("-"):
            at += 2 if text in program.valued else 1
        elif verbs and text == verbs[0]:
            verbs.pop(0)
            at += 1
        else:
            break
    return Call(program, inv.call.name, words[:at], inv.stdin), words[at + launch.skip :]


def _run(inv: Invocation, launch: Launch, inner: list[Word]) -> None:
    first = inner[0]
    name = _program(first.text, fetches=launch.fetches)
    suffix = first.text[first.text.rfind(".") :] if "." in first.text else ""
    if "://" in first.text:
        inv.runs_unknown(NETWORK, "a script")
    elif launch.script and " " in first.text.strip():
        inv.shell(first, inv.named)
    elif launch.script and suffix in rows.RUN_BY:
        run(inv, LANGUAGES[rows.RUN_BY[suffix]], inner)
    elif not first.fixed or (inv.runner.packaged if launch.fetches else inv.runner.knows)(name):
        program = first.with_text(name if first.fixed else first.text)
        inv.output = inv.runner.program([program, *inner[1:]], inv.command, inv.scope, inv.named)
    elif launch.fetches:
        why = f"runs {visible(name)}, and downloads it first if it is missing"
        remedy = f'with [shell.programs.{name}] effect = "work"'
        inv.found(Effect.INSTALLS, why, type="install_package", remedy=remedy)
        inv.reads(*inner[1:])
    elif launch.script and "/" not in name:
        inv.found(Effect.WORK, f"runs {visible(name)}, a script of the project")
        inv.reads(*inner[1:])
    else:
        inv.output = inv.runner.program(inner, inv.command, inv.scope, inv.named)


def _program(package: str, *, fetches: bool) -> str:
    """Return the program of a package, without its version."""
    if not fetches or HOLE in package:
        return package
    name = package[:1] + package[1:].partition("@")[0]
    name = name.partition("==")[0]
    return _PROGRAM_OF.get(name, name)
