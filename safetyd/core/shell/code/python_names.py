"""Resolves names in Python code and evaluates expressions.

A name may have any value that the code binds to it, regardless of order, so that no possible value
is missed.
"""

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from safetyd.core.shell.code.python_calls import CHANGERS, CHANGING, GROWING
from safetyd.core.shell.code.python_values import (
    MAX_CHOICES,
    MAX_ITEMS,
    Content,
    Dotted,
    Items,
    Place,
    Value,
    added,
    attribute,
    below,
    bounded,
    choices,
    dotted,
    either,
    filled,
    flat,
    items,
    joined,
    parent,
    result,
    split_words,
    text,
)
from safetyd.core.shell.reading import HOLE

# This character replaces a hole in the source, because Python cannot parse a null character.
STANDS_FOR_HOLE: Final = "\ue000"
MAX_WORK: Final = 1 << 18  # total characters of templates and command lines that are parsed

# Functions whose result is known, at least in part.
_TEXTS: Final[dict[str, str]] = {
    "os.getcwd": ".",
    "pathlib.Path.cwd": ".",
    "pathlib.Path.home": "~",
    "tempfile.gettempdir": "/tmp",  # noqa: S108
    "tempfile.mkdtemp": f"/tmp/{HOLE}",  # noqa: S108
    "tempfile.mktemp": f"/tmp/{HOLE}",  # noqa: S108
    "tempfile.TemporaryDirectory": f"/tmp/{HOLE}",  # noqa: S108
}
_PATHS: Final = frozenset({"pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"})
_SAME: Final = frozenset(
    f"os.path.{name}" for name in ("abspath", "expanduser", "normpath", "realpath")
) | {"str", "os.fspath", "os.fsdecode", "list", "tuple", "sorted", "reversed", "set"}
_SAME_METHODS: Final = frozenset({"resolve", "absolute", "expanduser", "as_posix", "copy"})
_READERS: Final = frozenset({"read_text", "read_bytes"})
_IMPORTS: Final = frozenset({"__import__", "importlib.import_module", "importlib.__import__"})
_GLOBS: Final = frozenset({"glob.glob", "glob.iglob"})


