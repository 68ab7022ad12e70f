"""Scripts in JavaScript, Perl, Ruby, PHP, Lua, R and Julia, read by their words.

It is a look, not a proof: names of functions that run programs, change files, leave the machine,
evaluate or show secrets are looked up with what they are given. What has no name there passes, and
who hides a name well enough is not found.
"""

from typing import Final

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.code.scripts import script_calls
from safetyd.core.shell.code.scripts.script_actions import ScriptActions
from safetyd.core.shell.code.scripts.script_calls import ENVIRONMENT, Does
from safetyd.core.shell.code.scripts.script_phrases import Phrases
from safetyd.core.shell.code.scripts.script_syntax import SYNTAXES, Syntax
from safetyd.core.shell.code.scripts.script_tokens import (
    ScriptTokenizer,
    Token,
    TooLong,
    Unreadable,
)
from safetyd.core.shell.code.secret_names import looks_secret
from safetyd.core.shell.reading import HOLE, Code, Effect

MAX_LETTERS: Final = 1 << 17  # of a source and of the sources in it
MAX_SOURCES: Final = 4  # one in the other

_TOO_LONG: Final = "is too long or nested too deeply to be read"
_UNKNOWN_NAME: Final = "calls a function whose name is not known before it runs"
_OWNING: Final = frozenset({".", "?.", "->"})
_ENVIRONMENTS: Final = frozenset({"process.env", "Bun.env", "ENV", "$ENV", "$_ENV", "$_SERVER"})
_POWERFUL: Final = frozenset(
    {"process", "global", "globalThis", "window", "fs", "Deno", "Bun", "os", "io", "this"}
)


def read_script(source: str, language: str) -> Code:
    builder = CodeBuilder()
    syntax = SYNTAXES.get(language)
    if syntax is None:
        builder.find(Effect.UNKNOWN, "nobody reads")
    else:
        _Source(builder, syntax).read(source)
    return builder.code()


class _Source:
    """A source, and the sources that stand in its strings and are run."""

    def __init__(self, builder: CodeBuilder, syntax: Syntax) -> None:
        self._builder = builder
        self._syntax = syntax
        self._letters = 0
        self._level = 0

    def read(self, source: str) -> None:
        self._letters += len(source)
        if self._level > MAX_SOURCES or self._letters > MAX_LETTERS:
            self._builder.find(Effect.UNKNOWN, _TOO_LONG)
            return
        tokenizer = ScriptTokenizer(source, self._syntax)
        self._level += 1
        try:
            tokenizer.read()
            phrases = [Phrases(tokens, self._syntax) for tokens in tokenizer.pieces]
            modules = frozenset(module for each in phrases for module in each.modules())
            for each in phrases:
                _Look(each, self._builder, modules, self).at_all()
        except Unreadable:
            self._builder.find(Effect.UNKNOWN, f"is not readable as {self._syntax.shown}")
        except TooLong:
            self._builder.find(Effect.UNKNOWN, _TOO_LONG)
        self._level -= 1


class _Look:
    """One look at every token."""

    def __init__(
        self, phrases: Phrases, builder: CodeBuilder, modules: frozenset[str], source: _Source
    ) -> None:
        self._phrases = phrases
        self._builder = builder
        self._language = phrases.syntax.language
        self._names = script_calls.NAMES[self._language]
        self._methods = dict(script_calls.METHODS[self._language])
        self._runs = bool(modules & script_calls.RUNNING_MODULES)
        if self._runs:
            self._methods |= script_calls.WITH_RUNNING.get(self._language, {})
        if modules & script_calls.FILE_MODULES:
            self._methods |= script_calls.WITH_FILES.get(self._language, {})
        self._actions = ScriptActions(phrases, builder, source.read, self._known)

    def at_all(self) -> None:
        for at, token in enumerate(self._phrases.tokens):
            match token.kind:
                case "shell":
                    self._builder.shell(token.text)
                case "hidden":
                    self._builder.find(Effect.UNKNOWN, "runs code that its text does not show")
                case "name":
                    self._name(at, token.text)
                case "sign" if token.text == "[":
                    self._index(at)
                case "sign" | "string":
                    self._call_of_value(at, token)

    def _known(self, name: str) -> Does | None:
        """Return what a function does that is named in a string."""
        return self._names.get(name) or self._methods.get(name)

    def _name(self, at: int, chain: str) -> None:
        for owner in script_calls.OWNERS:
            if chain not in self._names:
                chain = chain.removeprefix(owner)
        if self._variable(at, chain) or self._phrases.is_key(at):
            return
        owned = self._phrases.before(at).text in _OWNING
        last = self._phrases.last(chain)
        does = None if owned else self._names.get(chain)
        if does is None and (last != "constructor" or owned or last != chain):
            does = self._methods.get(last)
        if chain == "process" and self._phrases.before(at).text not in {"=", "(", ","}:
            return
        if does is not None:
            self._do(does, at)
        elif chain.startswith("$") and self._language == "php":
            if self._phrases.is_sign(at + 1, "(") and last == chain:
                self._builder.find(Effect.UNKNOWN, _UNKNOWN_NAME)
        elif chain in {"$", "Bun.$"} and self._phrases.after(at).kind == "string":
            self._builder.shell(self._phrases.after(at).text)

    def _do(self, does: Does, at: int) -> None:
        if not self._phrases.is_taken_out(at):
            self._actions.do(does, self._phrases.arguments(at, bare=does.what == "script"))

    def _variable(self, at: int, chain: str) -> bool:
        """Take note of what is read from the environment."""
        owner, _, name = chain.rpartition(".")
        if owner in {"process.env", "Bun.env"}:
            self._secret(name)
            return True
        if chain == "%ENV":
            self._actions.do(ENVIRONMENT, None)
            return True
        if chain not in _ENVIRONMENTS:
            return False
        key = self._phrases.key(at + 1)
        if key is None or key == HOLE:
            self._actions.do(ENVIRONMENT, None)
        else:
            self._secret(key)
        return True

    def _secret(self, name: str) -> None:
        if looks_secret(name):
            self._builder.find(Effect.SECRETS, f"reads {name} from the environment")

    def _index(self, at: int) -> None:
        """Take note of a function that is found by its name in brackets."""
        phrases = self._phrases
        before = phrases.before(at)
        if self._language not in {"javascript", "lua"} or not phrases.is_value(at - 1):
            return
        inside, end = phrases.inside(at), phrases.partner(at)
        name = phrases.text(inside)
        does = script_calls.RUNS_UNKNOWN if name in _POWERFUL else self._known(name)
        if does is not None:
            self._actions.do(does, phrases.arguments(end))
        elif HOLE not in name:
            if len(inside) > 1 or name in {"env", "constructor", "mainModule"}:
                self._builder.find(Effect.UNKNOWN, _UNKNOWN_NAME)
        elif self._runs or [token.kind for token in inside] != ["number"]:
            powerful = self._runs or before.text in _POWERFUL
            if powerful or phrases.is_sign(end + 1, "("):
                self._builder.find(Effect.UNKNOWN, _UNKNOWN_NAME)

    def _call_of_value(self, at: int, token: Token) -> None:
        """Take note of a call by a text, as in PHP's `'system'('ls')`."""
        if self._language != "php" or not self._phrases.is_sign(at + 1, "("):
            return
        if token.text == ")" and token.kind == "sign":
            inside = self._phrases.inside(self._phrases.partner(at))
            by_text = any(each.kind == "string" for each in inside)
        else:
            by_text = token.kind == "string" or token.text == "]"
        if by_text:
            self._builder.find(Effect.UNKNOWN, _UNKNOWN_NAME)
