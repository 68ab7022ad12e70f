"""Words of a command after expansion, with `HOLE` for parts only known at run time."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tree_sitter import Node

from safetyd.core.shell.reading import HOLE
from safetyd.core.shell.tree.syntax import NotAnalysable, text_of

MAX_BRACES: Final = 64  # words to which a single word may expand

# The origin of the text in a hole. `_TRUST` orders origins by trust.
KNOWN: Final = ""
COMMAND: Final = "command"  # the output of a local command
VARIABLE: Final = "variable"  # the value of a variable that the command does not set
NAME: Final = "name"  # a generated name of a commit or container, which never starts with a dash
PROJECT: Final = "project"  # the content of a file of the project
SETUP: Final = "setup"  # the output of a tool that sets up a shell, such as `brew shellenv`
LIST: Final = "list"  # the elements of an array: any number of words, even in quotes
DECODED: Final = "decoded"  # encoded text, such as base64
NETWORK: Final = "network"
_ORIGINS: Final = (KNOWN, NAME, SETUP, VARIABLE, PROJECT, COMMAND, LIST, DECODED, NETWORK)
_TRUST: Final = {origin: rank for rank, origin in enumerate(_ORIGINS)}

_ANSI: Final = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_ansi_escape = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
).sub
_in_quotes = re.compile(r'\\([$`"\\])').sub
_secret = re.compile("secret|token|passw|credential|private|key|auth", re.IGNORECASE).search
_GLOBS: Final = re.compile(r"[*?[]|[@+!]\(")
_SPECIAL: Final = {"?": "0", "#": "0", "$": "$$", "!": "$!", "-": HOLE, "_": HOLE, "0": HOLE}
_PLACES: Final = {"HOME": "~", "PWD": ".", "TMPDIR": "/tmp"}  # noqa: S108 - where it leads


# Stand-ins for literal braces and commas while brace lists are expanded.
_GUARDED: Final = str.maketrans("{,}", "\ue000\ue001\ue002")
_FREED: Final = str.maketrans("\ue000\ue001\ue002", "{,}")
_is_simple = re.compile(r"[A-Za-z0-9_./:=@,+%~^-]+\Z").match  # without any expansion
_SEQUENCE: Final = re.compile(r"\{[^{},]+\.\.[^{},]+\}")
# An expansion that the parser missed in literal text.
_is_overlooked = re.compile(r"(?:[^\\]|\\.)*?(?:`|\$[({\[])", re.DOTALL).match

# Characters at which bash splits expansions, unless IFS names others.
_BLANKS: Final = " \t\n"
_at_blanks = re.compile(f"[^{_BLANKS}]+").findall
# `${x:=y}` sets x, and `${!x:=y}` sets the variable that x names.
sets_by_default = re.compile(r"\$\{(!?)(\w+)(?:\[[^]]*\])?:?=").match
_counts = re.compile(r"[^=!<>]=(?!=)|(?:<<|>>)=|\+\+|--").search
_names_in = re.compile(r"[A-Za-z_]\w*").findall

_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_EXPANSIONS: Final = _SUBSTITUTIONS | {"simple_expansion", "expansion", "arithmetic_expansion"}
_LEAVES: Final = frozenset({"word", "raw_string"})
_QUOTED: Final = frozenset({"string", "translated_string", "raw_string", "ansi_c_string"})
_LITERAL: Final = frozenset(
    {"brace_expression", "variable_name", "test_operator", "regex", "extglob_pattern"}
)


class Flow(NamedTuple):
    """Text that passes between commands: its content, if known, and its origin."""

    text: str | None = None
    origin: str = COMMAND
    matched: bool = False  # as in a word


NOTHING: Final = Flow("", KNOWN)
UNKNOWN_TEXT: Final = Flow(None, COMMAND)
DOWNLOADED: Final = Flow(None, NETWORK)


def least_trusted(origins: Sequence[str]) -> str:
    return max(origins, key=_TRUST.__getitem__, default=KNOWN)


def mixed(origins: Sequence[str]) -> str:
    """Return the origin of joined texts. With other text, the setup of a shell is no longer one."""
    return least_trusted([*origins, COMMAND] if SETUP in origins else origins)


def together(printed: Sequence[Flow]) -> Flow:
    """Return the outputs of several commands joined."""
    if not printed:
        return NOTHING
    if len(printed) == 1:
        return printed[0]
    origin = mixed([flow.origin for flow in printed])
    if any(flow.text is None for flow in printed):
        return Flow(None, origin)
    return Flow("".join(flow.text or "" for flow in printed), origin)


class Word(NamedTuple):
    text: str  # with a HOLE for unknown parts
    start: int  # position in the text, in bytes
    end: int
    origin: str = KNOWN  # the origin of the text in its holes
    quoted: bool = False  # True if the word is quoted, completely or in part
    globs: bool = False  # True if the word is a file name pattern
    inner: int = -1  # where its text starts in the command; -1 if it is not there literally
    matched: bool = False  # its text is a pattern, but the word means one matching file

    def with_text(self, text: str) -> "Word":
        """Return the word with another text that does not appear literally in the command."""
        return self._replace(text=text, inner=-1)

    @property
    def known(self) -> bool:
        return HOLE not in self.text

    @property
    def fixed(self) -> bool:
        """True if the word is completely known and not a pattern."""
        return HOLE not in self.text and not self.globs


def as_one(words: Sequence[Word]) -> Word:
    """Join words into the text that `eval` or `ssh` passes to a shell."""
    text = " ".join([word.text for word in words])
    origin = least_trusted([word.origin for word in words])
    inner = words[0].inner if len(words) == 1 else -1
    return Word(text, words[0].start, words[-1].end, origin, inner=inner)


class Piece(NamedTuple):
    text: str
    quoted: bool = False
    splits: bool = False  # it is split at blanks, because it results from an expansion
    origin: str = KNOWN
    matched: bool = False  # as in a word


class Values(NamedTuple):
    """The inputs of expansions: variables and callbacks."""

    variables: Mapping[str, Flow]
    run: Callable[[Node], Flow]  # runs a substitution
    spend: Callable[[int], None]  # called with the number of characters of an expansion
    change: Callable[[str], None]  # called with a variable that an expansion changes, or ""


def expand(node: Node, values: Values) -> list[Word]:
    """Return the words to which a node expands, usually one."""
    while node.type == "command_name" and node.child_count == 1:
        node = node.children[0]
    if not node.child_count and node.type in _LEAVES:
        text, start = text_of(node), node.start_byte
        if text[0] == "'":
            inner = start + 1 if len(text) > len("''") else -1
            return [Word(text[1:-1], start, node.end_byte, quoted=True, inner=inner)]
        if _is_simple(text):
            return [Word(text, start, node.end_byte, inner=start)]
    pieces = list(_pieces(node, values, quoted=False))
    if any("{" in piece.text and not piece.quoted and not piece.splits for piece in pieces):
        word = _word([_guarded(piece) for piece in pieces], node)
        return [word._replace(text=each.translate(_FREED)) for each in braces(word.text)]
    return [_word(group, node) for group in _split(pieces)]


def joined(node: Node, values: Values) -> Word:
    """Return the expansion of a node as one word, as in an assignment."""
    return _word(list(_pieces(node, values, quoted=False)), node)


def body(node: Node, values: Values) -> Flow:
    """Return the text of a here-document after expansion."""
    pieces = list(_inside(node, values, _in_quotes_text))
    return Flow("".join(p.text for p in pieces), least_trusted([p.origin for p in pieces]))


def _guarded(piece: Piece) -> Piece:
    """Protect quoted or expanded text from brace expansion."""
    literal = piece.quoted or piece.splits
    return piece._replace(text=piece.text.translate(_GUARDED)) if literal else piece


def _word(pieces: Sequence[Piece], node: Node) -> Word:
    start, end = node.start_byte, node.end_byte
    if len(pieces) == 1:
        text, quoted, _, origin, matched = pieces[0]
        at = (node.text or b"").find(text.encode("utf-8", "replace")) if text else -1
        globs = not quoted and _GLOBS.search(text) is not None
        return Word(text, start, end, origin, quoted, globs, start + at if at >= 0 else -1, matched)
    text = "".join([piece.text for piece in pieces])
    quoted = any(piece.quoted for piece in pieces)
    globs = any(not piece.quoted and _GLOBS.search(piece.text) for piece in pieces)
    matched = any(piece.matched for piece in pieces)
    origin = least_trusted([piece.origin for piece in pieces])
    return Word(text, start, end, origin, quoted, globs, -1, matched)


def _split(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Split unquoted expansions at blanks."""
    if not any(piece.splits for piece in pieces):
        yield list(pieces)
        return
    group: list[Piece] = []
    for piece in pieces:
        if not piece.splits:
            group.append(piece)
            continue
        parts = _at_blanks(piece.text)
        if group and parts and piece.text[0] in _BLANKS:
            yield group
            group = []
        for number, part in enumerate(parts):
            if number:
                yield group
                group = []
            group.append(piece._replace(text=part))
        if parts and piece.text[-1] in _BLANKS:
            yield group
            group = []
    if group:
        yield group


