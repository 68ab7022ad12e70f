"""Interpreters: code in arguments, files or input."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from safetyd.core.shell import places, rows
from safetyd.core.shell.addresses import is_local
from safetyd.core.shell.code.javascript_code import read_javascript
from safetyd.core.shell.code.one_liners import read_one_liner
from safetyd.core.shell.code.python_code import read_python
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.readers.deletions import run_code
from safetyd.core.shell.reading import HOLE, RUNS_FILE, Code, Effect, each, word_set
from safetyd.core.shell.words import DECODED, NETWORK, Word

_MODULE: Final = "-m"
_VERBOSE: Final = frozenset({"-v"})  # these interpreters print their version, then run the script
_SERVES: Final = frozenset({"-S"})
_TESTS: Final = frozenset({"--test"})
_PACKAGES: Final = ("npm:", "jsr:")
# Scripts in a project that are programs of a framework.
_FRAMEWORKS: Final = frozenset({"manage.py", "setup.py", "artisan"})
# A plain separator for `perl -F`. Perl runs text after the closing delimiter as code.
_is_separator = re.compile(r"([/\"']?)[\w\s,:;|.\\+*^=\[\]-]*\1").fullmatch


class Language(NamedTuple):
    """The relevant options of an interpreter."""

    name: str
    code: frozenset[str] = frozenset()  # options whose value is code
    valued: frozenset[str] = frozenset()  # options with a value, in the same word or the next
    attached: str = ""  # letters whose value is the rest of the word
    # Letters whose value consists of these characters.
    digits: Mapping[str, str] = MappingProxyType({})
    loads: frozenset[str] = frozenset()  # options whose value is a module or file that runs first
    informs: frozenset[str] = frozenset()  # options that only print information or check syntax
    long: bool = False  # long options may start with a single hyphen
    edits: bool = False  # `-i` changes the files in place


def _language(  # noqa: PLR0913 - most have few of them
    name: str,
    code: str = "",
    valued: str = "",
    loads: str = "",
    *,
    informs: str = "",
    attached: str = "",
    digits: Mapping[str, str] = MappingProxyType({}),
    long: bool = False,
    edits: bool = False,
) -> Language:
    return Language(
        name,
        word_set(code),
        word_set(f"{valued} {loads}"),
        attached,
        digits,
        word_set(loads),
        word_set(f"{informs} --version --help -h"),
        long,
        edits,
    )


_PYTHON: Final = _language(
    "python", "-c", "-W -X -m --check-hash-based-pycs", informs="-V -VV --help-all"
)
_NODE: Final = _language(
    "javascript",
    "-e --eval -p --print -pe",
    "-C --conditions --env-file --max-old-space-size --test-name-pattern --test-reporter",
    "-r --require --import --loader --experimental-loader",
    informs="-v -c --check --v8-options",
)
_PERL: Final = _language(
    "perl",
    "-e -E",
    attached="iIMmFDx",
    digits={"0": "01234567xX", "l": "01234567", "C": "IOEioADSLa0123456789"},
    informs="-v -V",
    edits=True,
)
_RUBY: Final = _language(
    "ruby",
    "-e",
    "-C -E -I --encoding",
    "-r",
    attached="iFx",
    digits={"0": "01234567", "W": "012", "T": "01234", "K": "EeSsUuNnAa"},
    informs="-v -c",
    edits=True,
)
_PHP: Final = _language(
    "php",
    "-r -R -B -E --run",
    "-d -c -z -t -S --define --php-ini",
    "-f --file",
    informs="-v -i -m -l --ini --info --modules --syntax-check --rf --rc",
)
_LUA: Final = _language("lua", "-e", "", "-l", informs="-v")
_R: Final = _language("r", "-e", "-g", "-f --file", informs="--version")
_JULIA: Final = _language(
    "julia",
    "-e -E --eval --print",
    "-p -t -C -J --project --threads --procs",
    "-L --load",
    informs="-v",
)
_TCL: Final = _language("tcl")
_APPLE: Final = _language("applescript", "-e", "-l -s")
_GROOVY: Final = _language("groovy", "-e -ne -pe", "-cp -classpath", informs="-v", long=True)
_ELIXIR: Final = _language(
    "elixir",
    "-e --eval --rpc-eval",
    "-pa -pz --name --sname --cookie",
    "-r -pr --require",
    informs="-v",
)
_LISP: Final = _language(
    "lisp", "-e -c --eval -eval", "-I -L", "-l -s --load --script", informs="-v", long=True
)
_HASKELL: Final = _language("haskell", "-e", "-i -package", long=True)

# Options that open a prompt after the code, or a debugger.
_OPENS_PROMPT: Final = {
    **each(word_set("-i"), "python lua julia"),
    "javascript": word_set("-i --interactive"),
    "perl": word_set("-d"),
}

LANGUAGES: Final = {
    **each(_PYTHON, "python pypy ipython pythonw"),
    **each(_NODE, "node nodejs tsx ts-node bun deno"),
    "perl": _PERL,
    "ruby": _RUBY,
    "jruby": _RUBY,
    "php": _PHP,
    "lua": _LUA,
    "luajit": _LUA,
    "Rscript": _R,
    "R": _R,
    "julia": _JULIA,
    "tclsh": _TCL,
    "wish": _TCL,
    "expect": _TCL,
    "osascript": _APPLE,
    "groovy": _GROOVY,
    "scala": _GROOVY,
    "elixir": _ELIXIR,
    "iex": _ELIXIR,
    "runghc": _HASKELL,
    "runhaskell": _HASKELL,
    **each(_LISP, "guile racket sbcl clojure clj ocaml"),
}


class Given:
    """The parsed arguments of an interpreter."""

    def __init__(self, language: Language, words: list[Word]) -> None:
        self.codes: list[Word] = []
        self.options: list[tuple[str, Word | None]] = []
        self.module: Word | None = None
        self.script: Word | None = None
        self.arguments: list[Word] = []
        self._language = language
        self._words = words
        self._take_apart()

    def _take_apart(self) -> None:
        language = self._language
        while self._words:
            word = self._words.pop(0)
            text = word.text
            if text in {"-", "--"} or not text.startswith("-"):
                if text not in {"-", "--"}:
                    self._words.insert(0, word)
                break
            if text in language.code or text in language.valued:
                self._option(text, self._next())
            elif text.startswith("--") or language.long:
                name, equals, value = text.partition("=")
                self._option(name, word.with_text(value) if equals else None)
            else:
                self._letters(word)
            if self.module or (self.codes and language.name == "python"):
                break
        if not self.codes and self.module is None and self._words:
            self.script = self._words.pop(0)
        self.arguments = self._words

    def _letters(self, word: Word) -> None:
        language, rest = self._language, word.text[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            option = f"-{letter}"
            rest = rest.lstrip(language.digits.get(letter, ""))
            value = word.with_text(rest)
            if option in language.code or option in language.valued:
                self._option(option, value if rest else self._next())
                return
            if letter in language.attached:
                self.options.append((option, value))
                return
            self.options.append((option, None))

    def _option(self, name: str, value: Word | None) -> None:
        if value is not None and name in self._language.code:
            self.codes.append(value)
        elif value is not None and name == _MODULE and self._language.name == "python":
            self.module = value
        else:
            self.options.append((name, value))

    def _next(self) -> Word | None:
        return self._words.pop(0) if self._words else None

    def has(self, names: frozenset[str]) -> bool:
        return any(name in names for name, _ in self.options)


def read_interpreter(inv: Invocation) -> None:
    """Analyse the code, script or input of an interpreter."""
    run(inv, LANGUAGES[inv.call.program.name.rstrip("0123456789.")], list(inv.call.words))


def read_deno(inv: Invocation) -> None:
    """Analyse `deno eval CODE` and `deno run FILE`. The row covers other verbs."""
    call, script = inv.call, inv.call.arguments[1:2]
    if call.verb == "eval" and script and not call.asks_help:
        inv.named = "deno eval"
        _code(inv, _NODE, script[0])
    elif call.verb == "run" and script and not script[0].text.startswith(_PACKAGES):
        inv.named = "deno run"
        _script(inv, _NODE, script[0], call.arguments[2:])
    else:
        rows.apply(inv)


def run(inv: Invocation, language: Language, words: list[Word]) -> None:
    given = Given(language, words)
    if _prompts(inv, language, given):
        inv.found_open_input()
    _load(inv, language, given)
    for code in given.codes:
        _code(inv, language, code)
    verbose = (
        _VERBOSE if given.script is not None and language.name in {"ruby", "lua"} else frozenset()
    )
    if given.has(language.informs - verbose):
        inv.found(Effect.READ, "prints its version or checks syntax")
        inv.reads(*([given.script] if given.script else []))
    elif given.module is not None:
        run_module(inv, given.module, given.arguments)
    elif given.script is not None:
        _script(inv, language, given.script, given.arguments)
    elif given.codes:
        _arguments(inv, language, given)
    elif language.name == "javascript" and given.has(_TESTS):
        inv.found(Effect.WORK, "runs the project's tests", type="run_tests")
    elif language.name == "php" and given.has(_SERVES):
        inv.found(Effect.WORK, "serves the project's pages")
    else:
        _from_input(inv, language)


def _prompts(inv: Invocation, language: Language, given: Given) -> bool:
    """Return True if the interpreter opens a prompt besides running code."""
    if not (given.script or given.codes or given.module):
        return False  # see _from_input
    options = _OPENS_PROMPT.get(language.name, frozenset[str]())
    debugs = language.name == "javascript" and given.script and given.script.text == "inspect"
    return bool(debugs) or inv.call.name == "iex" or given.has(options)


def _load(inv: Invocation, language: Language, given: Given) -> None:
    """Record modules that run before the code. A module without a path belongs to the project."""
    for name, value in given.options:
        if value is None:
            continue
        if name in language.loads and value.text.startswith("data:"):
            inv.runs_unknown(DECODED, "code")
        elif name in language.loads and value.text.startswith(("/", "~", ".", HOLE, "http")):
            inv.script(value, f"{inv.call.name} {name}")
        elif name in {"-M", "-m"} and language.name == "perl":
            inv.found(Effect.UNKNOWN, "loads a module that is not analysed")
        elif name == "-F" and language.name == "perl" and not _is_separator(value.text):
            inv.found(Effect.UNKNOWN, "splits fields with an expression that can run code")
        elif name in {"-d", "--define"} and language.name == "php":
            inv.found(
                Effect.UNKNOWN,
                "changes PHP settings, which can make it load code",
                remedy="without `-d`",
            )
        elif name == "-S" and language.name == "php" and not _is_bound(value.text):
            inv.found(Effect.LEAVES, "serves local files to other machines", type="open_port")


def _is_bound(address: str) -> bool:
    """Return True if a port is open to this machine only."""
    return is_local(address) and not address.startswith(("0.", "[::]", "::"))


def _arguments(inv: Invocation, language: Language, given: Given) -> None:
    if language.edits and any(name == "-i" for name, _ in given.options):
        for word in given.arguments:
            inv.writes(word, "changes")
    else:
        inv.reads(*given.arguments)
    if language.name == "perl" and any(set(word.text) & set("|>") for word in given.arguments):
        inv.found(Effect.UNKNOWN, "has a file name that Perl may run as a program")


def _script(inv: Invocation, language: Language, script: Word, arguments: list[Word]) -> None:
    name = script.text.rpartition("/")[2]
    if name in _FRAMEWORKS and inv.runner.knows(name):
        program = script.with_text(name)
        inv.runner.program([program, *arguments], inv.command, inv.scope, inv.call.name)
    elif script.text.startswith(("http://", "https://")):
        inv.runs_unknown(NETWORK, "a script")
    else:
        inv.script(script, inv.call.name, _reader(inv, language, script))
        inv.reads(*arguments)


def run_module(inv: Invocation, module: Word, arguments: list[Word]) -> None:
    """Analyse `python -m MODULE`: a program of the table, or a module of the project."""
    names = (f"python -m {module.text}", module.text, module.text.replace("_", "-"))
    name = next((name for name in names if inv.runner.knows(name)), None)
    if name is not None:
        program = module.with_text(name)
        inv.output = inv.runner.program(
            [program, *arguments], inv.command, inv.scope, f"{inv.call.name} -m"
        )
    elif module.text.partition(".")[0] in inv.runner.listed("python_modules"):
        why = f"runs {visible(module.text)}, a module of Python that is not in the table"
        inv.found(Effect.UNKNOWN, why)
    elif module.known and inv.scope.place(".").kind == places.INSIDE:
        why = f"runs {visible(module.text)}, a module of the project"
        inv.found(Effect.WORK, why, traits=RUNS_FILE)
        inv.reads(*arguments)
    else:
        inv.runs_unknown(module.origin, "a module")


def _code(inv: Invocation, language: Language, word: Word) -> None:
    if word.origin in {NETWORK, DECODED} or not word.text.replace(HOLE, "").strip():
        inv.runs_unknown(word.origin, "code")
    else:
        _reader(inv, language, word)(word.text)


def _read(language: Language, source: str) -> Code:
    if language.name == "python":
        return read_python(source)
    if language.name == "javascript":
        return read_javascript(source)
    return read_one_liner(source, language.name)


def _reader(inv: Invocation, language: Language, word: Word) -> Callable[[str], None]:
    def read(source: str) -> None:
        inv.found(Effect.WORK, "runs code")
        run_code(inv, _read(language, source), word, inv.call.name)

    return read


def _from_input(inv: Invocation, language: Language) -> None:
    """Analyse the input of an interpreter."""
    given = inv.stdin
    if given is None:
        why = "opens an interactive prompt"
        remedy = "with the code written out"
        inv.found(Effect.UNKNOWN, why, remedy=remedy, traits=("open_input",))
    elif given.text is not None and given.origin not in {NETWORK, DECODED}:
        word = inv.command.words[0]._replace(text=given.text, inner=-1, origin=given.origin)
        _code(inv, language, word)
    else:
        inv.runs_unknown_input(given)
