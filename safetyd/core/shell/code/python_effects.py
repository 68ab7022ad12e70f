"""The effects of calls in Python code, by function name and arguments."""

import shlex
from collections.abc import Callable
from typing import Final, NamedTuple

from safetyd.core.shell.addresses import is_local, scheme
from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.code.python_calls import (
    ASKING,
    BODIES,
    CONNECTORS,
    EVALUATED,
    FILES,
    FINDINGS,
    HTTP,
    LOOKUPS,
    METHODS,
    MODULES,
    NAMESPACES,
    NETWORK,
    OPENERS,
    RUNNERS,
    RUNNING_MODULES,
    SAVERS,
    SENDING,
    SHELLS,
    SUBPROCESS,
    FileParameter,
)
from safetyd.core.shell.code.python_services import service_call
from safetyd.core.shell.code.python_values import (
    Content,
    Dotted,
    Items,
    Place,
    Value,
    choices,
    text,
)
from safetyd.core.shell.reading import HOLE, Access, Effect, each

_UNKNOWN_CODE: Final = "evaluates text that is only known at run time"
_DOWNLOADED_CODE: Final = "downloads and runs other code"
_HIDDEN_NAME: Final = "calls a function whose name is only known at run time"
_SENDS: Final = "sends data to another machine"
_CONNECTS: Final = "opens a connection to another machine"
_ENVIRONMENT_SHOWN: Final = "prints all environment variables"
_STORED_OBJECTS: Final = "deserialises objects, which can run arbitrary code"

_ENVIRONMENT: Final = frozenset({Dotted("os.environ"), Dotted("os.environ.copy()")})
_TRUE, _FALSE, _NOTHING, _ZERO = map(Dotted, ("True", "False", "None", "0"))
_PRINTS: Final = frozenset(
    {"print", "str", "repr", "format", "json.dumps", "json.dump", "pprint.pprint", "pprint.pformat"}
)
_IMPORTS: Final = ("__import__", "importlib.import_module", "importlib.__import__")
_SAFE_LOADERS: Final = frozenset({"yaml.SafeLoader", "yaml.CSafeLoader", "yaml.BaseLoader"})
_INTERPRETERS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "python", "python3"})
_PROFILERS: Final = (
    *("cProfile", "profile", "pdb", "trace.Trace()", "bdb.Bdb()", "pdb.Pdb()"),
    *("cProfile.Profile()", "profile.Profile()"),
)
_RUNNING: Final = ("run", "runctx", "runeval")
_HIDING: Final = frozenset({"system", "popen", "exec", "eval", "run", "call", "Popen", "rmtree"})


_SETTING: Final = ("update", "setdefault", "pop", "clear", "__setitem__", "__ior__")


def is_evaluated(owner: Value) -> bool:
    """Return True for a module or namespace whose content the analysis relies on."""
    return isinstance(owner, Dotted) and (owner.name in EVALUATED or owner.name in NAMESPACES)


class Arguments(NamedTuple):
    """The arguments of a call. `more` is True if there may be further, unknown arguments."""

    values: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    more: bool = True

    def of(self, position: int, keyword: str) -> Value:
        if position < len(self.values):
            return self.values[position]
        return next((value for name, value in self.keywords if name == keyword), None)

    def has(self, position: int, keyword: str) -> bool:
        named = any(name == keyword for name, _ in self.keywords)
        return self.more or named or position < len(self.values)

    def texts(self, position: int, keyword: str) -> list[str]:
        return [text(value) for value in choices(self.of(position, keyword))]


# Names of methods that run a shell script, on any object.
_SHELLING: Final = frozenset({"system", "popen", "getoutput", "getstatusoutput"})