def _pieces(node: Node, values: Values, *, quoted: bool) -> Iterator[Piece]:
    kind = node.type
    if kind in _QUOTED:
        yield from _quoted(node, values)
    elif kind in {"word", "number"} and not node.children:
        yield from _bare(_one_line(text_of(node)))
    elif kind in {"concatenation", "command_name", "word", "number"}:
        for child in node.children:
            yield from _pieces(child, values, quoted=quoted)
    elif kind == "simple_expansion":
        yield _variable(text_of(node)[1:], values, quoted=quoted)
    elif kind == "expansion":
        yield _parameter(node, values, quoted=quoted)
    elif kind in _SUBSTITUTIONS:
        yield _piece(values.run(node), values, quoted=quoted or kind == "process_substitution")
    else:
        run_inside(node, values)
        literal = kind in _LITERAL
        if not literal and _counts(text_of(node)):
            for name in _names_in(text_of(node)):
                values.change(name)
        yield Piece(text_of(node)) if literal else Piece(HOLE, origin=COMMAND)


def _quoted(node: Node, values: Values) -> Iterator[Piece]:
    if node.type == "raw_string":
        yield Piece(text_of(node)[1:-1], quoted=True)
    elif node.type == "ansi_c_string":
        yield Piece(_ansi_escape(_unescaped, text_of(node)[2:-1]), quoted=True)
    else:
        yield from _inside(node, values, _in_quotes_text)


