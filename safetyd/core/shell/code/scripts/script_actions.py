"""What the functions of a script do with what they are given."""

from collections.abc import Callable
from typing import Final

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.code.scripts.script_calls import (
    CLIENTS,
    CONNECTS,
    OTHER_MODULES,
    Does,
)
from safetyd.core.shell.code.scripts.script_phrases import Phrases
from safetyd.core.shell.code.scripts.script_tokens import Token
from safetyd.core.shell.code.secret_names import looks_secret
from safetyd.core.shell.reading import HOLE, Access, Effect

Arguments = list[list[Token]] | None

_UNKNOWN_CODE: Final = (Effect.UNKNOWN, "runs code that is not known before it runs")
_SENDS: Final = (Effect.LEAVES, "sends data to another machine")
_ENVIRONMENT: Final = (Effect.SECRETS, "shows every variable of the environment")
_UNKNOWN_NAME: Final = (
    Effect.UNKNOWN,
    "calls a function whose name is not known before it runs",
)
_STREAMS: Final = frozenset({"/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/null", "-"})
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]", "0.0.0.0")  # noqa: S104 - it is compared
_ASKING: Final = frozenset({"GET", "HEAD", "get", "head"})
_SUFFIXES: Final = {"javascript": ".js", "ruby": ".rb"}
_PATHS: Final = ("./", "../", "/", "~")
_PIPES: Final = frozenset({"|-", "-|"})


