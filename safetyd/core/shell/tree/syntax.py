"""Parses a command into a syntax tree, and rejects syntax that the parser may misunderstand."""

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
_MOST_READS: Final = 16  # requests of the parser for each chunk; usually two or three
_MOST_OPENED: Final = 1000
_CONTINUING: Final = frozenset(bytes((byte,)) for byte in range(0x80, 0xC0))  # in UTF-8

# Commands without quotes, operators, expansions, globs or line ends, which are split at blanks.
_is_plain = re.compile(r"[A-Za-z0-9_./:@,+%-][A-Za-z0-9_./:=@,+% -]*\Z").match
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
# Keywords, which bash never takes for a program.
RESERVED: Final = word_set("""
    if then elif else fi for while until do done case esac in select function coproc { } [[ ]]
""")
_RESERVED: Final = frozenset(word.encode() for word in RESERVED)
_OF_CASES: Final = frozenset({"case", "in", "esac", ";", "\n"})
SILENT: Final = frozenset({"comment", "heredoc_body", "heredoc_end", "heredoc_start"})
_KEYWORDS: Final = RESERVED | {"export", "declare", "local", "readonly", "typeset", "unset"}
# An escaped blank or line end inside a word, and the nodes in which the parser handles it.
_GOES_ON: Final = re.compile(rb"(?<!\\)(?:\\\\)*(?:\\(?=[ \t])|(?<=[^\s;&|(])\\(?=\n[^\s;&|)]))")
_GOING_ON: Final = word_set("""
    word string string_content raw_string ansi_c_string comment heredoc_body heredoc_content
""")
_quotes = re.compile(rb"[\\'\"]").sub
# tree-sitter-bash 0.25 calls C's isdigit with this character. Above U+00FF, isdigit reads
# invalid memory and may crash the process.
_ends_the_parser = re.compile(rb"\{[0-9]*(?:\.\.[0-9]*)?[\xc4-\xff]").search
# A subscript with a substitution. Arithmetic runs it, even if it is in a variable's value.
counts_by_running = re.compile(r"\w\[[^]]*(?:\$\(|`)").search
_LANGUAGE: Final = Language(tree_sitter_bash.language())
_EXPANSIONS: Final = Query(_LANGUAGE, "(expansion) @expansion")
_DOUBTFUL: Final = Query(_LANGUAGE, "(heredoc_redirect) @heredoc (comment) @comment")


class _Parsing(threading.local):
    """One parser per thread, because reports and decisions parse in different threads."""

    def __init__(self) -> None:
        self.parser = Parser(_LANGUAGE)
        # tree-sitter 0.26 never releases the result of a callback, so every callback returns this.
        self.window = bytearray()


_parsing = _Parsing()


class NotAnalysable(Exception):
    """A command cannot be analysed. The message completes "cannot be analysed: ..."."""


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def plain_words(text: str) -> list[str] | None:
    """Split a command into words. Return None if it contains shell syntax."""
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
        raise NotAnalysable("it contains a brace before a letter that is not Latin")
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
    """Raise for `${x@P}`, which runs the substitutions in the value of a variable."""
    for node in QueryCursor(_EXPANSIONS).captures(root).get("expansion", ()):
        if (node.text or b"").endswith(b"@P}"):
            raise NotAnalysable("it expands a variable as a prompt, which can run commands")


def _check_effort(text: bytes) -> None:
    """Raise for a text that makes the parser backtrack too often."""
    reads, most = 0, _MOST_READS * (len(text) // _CHUNK + 1)
    window = _parsing.window

    def chunk(at: int, _: object) -> bytearray:
        nonlocal reads
        reads += 1
        end = at + _CHUNK
        # The parser requests an incomplete character again. An empty reply would crash the process.
        while text[end : end + 1] in _CONTINUING:
            end += 1
        window[:] = text[at:end] if reads <= most else b""
        return window

    # Many of these make error recovery quadratic, although the parser requests no more chunks.
    tangled = any(text.count(opened) > _MOST_OPENED for opened in (b"${", b"<<", b"|"))
    if not tangled:
        _parsing.parser.parse(chunk)
    if tangled or reads > most:
        raise NotAnalysable("its syntax is too complex")


def check_apart(nodes: Iterable[Node]) -> None:
    """Raise for words without a blank between them, because the parser wrongly split a word."""
    end = -1
    for node in nodes:
        if node.start_byte == end and node.type not in REDIRECTS:
            raise NotAnalysable("it contains an expansion in an unusual place")
        end = node.end_byte


def _check_comment(node: Node, text: bytes) -> None:
    """Raise for a comment that bash would not treat as a comment."""
    if node.start_byte and text[node.start_byte - 1] not in b" \t\n;&|(":
        raise NotAnalysable("it contains a # in an unusual place")


def _check_escapes(root: Node, text: bytes) -> None:
    """Raise for escaped blanks and line ends that the parser treats as blanks between words."""
    for found in _GOES_ON.finditer(text):
        at = found.end() - 1
        node = root.descendant_for_byte_range(at, at)
        if node is None or node.type not in _GOING_ON:
            raise NotAnalysable("it contains an escaped blank or line end between words")


def _check_heredoc(node: Node, text: bytes) -> None:
    """Raise if bash would end a here-document at a different line."""
    parts = {child.type: child for child in node.children}
    start, end = parts["heredoc_start"], parts["heredoc_end"]
    word = _quotes(b"", start.text or b"")
    tabs = rb"\t*" if "<<-" in parts else b""
    begin = text.index(b"\n", start.end_byte)
    found = re.compile(rb"\n" + tabs + b"(" + re.escape(word) + rb")(?=\n|\Z)").search(text, begin)
    if found is None or found.start(1) != end.start_byte:
        raise NotAnalysable("the end of its here-document is ambiguous")


def check(text: str) -> None:
    """Raise for a text that is too long or contains control characters."""
    if len(text) > MAX_BYTES:
        raise NotAnalysable(f"it is longer than {MAX_BYTES // 1024} KiB")
    if found := _CONTROL.search(text):
        raise NotAnalysable(f"it contains the control character U+{ord(found[0]):04X}")


def check_case(node: Node) -> None:
    """Raise for a `case` with adjacent words, or with operators between its branches."""
    parts = [child for child in node.children if child.type != "case_item"]
    check_apart(parts)
    if any(not part.is_named and part.type not in _OF_CASES for part in parts):
        raise NotAnalysable("it contains operators in an unexpected place")


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