def run_inside(node: Node, values: Values, *, overlooked: bool = False) -> None:
    """Run every substitution below a node."""
    for child in node.children:
        if child.type in _SUBSTITUTIONS:
            values.run(child)
        elif child.children:
            run_inside(child, values, overlooked=overlooked)
        elif overlooked and child.is_named:
            _literal(text_of(child))


def _literal(text: str) -> str:
    """Return literal text. Raise if it contains an expansion that the parser missed."""
    if "`" not in text and "$" not in text:
        return text
    if "$\\\n" in text or _is_overlooked(text):
        raise NotAnalysable("it contains an expansion in an unusual place")
    return text


def _one_line(text: str) -> str:
    """Return an unquoted word. Raise if it contains a line end, which is a parser error."""
    if "\n" in text and "\n" in text.replace("\\\n", ""):
        raise NotAnalysable("a line ends in an unusual place")
    return _literal(text)


def _inside(node: Node, values: Values, literal: Callable[[str], str]) -> Iterator[Piece]:
    """Yield the pieces between quotes. Text between the nodes of the tree is literal."""
    source = node.text or b""
    at = 0
    end = len(source)
    if node.type == "translated_string":
        node = node.children[-1]
        source = node.text or b""
        end = len(source)
    if node.type == "string":
        at, end = 1, end - 1
    for child in node.children:
        if child.type not in _EXPANSIONS:
            continue
        begin = child.start_byte - node.start_byte
        text = _literal(source[at:begin].decode("utf-8", "replace"))
        yield Piece(literal(text), quoted=True)
        yield from _pieces(child, values, quoted=True)
        at = child.end_byte - node.start_byte
    text = _literal(source[at:end].decode("utf-8", "replace"))
    yield Piece(literal(text), quoted=True)


def _in_quotes_text(text: str) -> str:
    return _in_quotes(r"\1", text.replace("\\\n", ""))


