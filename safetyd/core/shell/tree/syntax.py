"""Parses a command into a syntax tree, and refuses what the parser may misunderstand."""

import re
import threading
from collections.abc import Iterable
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from safetyd.core.shell.reading import word_set

MAX_BYTES: Final = 64 * 1024

_LONG: Final = 512  # bytes; longer texts are checked before parsing
_CHUNK: Final = 64  # bytes that the parser gets at a time
_MOST_READS: Final = 16  # times that it may request each chunk; two or three are usual
_MOST_OPENED: Final = 1000
_CONTINUING: Final = frozenset(bytes((byte,)) for byte in range(0x80, 0xC0))  # in UTF-8

# No quote, operator, expansion, glob or second line: splitting at blanks is enough.
_is_plain = re.compile(r"[A-Za-z0-9_./:@,+%-][A-Za-z0-9_./:=@,+% -]*\Z").match
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
# Keywords: bash never takes them for a program.
RESERVED: Final = word_set("""
    if then elif else fi for while until do done case esac in select function coproc { } [[ ]]
""")
_RESERVED: Final = frozenset(word.encode() for word in RESERVED)
_OF_CASES: Final = frozenset({"case", "in", "esac", ";", "\n"})
SILENT: Final = frozenset({"comment", "heredoc_body", "heredoc_end", "heredoc_start"})
_KEYWORDS: Final = RESERVED | {"export", "declare", "local", "readonly", "typeset", "unset"}
# A word that continues after an escaped blank or line end, and the nodes that handle it.
_GOES_ON: Final = re.compile(rb"(?<!\\)(?:\\\\)*(?:\\(?=[ \t])|(?<=[^\s;&|(])\\(?=\n[^\s;&|)]))")
_GOING_ON: Final = word_set("""
    word string string_content raw_string ansi_c_string comment heredoc_body heredoc_content
""")
_quotes = re.compile(rb"[\\'\"]").sub
# tree-sitter-bash 0.25 calls C's isdigit with this character: above U+00FF that reads invalid
# memory and may end the process.
_ends_the_parser = re.compile(rb"\{[0-9]*(?:\.\.[0-9]*)?[\xc4-\xff]").search
# A subscript with a substitution: arithmetic runs it, even from the value of a variable.
counts_by_running = re.compile(r"\w\[[^]]*(?:\$\(|`)").search
_LANGUAGE: Final = Language(tree_sitter_bash.language())
_EXPANSIONS: Final = Query(_LANGUAGE, "(expansion) @expansion")
_DOUBTFUL: Final = Query(_LANGUAGE, "(heredoc_redirect) @heredoc (comment) @comment")


class _Parsing(threading.local):
    """A parser for each thread: reports and decisions parse in different threads."""

    def __init__(self) -> None:
        self.parser = Parser(_LANGUAGE)
        # tree-sitter 0.26 never releases what a callback returns, so the callback returns this.
        self.window = bytearray()


_parsing = _Parsing()


class NotAnalysable(Exception):
    """A command cannot be analysed; the message completes "cannot be analysed: ..."."""


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def plain_words(text: str) -> list[str] | None:
    """Split a command without shell syntax into words; return None for others."""
    if not _is_plain(text):
        return None
    words = text.split()
    first = words[0] if words else ""
    return None if not words or "=" in first or first in _KEYWORDS else words


def tree(text: bytes) -> Node:
    """Return the root of the syntax tree."""
    if len(text) > MAX_BYTES:
        raise NotAnalysable(f"it is longer than {MAX_BYTES // 1024} KiB")
    if not text.isascii() and _ends_the_parser(text):
        raise NotAnalysable("a letter that is not Latin follows a brace")
    if len(text) > _LONG:
        _check_effort(text)
    root = _parsing.parser.parse(text).root_node
    if root.has_error:
        raise NotAnalysable("its quotes, brackets or operators do not match")
    if b"\\" in text:
        _check_escapes(root, text)
    if b"@" in text and b"P" in text:
        _check_prompts(root)
    if b"<<" in text or b"#" in text:
        found = QueryCursor(_DOUBTFUL).captures(root)
        for node in found.get("heredoc", ()):
            _check_heredoc(node, text)
        for node in found.get("comment", ()):
            _check_comment(node, text)
    return root


