"""Analyses JavaScript by the names of the functions that it calls.

It finds calls that run programs, change files, contact other machines, evaluate code or expose
secrets. Code can evade the analysis by hiding the names of functions.
"""

from typing import Final

from safetyd.core.shell.addresses import is_local
from safetyd.core.shell.code import javascript_calls as calls
from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.code.javascript_calls import Does
from safetyd.core.shell.code.javascript_phrases import Phrases, last
from safetyd.core.shell.code.javascript_tokens import (
    JavascriptTokenizer,
    Token,
    TooLong,
    Unreadable,
)
from safetyd.core.shell.reading import HOLE, Access, Code, Effect

MAX_LETTERS: Final = 1 << 17  # characters of a source, including the sources in its strings
MAX_SOURCES: Final = 4  # sources nested in each other

_TOO_LONG: Final = "cannot be analysed: it is too long or nested too deeply"
_UNKNOWN_NAME: Final = "calls a function whose name is only known at run time"
_UNKNOWN_CODE: Final = "evaluates text that is only known at run time"
_GLOBALS: Final = ("globalThis.", "global.", "window.")
_ENVIRONMENTS: Final = frozenset({"process.env", "Bun.env"})
_POWERFUL: Final = frozenset(
    {"process", "global", "globalThis", "window", "fs", "Deno", "Bun", "os", "io", "this"}
)
_ASKING: Final = frozenset({"GET", "HEAD", "get", "head"})
_PATHS: Final = ("./", "../", "/", "~")
_BRACE: Final = [Token("sign", "{")]

Arguments = list[list[Token]] | None


def read_javascript(source: str) -> Code:
    builder = CodeBuilder()
    _Source(builder).read(source)
    return builder.code()


class _Source:
    """Analyses a source, and the sources that it runs from its strings."""

    def __init__(self, builder: CodeBuilder) -> None:
        self._builder = builder
        self._letters = 0
        self._level = 0

    def read(self, source: str) -> None:
        self._letters += len(source)
        if self._level > MAX_SOURCES or self._letters > MAX_LETTERS:
            self._builder.find(Effect.UNKNOWN, _TOO_LONG)
            return
        tokenizer = JavascriptTokenizer(source)
        self._level += 1
        try:
            tokenizer.read()
            phrases = [Phrases(tokens) for tokens in tokenizer.pieces]
            modules = frozenset(module for each in phrases for module in each.modules())
            for each in phrases:
                _Look(each, self._builder, modules, self).at_all()
        except Unreadable:
            self._builder.find(Effect.UNKNOWN, "cannot be analysed: it is not valid JavaScript")
        except TooLong:
            self._builder.find(Effect.UNKNOWN, _TOO_LONG)
        self._level -= 1