def _bare(text: str) -> Iterator[Piece]:
    """Yield the pieces of an unquoted word. Escaped characters become quoted pieces."""
    if "\\" not in text:
        yield Piece(text)
        return
    at = 0
    while (found := text.find("\\", at)) >= 0:
        if found > at:
            yield Piece(text[at:found])
        yield Piece(text[found + 1 : found + 2].strip("\n"), quoted=True)
        at = found + 2
    if at < len(text):
        yield Piece(text[at:])


def _variable(name: str, values: Values, *, quoted: bool) -> Piece:
    known = values.variables.get(name)
    if name == "*" and quoted and "IFS" in values.variables:
        return Piece(HOLE, quoted=True, origin=COMMAND)  # joined with the first character of IFS
    if known is not None:
        return _piece(known, values, quoted=quoted and name not in {"@", "*"})
    if name in _PLACES:
        return Piece(_PLACES[name], quoted=quoted)
    if name in _SPECIAL:
        return Piece(_SPECIAL[name], quoted=quoted)
    return Piece(HOLE, quoted=quoted, origin=COMMAND if _secret(name) else VARIABLE)


def _parameter(node: Node, values: Values, *, quoted: bool) -> Piece:
    """Return the value of `${...}`. With an operator, as in `${x%y}`, it is unknown."""
    run_inside(node, values, overlooked=True)
    if setting := sets_by_default(text_of(node)):
        values.change("" if setting[1] else setting[2])
    inner = text_of(node)[2:-1]
    if inner.isidentifier() or inner in {"@", "*"} or inner.isdecimal():
        return _variable(inner, values, quoted=quoted)
    if inner.endswith("[@]"):
        known = values.variables.get(inner.removesuffix("[@]"))
        plain = known and known.text and HOLE not in known.text and " -" not in f" {known.text}"
        return Piece(HOLE, quoted=quoted, origin=NAME if plain else LIST)
    return Piece(HOLE, quoted=quoted, origin=COMMAND)


def _piece(flow: Flow, values: Values, *, quoted: bool) -> Piece:
    if flow.text is None:
        return Piece(HOLE, quoted=quoted, origin=flow.origin)
    values.spend(len(flow.text))
    text = flow.text.rstrip("\n")
    if not quoted and _is_split_otherwise(text, values.variables.get("IFS")):
        return Piece(HOLE, origin=flow.origin or COMMAND)
    origin = flow.origin if HOLE in text else KNOWN
    return Piece(text, quoted=quoted, splits=not quoted, origin=origin, matched=flow.matched)


def _is_split_otherwise(text: str, separators: Flow | None) -> bool:
    """Return True if IFS makes bash split a text in another way than at blanks."""
    if separators is None:
        return False
    if separators.text is None or HOLE in separators.text:
        return True
    usual = bool(separators.text) and not separators.text.strip(_BLANKS)
    return not usual and not set(text).isdisjoint((*separators.text, *_BLANKS))


def _unescaped(found: re.Match[str]) -> str:
    given = found[1]
    if given[0] in "xuU" and len(given) > 1:
        number = int(given[1:], 16)
        return chr(number) if 0 < number <= sys.maxunicode else HOLE
    if given[0] in "01234567":
        return chr(int(given, 8) & 0xFF) if int(given, 8) else HOLE
    if given[0] == "c" and len(given) > 1:
        return HOLE
    return _ANSI.get(given, given)


def braces(text: str) -> list[str]:
    """Expand `{a,b}`. If there are too many results, return a single hole."""
    done: list[str] = []
    todo = [_SEQUENCE.sub(HOLE, text)]
    while todo:
        each = todo.pop()
        found = _innermost(each)
        if found is None:
            done.append(each)
        else:
            begin, end = found
            choices = each[begin + 1 : end].split(",")
            todo += [each[:begin] + choice + each[end + 1 :] for choice in reversed(choices)]
        if len(done) + len(todo) > MAX_BRACES:
            return [HOLE]
    return done


def _innermost(text: str) -> tuple[int, int] | None:
    """Return the position of the first innermost braces with a comma."""
    begin, comma = -1, False
    for at, char in enumerate(text):
        if char == "{":
            begin, comma = at, False
        elif char == "," and begin >= 0:
            comma = True
        elif char == "}" and begin >= 0:
            if comma:
                return begin, at
            begin = -1
    return None