class PythonEffects:
    """Records the effects of calls in a `CodeBuilder`."""

    def __init__(self, builder: CodeBuilder, run_source: Callable[[str], None]) -> None:
        self._builder = builder
        self._run_source = run_source
        self._special: dict[str, Callable[[Arguments], None]] = {
            **each(self._source, "exec eval"),
            **each(self._timed, "timeit.timeit timeit.repeat timeit.Timer"),
            **dict.fromkeys(
                [f"{module}.{name}" for module in _PROFILERS for name in _RUNNING],
                lambda given: self._statement(given.of(0, "statement")),
            ),
            **each(self._edited, "fileinput.input fileinput.FileInput"),
            "venv.create": self._environment,
            "venv.EnvBuilder": self._environment_builder,
            **dict.fromkeys(_IMPORTS, self._import),
            **each(self._variable, "os.getenv os.environ.get os.environ.pop"),
            **each(self._pip, "pip.main pip._internal.main"),
            **each(self._getter, "operator.attrgetter operator.methodcaller"),
            **each(self._urllib_request, "urllib.request.urlopen urllib.request.Request"),
            **each(self._own_script, "runpy.run_path execfile"),
            "importlib.util.spec_from_file_location": lambda given: self._own_script(
                Arguments(given.values[1:], given.keywords, given.more)
            ),
            "runpy.run_module": self._own_module,
            "os.kill": self._kill,
            "getattr": self._getattr,
            "pty.spawn": lambda given: self._program(given.of(0, "argv")),
            "distutils.spawn.spawn": lambda given: self._program(given.of(0, "cmd")),
            **each(self._set_attribute, "setattr delattr object.__setattr__ type.__setattr__"),
            **dict.fromkeys(
                [f"{space}.{name}" for space in NAMESPACES for name in _SETTING],
                lambda _: self.changes_names(),
            ),
            **dict.fromkeys(LOOKUPS, self._look_up),
            "asyncio.create_subprocess_exec": self._spread,
            "yaml.load": self._yaml,
            "torch.load": self._torch,
        }

    def knows(self, name: str) -> bool:
        """Return True if even a reference to a function counts as a call."""
        return (
            name in self._special
            or name in SUBPROCESS
            or any(name in table for table in (FILES, OPENERS, SHELLS, RUNNERS, FINDINGS))
        )

    def show(self, value: Value) -> None:
        if value in _ENVIRONMENT:
            self._builder.find(Effect.SECRETS, _ENVIRONMENT_SHOWN)

    def call(self, name: str, given: Arguments) -> None:
        head, _, _ = name.partition(".")
        method = name.rpartition(".")[2]
        if name in _PRINTS:
            for value in given.values:
                self.show(value)
        elif name in self._special:
            self._special[name](given)
        elif name in FINDINGS:
            self._builder.find(*FINDINGS[name])
        elif self._touches_or_runs(name, given):
            return
        elif head in HTTP:
            self._http(method, given)
        elif head == "sh" and method != name:
            self._builder.command(*name.split(".")[1:], *map(text, given.values))
        elif found := MODULES.get(head) or MODULES.get(".".join(name.split(".")[:2])):
            self._builder.find(*found)
        elif "." in name:
            self._of_service(name, given)
            self.method(HOLE, method, given, named=True)

    def _of_service(self, name: str, given: Arguments) -> None:
        if ("trust_remote_code", _TRUE) in given.keywords:
            self._builder.find(Effect.UNKNOWN, _DOWNLOADED_CODE)
        first = given.values[0] if given.values else None
        for found in service_call(name, first if isinstance(first, str) else None):
            self._builder.find(*found)

    def method(self, path: str, method: str, given: Arguments, *, named: bool = False) -> None:
        """Record a method call on an object that is, or may be, a path."""
        if path == HOLE and not named:
            self._of_service(f".{method}", given)
        alone = len(given.values) == 1 and not given.keywords
        if method == "open":
            self._open_path(path, given)
        elif method in METHODS and (alone or method not in {"replace", "rename"}):
            access, files = METHODS[method]
            self._builder.touch(path, access)
            self._files(files, given)
        elif path == HOLE and method in _SHELLING and given.values:
            for command in given.texts(0, "command"):
                self._builder.shell(command)
        elif method in SAVERS:
            for value in choices(given.of(0, "path")):
                if isinstance(value, str | Place):
                    self._builder.touch(text(value), Access.WRITE)

    def _touches_or_runs(self, name: str, given: Arguments) -> bool:
        if name in FILES:
            self._files(FILES[name], given)
        elif name in OPENERS:
            access = _access(given.of(*OPENERS[name])) if given.has(*OPENERS[name]) else Access.READ
            self._files(((0, "file", access),), given)
        elif name in SHELLS:
            for command in given.texts(*SHELLS[name]):
                self._builder.shell(command)
        elif name in SUBPROCESS:
            self._subprocess(given)
        elif name in RUNNERS:
            self._runner(*RUNNERS[name], given)
        elif name in CONNECTORS:
            if not _is_local(given.of(*CONNECTORS[name])):
                self._builder.find(Effect.LEAVES, _CONNECTS)
        else:
            return False
        return True

    def _files(self, files: tuple[FileParameter, ...], given: Arguments) -> None:
        for position, keyword, access in files:
            if given.has(position, keyword):
                for path in given.texts(position, keyword):
                    self._builder.touch(path, access)

    def _open_path(self, path: str, given: Arguments) -> None:
        mode = given.of(0, "mode")
        if path != HOLE:
            self._builder.touch(path, _access(mode) if given.has(0, "mode") else Access.READ)
        elif isinstance(mode, str) and len(mode) <= len("rb+") and _access(mode) is Access.WRITE:
            self._builder.touch(HOLE, Access.WRITE)

    def _subprocess(self, given: Arguments) -> None:
        program = given.of(0, "args")
        shell = given.of(8, "shell")
        for value in choices(program):
            if given.has(8, "shell") and shell != _FALSE:
                first = value.values[0] if isinstance(value, Items) and value.values else value
                self._builder.shell(text(first))
            else:
                self._program(value)
        if any(name == "executable" for name, _ in given.keywords):
            self._builder.command(text(given.of(2, "executable")), HOLE)
        if any(name == "input" for name, _ in given.keywords):
            self._fed(program, text(given.of(99, "input")))

    def _fed(self, program: Value, fed: str) -> None:
        """Record the input of an interpreter."""
        words = _words(program)
        if words[0].rpartition("/")[2] in _INTERPRETERS:
            self._builder.shell(f"{shlex.join(words)} <<'END_OF_INPUT'\n{fed}\nEND_OF_INPUT\n")

    def _program(self, value: Value) -> None:
        for one in choices(value):
            self._builder.command(*_words(one))

    def _spread(self, given: Arguments) -> None:
        words = [text(value) for value in given.values]
        self._builder.command(*words, *([HOLE] if given.more else []))

    def _runner(self, position: int, spread: bool, given: Arguments) -> None:  # noqa: FBT001
        program = text(given.of(position, "path"))
        if spread:
            rest = [text(value) for value in given.values[position + 2 :]]
        else:
            rest = _words(given.of(position + 1, "argv"))[1:] or [HOLE]
        self._builder.command(program, *rest)

    def _pip(self, given: Arguments) -> None:
        self._builder.command("pip", *_words(given.of(0, "args")))

    def _own_script(self, given: Arguments) -> None:
        for path in given.texts(0, "path_name"):
            self._builder.command("python3", path)

    def _own_module(self, given: Arguments) -> None:
        for module in given.texts(0, "mod_name"):
            self._builder.command("python3", "-m", module)

    def _source(self, given: Arguments) -> None:
        for value in choices(given.of(0, "source")):
            match value:
                case str() if HOLE not in value:
                    self._run_source(value)
                case Content(path=path) if HOLE not in path:
                    self._builder.command("python3", path)
                case Dotted(name=name) if name.partition(".")[0] in NETWORK:
                    self._builder.find(Effect.UNKNOWN, _DOWNLOADED_CODE)
                case _:
                    self._builder.find(Effect.UNKNOWN, _UNKNOWN_CODE)

    def _timed(self, given: Arguments) -> None:
        self._statement(given.of(0, "stmt"))
        self._statement(given.of(1, "setup"))

    def _statement(self, statement: Value) -> None:
        for value in choices(statement):
            if isinstance(value, str | Content):
                self._source(Arguments((value,)))

    def _edited(self, given: Arguments) -> None:
        """Record files that are read, or changed in place."""
        inplace = given.has(1, "inplace") and given.of(1, "inplace") not in {_FALSE, _ZERO}
        files = given.of(0, "files")
        for path in _words(files) if files != _NOTHING else []:
            self._builder.touch(path, Access.WRITE if inplace else Access.READ)

    def _environment(self, given: Arguments) -> None:
        clear = given.has(2, "clear") and given.of(2, "clear") != _FALSE
        self._files(((0, "env_dir", Access.DELETE if clear else Access.WRITE),), given)

    def _environment_builder(self, given: Arguments) -> None:
        if given.has(1, "clear") and given.of(1, "clear") != _FALSE:
            self._builder.find(Effect.IRREVERSIBLE, "deletes the contents of a folder")

    def _import(self, given: Arguments) -> None:
        if any(HOLE in name for name in given.texts(0, "name")):
            self._builder.find(Effect.UNKNOWN, "imports a module that is only known at run time")

    def _getattr(self, given: Arguments) -> None:
        hidden = HOLE in text(given.of(1, "name"))
        for owner in choices(given.of(0, "object")):
            if hidden and isinstance(owner, Dotted) and owner.name in RUNNING_MODULES:
                self._builder.find(Effect.UNKNOWN, _HIDDEN_NAME)

    def changes_names(self) -> None:
        """Record that code changes variables or functions in a way that is not analysed."""
        self._builder.find(Effect.UNKNOWN, "changes variables or functions by their names")

    def _set_attribute(self, given: Arguments) -> None:
        if any(is_evaluated(owner) for owner in choices(given.of(0, "obj"))):
            self.changes_names()

    def _getter(self, given: Arguments) -> None:
        name = text(given.of(0, "attr"))
        if HOLE in name or name.rpartition(".")[2] in _HIDING:
            self._builder.find(Effect.UNKNOWN, _HIDDEN_NAME)

    def _variable(self, given: Arguments) -> None:
        for name in given.texts(0, "key"):
            self._builder.variable(name)

    def _kill(self, given: Arguments) -> None:
        oneself = given.of(0, "pid") == Dotted("os.getpid()")
        if not oneself and given.of(1, "signal") != _ZERO:
            self._builder.find(Effect.IRREVERSIBLE, "kills processes")

    def _yaml(self, given: Arguments) -> None:
        loader = given.of(1, "Loader")
        if not isinstance(loader, Dotted) or loader.name not in _SAFE_LOADERS:
            self._builder.find(Effect.UNKNOWN, _STORED_OBJECTS)

    def _torch(self, given: Arguments) -> None:
        if given.of(99, "weights_only") == _FALSE:
            self._builder.find(Effect.UNKNOWN, _STORED_OBJECTS)

    def _urllib_request(self, given: Arguments) -> None:
        data = given.has(1, "data") and given.of(1, "data") != _NOTHING
        asks = text(given.of(5, "method")) in {*ASKING, HOLE}
        if (data or not asks) and not _is_local(given.of(0, "url")):
            self._builder.find(Effect.LEAVES, _SENDS)
        self._builder.ask(text(given.of(0, "url")))

    def _look_up(self, given: Arguments) -> None:
        self._builder.ask(text(given.of(0, "host")))

    def _http(self, method: str, given: Arguments) -> None:
        asks = method not in SENDING
        url = given.of(0, "url")
        if method in {"request", "stream"}:
            asks = text(given.of(0, "method")).upper() in ASKING
            url = given.of(1, "url")
        self._builder.ask(text(url))
        sends = any(name in BODIES for name, _ in given.keywords)
        if (sends or not asks) and not _is_local(url):
            self._builder.find(Effect.LEAVES, _SENDS)
        deletes = method == "delete" or text(given.of(0, "method")).upper() == "DELETE"
        if deletes and _is_local(url):
            self._builder.find(Effect.IRREVERSIBLE, "deletes data of a local service")


def _access(mode: Value) -> Access:
    """Return the access of an open mode. An unknown mode counts as writing."""
    if mode == Dotted("os.O_RDONLY"):
        return Access.READ
    return Access.WRITE if set(text(mode)) & {"w", "a", "x", "+", HOLE} else Access.READ


def _words(program: Value) -> list[str]:
    """Return a program and its arguments. There is always at least one word."""
    match program:
        case Items(values=values) if values:
            return [text(value) for value in values]
        case _:
            return [text(program)]


def _is_local(address: Value) -> bool:
    """Return True for a local address or a file URL."""
    if isinstance(address, Items) and address.values:
        address = address.values[0]
    return scheme(text(address)) == "file" or is_local(text(address))