def _check_prompts(root: Node) -> None:
    """Refuse `${x@P}`, which runs the substitutions in the value of a variable."""
    for node in QueryCursor(_EXPANSIONS).captures(root).get("expansion", ()):
        if (node.text or b"").endswith(b"@P}"):
            raise NotAnalysable("it expands a variable as a prompt, which can run commands")


def _check_effort(text: bytes) -> None:
    """Refuse a text that makes the parser backtrack again and again."""
    reads, most = 0, _MOST_READS * (len(text) // _CHUNK + 1)
    window = _parsing.window

    def chunk(at: int, _: object) -> bytearray:
        nonlocal reads
        reads += 1
        end = at + _CHUNK
        # The parser requests a cut character again, and an empty reply would end the process.
        while text[end : end + 1] in _CONTINUING:
            end += 1
        window[:] = text[at:end] if reads <= most else b""
        return window

    # Error recovery is quadratic in the number of these, without more reads.
    tangled = any(text.count(opened) > _MOST_OPENED for opened in (b"${", b"<<", b"|"))
    if not tangled:
        _parsing.parser.parse(chunk)
    if tangled or reads > most:
        raise NotAnalysable("its syntax is too complex")


def check_apart(nodes: Iterable[Node]) -> None:
    """Refuse adjacent words without a blank: they are one word that the parser split."""
    end = -1
    for node in nodes:
        if node.start_byte == end and node.type not in REDIRECTS:
            raise NotAnalysable("it has an expansion in an unusual place")
        end = node.end_byte


def _check_comment(node: Node, text: bytes) -> None:
    """Refuse a comment that bash would not see as one."""
    if node.start_byte and text[node.start_byte - 1] not in b" \t\n;&|(":
        raise NotAnalysable("it has a # in an unusual place")


def _check_escapes(root: Node, text: bytes) -> None:
    """Refuse escaped blanks and line ends that the parser takes for blanks between words."""
    for found in _GOES_ON.finditer(text):
        at = found.end() - 1
        node = root.descendant_for_byte_range(at, at)
        if node is None or node.type not in _GOING_ON:
            raise NotAnalysable("it has an escape between words")


def _check_heredoc(node: Node, text: bytes) -> None:
    """Refuse a here-document that bash would end at another line."""
    parts = {child.type: child for child in node.children}
    start, end = parts["heredoc_start"], parts["heredoc_end"]
    word = _quotes(b"", start.text or b"")
    tabs = rb"\t*" if "<<-" in parts else b""
    begin = text.index(b"\n", start.end_byte)
    found = re.compile(rb"\n" + tabs + b"(" + re.escape(word) + rb")(?=\n|\Z)").search(text, begin)
    if found is None or found.start(1) != end.start_byte:
        raise NotAnalysable("the end of its here-document is ambiguous")


def check(text: str) -> None:
    """Refuse a text that is too long or has control characters."""
    if len(text) > MAX_BYTES:
        raise NotAnalysable(f"it is longer than {MAX_BYTES // 1024} KiB")
    if found := _CONTROL.search(text):
        raise NotAnalysable(f"it has the control character U+{ord(found[0]):04X}")


def check_case(node: Node) -> None:
    """Refuse a `case` with adjacent words, or with operators between its branches."""
    parts = [child for child in node.children if child.type != "case_item"]
    check_apart(parts)
    if any(not part.is_named and part.type not in _OF_CASES for part in parts):
        raise NotAnalysable("it has operators in an unexpected place")


def begins_with_syntax(name: Node) -> bool:
    """Return True if the name of a program is a keyword."""
    said = (name.text or b"").split(None, 1)
    return bool(said) and said[0] in _RESERVED


def operands(node: Node) -> list[tuple[str, Node]]:
    """Return the parts of `a && b || c`, each with the operator before it."""
    parts: list[tuple[str, Node]] = []
    while node.type == "list":
        named = [child for child in node.children if child.is_named and child.type not in SILENT]
        operator = next(child.type for child in node.children if child.type in {"&&", "||"})
        parts += [(operator, child) for child in reversed(named[1:])]
        node = named[0]
    return [("", node), *reversed(parts)]