class _Look:
    """Looks for effects at every token of a piece of code."""

    def __init__(
        self, phrases: Phrases, builder: CodeBuilder, modules: frozenset[str], source: _Source
    ) -> None:
        self._phrases = phrases
        self._builder = builder
        self._source = source
        self._methods = calls.METHODS
        self._runs = bool(modules & calls.RUNNING_MODULES)
        if self._runs:
            self._methods = self._methods | calls.WITH_RUNNING
        if modules & calls.FILE_MODULES:
            self._methods = self._methods | calls.WITH_FILES

    def at_all(self) -> None:
        for at, token in enumerate(self._phrases.tokens):
            if token.kind == "name":
                self._name(at, token.text)
            elif token == Token("sign", "["):
                self._index(at)

    def _name(self, at: int, chain: str) -> None:
        phrases = self._phrases
        for owner in _GLOBALS:
            if chain not in calls.NAMES:
                chain = chain.removeprefix(owner)
        if self._is_environment(at, chain):
            return
        before, name = phrases.at(at - 1).text, last(chain)
        owned = before in {".", "?."}
        does = None if owned else calls.NAMES.get(chain)
        if does is None and (name != "constructor" or owned or name != chain):
            does = self._methods.get(name)
        if chain == "process" and before not in {"=", "(", ","}:
            return
        if chain == "import" and not phrases.is_sign(at + 1, "("):  # `import x from 'y'`
            return
        if does is not None:
            if not phrases.is_imported(at):
                self._do(does, phrases.arguments(at))
        elif chain in {"$", "Bun.$"} and phrases.at(at + 1).kind == "string":
            self._builder.shell(phrases.at(at + 1).text)

    def _is_environment(self, at: int, chain: str) -> bool:
        """Return True if a name is the environment, and record the variable that is read."""
        owner, _, name = chain.rpartition(".")
        if chain in _ENVIRONMENTS:
            name = self._phrases.key(at + 1)
        elif owner not in _ENVIRONMENTS:
            return False
        self._variable(name)
        return True

    def _variable(self, name: str) -> None:
        if HOLE in name:
            self._find(calls.ENVIRONMENT)
        else:
            self._builder.variable(name)

    def _index(self, at: int) -> None:
        """Record a function that is accessed by name in brackets."""
        phrases = self._phrases
        if not phrases.is_value(at - 1):
            return
        inside, end = phrases.inside(at), phrases.partner(at)
        name = phrases.text(inside)
        known = calls.NAMES.get(name) or self._methods.get(name)
        does = calls.RUNS_UNKNOWN if name in _POWERFUL else known
        if does is not None:
            self._do(does, phrases.arguments(end))
        elif HOLE not in name:
            if len(inside) > 1 or name in {"env", "constructor", "mainModule"}:
                self._builder.find(Effect.UNKNOWN, _UNKNOWN_NAME)
        elif self._runs or [token.kind for token in inside] != ["number"]:
            powerful = self._runs or phrases.at(at - 1).text in _POWERFUL
            if powerful or phrases.is_sign(end + 1, "("):
                self._builder.find(Effect.UNKNOWN, _UNKNOWN_NAME)

    def _do(self, does: Does, given: Arguments) -> None:  # noqa: C901, PLR0912 - one line each
        """Record a call. `given` is None if the function is only referenced."""
        match does.what:
            case "find":
                self._find(does)
            case "shell":
                self._builder.shell(self._text(given, 0))
            case "words":
                self._words(given or [[]])
            case "deno":
                self._deno(given or [])
            case "code":
                self._code(given)
            case "timer" if given and given[0] and given[0][0].kind == "string":
                self._code(given[:1])
            case "script":
                self._script(self._text(given, 0))
            case "require":
                self._require(self._text(given, 0))
            case "object" if given is None:  # `process` is passed on, including its environment
                self._find(calls.ENVIRONMENT)
            case "open":
                self._open(given)
            case "file":
                for at in does.at:
                    if not given or at == 0 or at < len(given):
                        self._touch(self._text(given, at), does.access)
            case "variable":
                self._variable(self._text(given, 0))
            case "fetch":
                self._fetch(given or [])

    def _text(self, given: Arguments, at: int) -> str:
        return self._phrases.text(given[at]) if given and at < len(given) else HOLE

    def _find(self, does: Does) -> None:
        self._builder.find(does.effect, does.why)

    def _words(self, given: list[list[Token]]) -> None:
        words = self._phrases.words(given[0])
        for each in given[1:2]:
            words += [] if each[:1] == _BRACE else self._phrases.words(each)
        if any(token == Token("name", "shell") for each in given for token in each):
            self._builder.shell(" ".join(words))
        else:
            self._builder.command(*words)

    def _deno(self, given: list[list[Token]]) -> None:
        """Analyse `new Deno.Command("ls", { args: ["-l"] })`."""
        words = [self._text(given, 0)]
        for options in given[1:2]:
            names = [token.text for token in options]
            if "args" in names:
                begin = names.index("args") + 2
                end = names.index("]", begin) + 1 if "]" in names[begin:] else begin
                words += self._phrases.words(options[begin:end])
        self._builder.command(*words)

    def _code(self, given: Arguments) -> None:
        source = self._text(given, len(given) - 1 if given else 0)
        if HOLE in source:
            self._builder.find(Effect.UNKNOWN, _UNKNOWN_CODE)
        else:
            self._source.read(source)

    def _script(self, path: str) -> None:
        if HOLE in path:
            self._builder.find(Effect.UNKNOWN, _UNKNOWN_CODE)
        else:
            suffix = "" if "." in path.rpartition("/")[2] else ".js"
            self._builder.command("node", path + suffix)

    def _require(self, module: str) -> None:
        found = calls.OTHER_MODULES.get(module.removeprefix("npm:"))
        if HOLE in module or module.startswith(("data:", "http://", "https://")):
            self._builder.find(Effect.UNKNOWN, _UNKNOWN_CODE)
        elif module.endswith(".json"):
            self._builder.touch(module, Access.READ)
        elif module.startswith(_PATHS):
            self._script(module)
        elif found is not None:
            self._find(found)
        elif module.removeprefix("npm:").startswith(calls.CLIENTS) and "/package" not in module:
            self._find(calls.CONNECTS)

    def _open(self, given: Arguments) -> None:
        mode = self._text(given, 1) if given and len(given) > 1 else "" if given else HOLE
        writes = set(mode) & {"w", "a", "x", "c", "+", HOLE}
        self._touch(self._text(given, 0), Access.WRITE if writes else Access.READ)

    def _touch(self, path: str, access: Access) -> None:
        unseen = access is Access.READ and (path == HOLE or "://" in path)
        if not unseen:
            self._builder.touch(path, access)

    def _fetch(self, given: list[list[Token]]) -> None:
        options = given[-1] if len(given) > 1 or (given and given[0][:1] == _BRACE) else []
        names = [token.text for token in options]
        method = options[names.index("method") + 2 :][:1] if "method" in names else []
        asks = not method or method[0].text in _ASKING
        plain = not options or options[:1] == _BRACE or options[0].kind == "string"
        sends = not (asks and plain and "body" not in names)
        if sends and not is_local(self._text(given, 0)):
            self._find(calls.SENDS)