class ScriptActions:
    """Puts what calls come to into a `CodeBuilder`."""

    def __init__(
        self,
        phrases: Phrases,
        builder: CodeBuilder,
        run_source: Callable[[str], None],
        known: Callable[[str], Does | None],
    ) -> None:
        self._phrases = phrases
        self._builder = builder
        self._run_source = run_source
        self._known = known
        self._language = phrases.syntax.language
        self._how: dict[str, Callable[[Does, Arguments], None]] = {
            "shell": self._shell,
            "system": self._system,
            "words": self._words,
            "deno": self._deno,
            "code": self._code,
            "timer": self._timer,
            "script": self._script,
            "require": self._require,
            "import": self._import,
            "object": self._object,
            "open": self._open,
            "file": self._file,
            "files": self._files,
            "variable": self._variable,
            "fetch": self._fetch,
            "name": self._name,
            "callback": self._callback,
            "find": self._find,
        }

    def do(self, does: Does, given: Arguments) -> None:
        """Take note of a call; `given` is None where a function is only named."""
        self._how[does.what](does, given)

    def _text(self, given: Arguments, at: int) -> str:
        return self._phrases.text(given[at]) if given and at < len(given) else HOLE

    def _find(self, does: Does, _given: Arguments) -> None:
        self._builder.find(does.effect, does.why)

    def _shell(self, _does: Does, given: Arguments) -> None:
        self._builder.shell(self._text(given, 0))

    def _system(self, _does: Does, given: Arguments) -> None:
        """Read Perl's and Ruby's way: one text is for a shell, more are words."""
        words = [each for each in given or [[]] if not self._is_option(each)]
        if len(words) == 1:
            self._either(self._phrases.words(words[0]))
        else:
            self._builder.command(*map(self._phrases.text, words or [[]]))

    def _either(self, words: list[str]) -> None:
        if len(words) == 1:
            self._builder.shell(words[0])
        else:
            self._builder.command(*words)

    def _is_option(self, tokens: list[Token]) -> bool:
        """Say whether an argument of Ruby sets how a program is run."""
        if self._language != "ruby":
            return False
        named = len(tokens) > 1 and tokens[0].kind == "name" and tokens[1].text == ":"
        return named or any(token.text == "=>" for token in tokens) or tokens[:1] == _BRACE

    def _words(self, _does: Does, given: Arguments) -> None:
        given = given or [[]]
        words = self._phrases.words(given[0])
        for each in given[1:2]:
            words += [] if each[:1] == _BRACE else self._phrases.words(each)
        if any(token == Token("name", "shell") for each in given for token in each):
            self._builder.shell(" ".join(words))
        else:
            self._builder.command(*words)

    def _deno(self, _does: Does, given: Arguments) -> None:
        """Read `new Deno.Command("ls", { args: ["-l"] })`."""
        words = [self._text(given, 0)]
        for options in (given or [])[1:2]:
            names = [token.text for token in options]
            if "args" in names:
                begin = names.index("args") + 2
                end = names.index("]", begin) + 1 if "]" in names[begin:] else begin
                words += self._phrases.words(options[begin:end])
        self._builder.command(*words)

    def _code(self, _does: Does, given: Arguments) -> None:
        if self._language == "perl" and given and given[0][:1] == _BRACE:
            return  # a block, which is looked at where it stands
        source = self._text(given, len(given) - 1 if given else 0)
        if HOLE in source:
            self._builder.find(*_UNKNOWN_CODE)
        else:
            self._run_source(source)

    def _timer(self, does: Does, given: Arguments) -> None:
        if given and given[0] and given[0][0].kind == "string":
            self._code(does, given[:1])

    def _script(self, _does: Does, given: Arguments) -> None:
        tokens = given[0] if given else []
        if tokens[:1] == _BRACE or (tokens and self._is_module(tokens[0])):
            return
        path = self._phrases.text(tokens)
        if HOLE in path:
            self._builder.find(*_UNKNOWN_CODE)
        else:
            self._run(path)

    def _is_module(self, token: Token) -> bool:
        """Say whether a module is loaded by its name, as it is installed."""
        if self._language == "ruby":
            return (
                token.kind == "string"
                and not token.text.startswith(_PATHS)
                and "/" not in token.text
                and "." not in token.text
            )
        bare = token.kind == "name" and token.text[0] not in "$@"
        return self._language == "perl" and (bare or token.kind == "number")

    def _run(self, path: str) -> None:
        suffix = "" if "." in path.rpartition("/")[2] else _SUFFIXES.get(self._language, "")
        self._builder.command(self._phrases.syntax.program, path + suffix)

    def _import(self, does: Does, given: Arguments) -> None:
        if given is not None:  # not `import x from 'y'`
            self._require(does, given)

    def _object(self, _does: Does, given: Arguments) -> None:
        """Take note of `process` that is handed on, with all that it holds."""
        if given is None:
            self._builder.find(*_ENVIRONMENT)

    def _require(self, _does: Does, given: Arguments) -> None:
        module = self._text(given, 0)
        found = OTHER_MODULES.get(module.removeprefix("npm:"))
        if HOLE in module or module.startswith(("data:", "http://", "https://")):
            self._builder.find(*_UNKNOWN_CODE)
        elif module.endswith(".json"):
            self._builder.touch(module, Access.READ)
        elif module.startswith(_PATHS):
            self._run(module)
        elif found is not None:
            self._find(found, None)
        elif module.removeprefix("npm:").startswith(CLIENTS) and "/package" not in module:
            self._find(CONNECTS, None)

    def _open(self, _does: Does, given: Arguments) -> None:
        if self._language == "perl":
            self._open_perl(given or [])
            return
        path = self._text(given, 0)
        mode = self._text(given, 1) if given and len(given) > 1 else "" if given else HOLE
        if self._language == "ruby" and path.startswith("|"):
            self._builder.shell(path[1:])
        elif set(mode) & {"w", "a", "x", "c", "+", HOLE}:
            self._touch(path, Access.WRITE)
        else:
            self._touch(path, Access.READ)

    def _open_perl(self, given: list[list[Token]]) -> None:
        mode = self._text(given, 1).strip()
        if len(given) > 2:  # noqa: PLR2004 - a handle, a mode, and what is opened
            rest = [self._phrases.text(each) for each in given[2:]]
            if mode in _PIPES:
                self._either(rest)
            elif mode.startswith("<"):
                self._touch(rest[0], Access.READ)
            else:
                self._touch(rest[0], Access.WRITE)
        elif mode.startswith("|") or mode.endswith("|"):
            self._builder.shell(mode.strip("|"))
        elif mode.startswith((">", "+")):
            self._touch(mode.lstrip("+<> "), Access.WRITE)
        elif mode.startswith(HOLE):
            self._builder.find(Effect.UNKNOWN, "opens a file or a program that is not known")
        else:
            self._touch(mode.lstrip("< "), Access.READ)

    def _file(self, does: Does, given: Arguments) -> None:
        for at in does.at:
            if not given or at == 0 or at < len(given):
                self._touch(self._text(given, at), does.access)

    def _files(self, does: Does, given: Arguments) -> None:
        for each in given or [[]]:
            options = len(each) > 1 and each[0].kind == "name" and each[1].text in {"=", ":"}
            if not options:
                for path in self._phrases.words(each):
                    self._touch(path, does.access)

    def _touch(self, path: str, access: Access) -> None:
        read = access is Access.READ
        streams = path in _STREAMS or path.startswith("php://")
        if not streams and not (read and (path == HOLE or "://" in path)):
            self._builder.touch(path, access)

    def _variable(self, _does: Does, given: Arguments) -> None:
        name = self._text(given, 0)
        if HOLE in name:
            self._builder.find(*_ENVIRONMENT)
        elif looks_secret(name):
            self._builder.find(Effect.SECRETS, f"reads {name} from the environment")

    def _fetch(self, _does: Does, given: Arguments) -> None:
        host = self._text(given, 0).partition("://")[2].rpartition("@")[2]
        given = given or []
        options = given[-1] if len(given) > 1 or (given and given[0][:1] == _BRACE) else []
        names = [token.text for token in options]
        method = options[names.index("method") + 2 :][:1] if "method" in names else []
        asks = not method or method[0].text in _ASKING
        plain = not options or options[:1] == _BRACE or options[0].kind == "string"
        if not (asks and plain and "body" not in names) and not host.startswith(_LOCAL):
            self._builder.find(*_SENDS)

    def _name(self, does: Does, given: Arguments) -> None:
        named = bool(given) and [t.text for t in given[0][:1]] == [":"] if given else False
        if not named and HOLE in self._text(given, 0):
            self._builder.find(*_UNKNOWN_NAME)
        self._callback(does, given)

    def _callback(self, _does: Does, given: Arguments) -> None:
        for each in given or []:
            does = self._known(self._phrases.text(each))
            if does is not None and does.what != "callback":
                self.do(does, None)


_BRACE: Final = [Token("sign", "{")]
