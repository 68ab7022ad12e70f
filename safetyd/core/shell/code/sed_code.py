"""Analyses sed scripts by their grammar.

sed writes the files that its commands name, and runs the text after `e`. A hole counts as text that
is not a command.
"""

from typing import Final

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.reading import HOLE, Access, Code, Effect

_BLANKS: Final = " \t"
_BETWEEN: Final = " \t\n;"
_DIGITS: Final = "0123456789"
_TEXTS: Final = frozenset("aic")
_WORDS: Final = frozenset(":btTv")
_FILES: Final = {"r": Access.READ, "R": Access.READ, "w": Access.WRITE, "W": Access.WRITE}
_NUMBERED: Final = frozenset("qQlL")
_PLAIN: Final = frozenset("{=dDgGhHnNpPxzF")
_FLAGS: Final = frozenset("gpiImM" + _DIGITS + _BLANKS)
# Characters that cannot delimit a regular expression.
_NO_SIGNS: Final = frozenset({"", "\n", "\\", "[", "]", HOLE})


class _Unreadable(Exception):
    """The text is not a valid sed script."""


def read_sed(script: str) -> Code:
    builder = CodeBuilder()
    try:
        _Script(script, builder).read()
    except _Unreadable:
        builder.find(Effect.UNKNOWN, "cannot be analysed: it is not a valid sed script")
    return builder.code()


class _Script:
    def __init__(self, script: str, builder: CodeBuilder) -> None:
        self._text = script
        self._at = 0
        self._builder = builder

    def read(self) -> None:
        while self._skip(_BETWEEN + "}") < len(self._text):
            if self._text[self._at] == "#":
                self._line()
            else:
                self._addresses()
                self._command()

    def _addresses(self) -> None:
        while self._address():
            self._skip(_BLANKS)
            if self._peek() != ",":
                break
            self._at += 1
            self._skip(_BLANKS)
        self._skip(_BLANKS + "!")

    def _address(self) -> bool:
        char = self._peek()
        if char == "$":
            self._at += 1
        elif char in {"/", "\\"}:
            self._at += 1 if char == "/" else 2
            self._until(self._text[self._at - 1 : self._at], brackets=True)
            self._skip("IM")
        elif char and char in _DIGITS + "+~":
            self._skip(_DIGITS + "+~")
        else:
            return False
        return True

    def _command(self) -> None:
        name = self._peek()
        self._at += 1
        if name == "s":
            self._substitution()
        elif name == "y":
            self._pair(brackets=False)
        elif name in _FILES:
            self._file(_FILES[name])
        elif name == "e":
            self._run(self._line().strip())
        elif name in _TEXTS:
            self._inserted()
        elif name in _WORDS:
            self._skip(_BLANKS)
            self._word()
        elif name in _NUMBERED:
            self._skip(_BLANKS + _DIGITS)
        elif not name or name not in _PLAIN:
            raise _Unreadable

    def _run(self, command: str) -> None:
        if command:
            self._builder.shell(command)
        else:
            self._builder.find(Effect.UNKNOWN, "runs its input lines as commands")

    def _substitution(self) -> None:
        self._pair(brackets=True)
        while flag := self._peek():
            self._at += 1
            if flag == "w":
                self._file(Access.WRITE)
            elif flag == "e":
                self._builder.find(Effect.UNKNOWN, "runs the replaced text as commands")
            elif flag not in _FLAGS:
                self._at -= 1
                return

    def _pair(self, *, brackets: bool) -> None:
        """Skip two texts between three equal delimiters."""
        sign = self._peek()
        self._at += 1
        self._until(sign, brackets=brackets)
        self._until(sign, brackets=False)

    def _until(self, sign: str, *, brackets: bool) -> None:
        """Skip a text and its delimiter, ignoring delimiters in brackets."""
        if sign in _NO_SIGNS:
            raise _Unreadable
        while char := self._peek():
            self._at += 1
            if char == sign:
                return
            if char == "\\":
                self._at += 1
            elif char == "[" and brackets:
                self._bracket()
        raise _Unreadable

    def _bracket(self) -> None:
        """Skip a bracket expression, where a backslash or a leading `]` is a plain character."""
        self._at += self._peek() == "^"
        self._at += self._peek() == "]"
        while (char := self._peek()) != "]":
            self._at += 1
            inner = self._peek()
            if char == "[" and inner and inner in ":.=":
                char = self._class(f"{inner}]")
            if not char:
                raise _Unreadable
        self._at += 1

    def _class(self, end: str) -> str:
        """Skip a character class such as `[:space:]`, and return its end."""
        found = self._text.find(end, self._at + 1)
        self._at = found + len(end)
        return end if found >= 0 else ""

    def _file(self, access: Access) -> None:
        path = self._line().strip(_BLANKS)
        if not path:
            raise _Unreadable
        self._builder.touch(path, access)

    def _inserted(self) -> None:
        """Skip an inserted text, which continues on the next line after a backslash."""
        line = self._line()
        while line.endswith("\\") and self._at < len(self._text):
            line = self._line()

    def _line(self) -> str:
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        line = self._text[self._at : end]
        self._at = end + 1
        return line

    def _word(self) -> None:
        while (char := self._peek()) and char not in _BETWEEN + "}":
            self._at += 1

    def _skip(self, signs: str) -> int:
        while (char := self._peek()) and char in signs:
            self._at += 1
        return self._at

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]