_BUILTINS: Final = frozenset(dir(builtins))
# Expressions that create a new object.
_FRESH: Final = (
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def _is_imported(values: Sequence[ast.expr | Dotted | None]) -> bool:
    """Return True if a name is bound only by imports."""
    return bool(values) and all(isinstance(value, Dotted) for value in values)


class Names:
    """The names of one piece of code, and the values of its expressions."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self._bound: dict[str, list[ast.expr | Dotted | None]] = defaultdict(list)
        self._stars: list[str] = []
        self._known: dict[int, Value] = {}
        self._under_way: set[str] = set()
        self._named: dict[str, Value] = {}
        self._work = 0
        self.overflows = False  # True if a name has too many possible values
        self._owners: list[
            tuple[ast.expr, bool]
        ] = []  # changed lists; True if items are only added
        self._passed: set[str] = set()  # names of lists that may have a second name
        calls = list[ast.Call]()
        for node in nodes:
            self._bind(node)
            if isinstance(node, ast.Call):
                calls.append(node)
        self._owners += [(arg, False) for call in calls if self._changes(call) for arg in call.args]
        self._grown: set[str] = set()
        self._changed: set[str] = set()
        self._all_changed = False
        for owner, grows in self._owners:
            self._change(owner, grows=grows)

    def rebinds(self, outer: "Names") -> bool:
        """Return True if this code may change a name that `outer`, which runs it, uses."""
        own = {name for name, values in self._bound.items() if not _is_imported(values)}
        return not own.isdisjoint(outer.bound) or not own.isdisjoint(_BUILTINS)

    @property
    def bound(self) -> AbstractSet[str]:
        """The names that the code binds."""
        return self._bound.keys()

    def _changes(self, call: ast.Call) -> bool:
        """Return True for functions that change a list: `list.insert(x, ...)`, `shuffle(x)`."""
        func = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        if not isinstance(func, ast.Name):
            return False
        bound = [value.name for value in self._bound.get(func.id, ()) if isinstance(value, Dotted)]
        return any(name.partition(".")[0] in CHANGERS for name in (func.id, *bound))

    def _change(self, owner: ast.expr, *, grows: bool) -> None:
        """Record that the items of a list change."""
        inner = isinstance(owner, ast.Attribute | ast.Subscript)  # a list inside another object
        while isinstance(owner, ast.Attribute | ast.Subscript):
            owner = owner.value
        values = self._bound.get(owner.id, []) if isinstance(owner, ast.Name) else [None]
        if isinstance(owner, ast.Name) and _is_imported(values) and owner.id != "__main__":
            return
        fresh = all(value is None or isinstance(value, _FRESH) for value in values)
        if inner or not isinstance(owner, ast.Name) or owner.id in self._passed or not fresh:
            self._all_changed = True  # the list may have a second name
        else:
            (self._grown if grows else self._changed).add(owner.id)

    def of(self, node: ast.expr | None) -> Value:
        if node is None:
            return None
        if id(node) not in self._known:
            self._known[id(node)] = self._evaluated(node)
        return self._known[id(node)]

    def dotted(self, node: ast.expr) -> list[str]:
        """Return the dotted names that may be the value of an expression."""
        return [value.name for value in choices(self.of(node)) if isinstance(value, Dotted)]

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    head = alias.name.partition(".")[0]
                    self._bound[alias.asname or head].append(
                        Dotted(alias.name if alias.asname else head)
                    )
            case ast.ImportFrom(module=module, names=aliases):
                self._bind_from(module or "", aliases)
            case ast.Assign(targets=targets, value=value):
                self._assign_all(targets, value)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                self._assign(target, value)
            case ast.Attribute(value=owner, attr=attr):
                if attr in CHANGING or attr in GROWING:
                    self._owners.append((owner, attr in GROWING))
            case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
                self._owners.append((owner, False))
            case _:
                self._bind_other(node)

    def _bind_other(self, node: ast.AST) -> None:
        match node:
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._assign(target, value)
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                self._each(target, source)
            case ast.comprehension(target=target, iter=source):
                self._each(target, source)
            case ast.AugAssign(target=ast.Name(id=name)):
                self._bound[name].append(None)
            case ast.arg(arg=name):
                self._bound[name].append(None)
                self._passed.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._bound[name].append(None)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str() as name):
                self._bound[name].append(None)
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                self._bound[name].append(None)

    def _bind_from(self, module: str, aliases: list[ast.alias]) -> None:
        for alias in aliases:
            if alias.name == "*":
                self._stars.append(module)
            else:
                known = dotted(f"{module}.{alias.name}")
                self._bound[alias.asname or alias.name].append(
                    known if isinstance(known, Dotted) else None
                )

    def _assign_all(self, targets: list[ast.expr], value: ast.expr) -> None:
        for target in targets:
            self._assign(target, value)
        if len(targets) > 1:  # `a = b = []`
            self._passed |= {target.id for target in targets if isinstance(target, ast.Name)}

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._bound[name].append(value)
            case ast.Tuple(elts=left), ast.Tuple(elts=right) if len(left) == len(right):
                for one, other in zip(left, right, strict=True):
                    self._assign(one, other)
            case _:
                self._forget(target)

    def _each(self, target: ast.expr, source: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._bound[name].append(ast.Subscript(value=source, slice=ast.Slice()))
            case ast.Tuple(elts=[*parts]) if isinstance(source, ast.Call):  # as in `os.walk`
                for number, part in enumerate(parts):
                    one = ast.Subscript(value=source, slice=ast.Slice())
                    self._assign(part, ast.Subscript(value=one, slice=ast.Constant(number)))
            case _:
                self._forget(target)

    def _forget(self, target: ast.expr) -> None:
        nodes = list(ast.walk(target))
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            if isinstance(node, ast.Name) and id(node) not in called:
                self._bound[node.id].append(None)

    def _evaluated(self, node: ast.expr) -> Value:  # noqa: PLR0911
        match node:
            case ast.Constant(value=str() as text):
                return bounded(text.replace(STANDS_FOR_HOLE, HOLE))
            case ast.Constant(value=bytes() as data):
                return bounded(data.decode("latin-1"))
            case ast.Constant(value=None | bool() | 0 as known):
                return Dotted(str(known))
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=owner, attr=attr):
                return self._either(attribute(value, attr) for value in choices(self.of(owner)))
            case ast.Call():
                return self._either(
                    self._called(value, node) for value in choices(self.of(node.func))
                )
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return items(tuple(flat(self.of(element)) for element in elements[: MAX_ITEMS + 1]))
            case _:
                return self._composed(node)

    def _composed(self, node: ast.expr) -> Value:  # noqa: PLR0911
        match node:
            case ast.JoinedStr(values=parts):
                return bounded("".join(text(self.of(part)) for part in parts))
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self.of(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return added(self.of(left), self.of(right))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return below(self.of(left), self.of(right))
            case ast.BinOp(left=left, op=ast.Mod()):
                return filled(self._affordable(self.of(left)), "%")
            case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, other]):
                return self._either([self.of(one), self.of(other)])
            case ast.Subscript(value=owner, slice=index):
                return self._either(self._item(value, index) for value in choices(self.of(owner)))
            case ast.Await(value=value) | ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.of(value)
        return None

    def _either(self, values: Iterable[Value]) -> Value:
        known = [one for value in values for one in choices(value)]
        if len(known) > MAX_CHOICES:
            named = {one.name for one in known if isinstance(one, Dotted)}
            self.overflows = self.overflows or len(named) > MAX_CHOICES
        return either(known)

    def _name(self, name: str) -> Value:
        if name not in self._bound:
            self.overflows = self.overflows or len(self._stars) > MAX_CHOICES
            stars = self._stars[:MAX_CHOICES]
            return self._either([Dotted(name), *(dotted(f"{star}.{name}") for star in stars)])
        if name in self._under_way:
            return None
        if name not in self._named:
            self._under_way.add(name)
            self._named[name] = self._either(
                value if isinstance(value, Dotted) else self.of(value)
                for value in self._bound[name]
            )
            self._under_way.discard(name)
            if self._all_changed or name in self._changed or name in self._grown:
                self._named[name] = self._after_changes(name, self._named[name])
        return self._named[name]

    def _after_changes(self, name: str, value: Value) -> Value:
        """Return the value of a name whose items the code changes."""
        grown = not self._all_changed and name not in self._changed
        return self._either(
            one if not isinstance(one, Items) else items((*one.values, None)) if grown else None
            for one in choices(value)
        )

    def _item(self, owner: Value, index: ast.expr) -> Value:  # noqa: PLR0911
        match owner, index:
            case Items(values=values), ast.Slice():
                return self._either(values)
            case Items(values=values), ast.Constant(value=int() as number):
                return values[number] if -len(values) <= number < len(values) else None
            case Dotted(name="os.environ"), ast.Constant(value="HOME"):
                return "~"
            case Dotted(name="sys.modules"), _:
                return dotted(text(self.of(index)))
            case Dotted(name=name), ast.Constant(value=str() as key):
                return dotted(f"{name.removesuffix('.__dict__')}.{key}")
            case Place() | Dotted(), ast.Slice():
                return owner
            case _:
                return None

    def _called(self, callee: Value, node: ast.Call) -> Value:
        match callee:
            case Dotted(name=name):
                return self._given_by(name, node)
            case Place(path=path) if isinstance(node.func, ast.Attribute):
                return self._of_place(path, node.func.attr, node)
            case None if isinstance(node.func, ast.Attribute):
                return self._of_text(self.of(node.func.value), node.func.attr, node)
            case _:
                return None

    def _given_by(self, name: str, node: ast.Call) -> Value:  # noqa: PLR0911
        parts = [self.of(arg) for arg in node.args]
        first = parts[0] if parts else None
        match name:
            case _ if name in _TEXTS:
                known = _TEXTS[name]
                return Place(known) if name.startswith("pathlib.") else known
            case _ if name in _PATHS:
                return Place(joined(parts) if parts else ".")
            case "os.path.join":
                return joined(parts)
            case "os.path.dirname":
                return parent(text(first))
            case "compile":
                return first
            case _ if name in _SAME and len(parts) == 1:
                return text(first) if isinstance(first, Place) else first
            case _:
                return self._other_given_by(name, parts, first)

    def _other_given_by(self, name: str, parts: list[Value], first: Value) -> Value:  # noqa: PLR0911
        match name:
            case _ if name in _IMPORTS:
                return dotted(text(first))
            case _ if name in _GLOBS and len(parts) == 1:
                return Items((text(first),))
            case "os.listdir" | "os.scandir" | "os.walk":
                return _listed(name, text(first))
            case "os.getenv" | "os.environ.get" if first == "HOME":
                return "~"
            case "getattr" if len(parts) > 1 and isinstance(parts[1], str):
                name = parts[1]
                return self._either(attribute(value, name) for value in choices(first))
            case "vars" if isinstance(first, Dotted):
                return Dotted(f"{first.name}.__dict__")
            case "shlex.split":
                return split_words(self._affordable(first))
            case "open" if parts:
                return Dotted(f"open:{text(first)}")
            case "dict" if first == Dotted("os.environ"):
                return first
            case _:
                return result(name)

    def _affordable(self, value: Value) -> str:
        """Return the text of a value, or a hole if the limit of parsed text is exceeded."""
        known = text(value)
        self._work += len(known)
        return known if self._work <= MAX_WORK else HOLE

    def _of_place(self, path: str, method: str, node: ast.Call) -> Value:  # noqa: PLR0911
        parts = [self.of(arg) for arg in node.args]
        if method in _SAME_METHODS:
            return Place(path)
        if method == "joinpath":
            return Place(joined([path, *parts]))
        if method in _READERS:
            return Content(path)
        if method == "iterdir":
            return Items((Place(f"{path}/*"),))
        if method == "glob" and parts:
            return Items((Place(f"{path}/{text(parts[0])}"),))
        if method == "rglob" and parts:
            return Items((Place(f"{path}/**/{text(parts[0])}"),))
        return None

    def _of_text(self, owner: Value, method: str, node: ast.Call) -> Value:
        parts = [self.of(arg) for arg in node.args]
        match owner, method, parts:
            case str(), "format", _:
                return filled(self._affordable(owner), "{")
            case str(), "split", []:
                return items(tuple(owner.split()))
            case str(), "split", [str() as separator] if separator:
                return items(tuple(owner.split(separator)))
            case str(), "encode" | "decode" | "strip", _:
                return owner
            case str(), "join", [Items(values=values)]:
                return bounded(owner.join(map(text, values)))
            case _:
                return None


def _listed(function: str, folder: str) -> Value:
    """Return the files in a folder as patterns."""
    names = Items(("*",))
    match function:
        case "os.listdir":
            return names
        case "os.scandir":
            return Items((Place(f"{folder}/*"),))
        case _:
            return Items((Items((f"{folder}/**", names, names)),))
