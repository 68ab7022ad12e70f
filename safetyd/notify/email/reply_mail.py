"""Read a mail that may be a reply to a message. Everything in it may be hostile.

Only the first line of the text counts, and only if it is a word and a code. Only the first part of
a mail is decoded, so that nested parts cost nothing.
"""

import base64
import quopri
import re
from collections.abc import Iterator, Sequence
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from typing import Final, NamedTuple

from safetyd.notify.code_replies import CodeAnswer
from safetyd.notify.email.mail_addresses import is_address
from safetyd.notify.sanitize import one_line

MAX_BYTES: Final = 256 * 1024
MAX_HEADER_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 500
MAX_DEPTH: Final = 5  # nested parts
MAX_TEXT_BYTES: Final = 64 * 1024
MAX_IDS: Final = 20  # ids of earlier mails, nearest first
ADDRESS_CHARS: Final = 1000
SUBJECT_CHARS: Final = 150

_APPROVES: Final = frozenset({"approve", "yes", "a"})
_MIXED: Final = frozenset(
    {"multipart/alternative", "multipart/mixed", "multipart/related", "multipart/signed"}
)
_PRECEDENCES: Final = frozenset({"bulk", "junk", "list", "auto_reply"})
_ROBOTS: Final = frozenset({"mailer-daemon", "postmaster", "noreply", "no-reply"})
# Headers of automatic mails. Any header that begins with `list-` counts too.
_AUTOMATIC: Final = frozenset({"x-autoreply", "x-autorespond", "x-failed-recipients"})

_header = re.compile(r"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL).fullmatch
_answer = re.compile(
    r"(approve|yes|a|deny|no|d)[ \t\u00a0]+([0-9]{4,6})[.!]?", re.ASCII | re.IGNORECASE
).fullmatch
_ids = re.compile(r"<([!-;=?A-~]{1,400}@[!-;=?A-~]{1,255})>").findall
_named_address = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^"<>@,:;]*)\s*<([^<>]*)>').fullmatch
_is_forward = re.compile(r"\s*(?:fwd?|wg|tr|rv)\s*:", re.IGNORECASE).match
_is_charset = re.compile(
    r"us-ascii|ascii|utf-?8|iso-8859-[0-9]{1,2}|latin-?1|windows-125[0-8]|cp125[0-8]|koi8-[ru]"
    r"|gb2312|gbk|gb18030|big5|shift_jis|euc-jp|euc-kr|iso-2022-jp",
    re.IGNORECASE,
).fullmatch


class Headers:
    """The headers of a mail or of a part."""

    def __init__(self, block: bytes) -> None:
        self.malformed = len(block) > MAX_HEADER_BYTES
        self._found: dict[str, list[str]] = {}
        lines = _unfolded(block[:MAX_HEADER_BYTES].decode("utf-8", "replace"))
        for count, line in enumerate(lines):
            found = _header(line)
            if found is None or count >= MAX_HEADERS:
                self.malformed = True
                break
            self._found.setdefault(found[1].lower(), []).append(found[2].strip())

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def all(self, name: str) -> Sequence[str]:
        """Return the values of a header, topmost first."""
        return self._found.get(name, ())

    def one(self, name: str, default: str = "") -> str | None:
        """Return the value of a header; None if there are several."""
        values = self.all(name)
        return None if len(values) > 1 else next(iter(values), default)


class ReplyMail(NamedTuple):
    sender: str  # the address in the only From header; empty: there is no such address
    refers_to: tuple[str, ...]  # the ids of earlier mails, nearest first
    automatic: bool
    said: CodeAnswer | None  # None: not understood
    results: tuple[str, ...]  # Authentication-Results, topmost first
    id: str
    subject: str


def read_reply(raw: bytes, size: int) -> ReplyMail:
    """Read a mail; `raw` is the beginning of it, and `size` the size of the whole mail."""
    block, body = _split(raw[:MAX_BYTES])
    headers = Headers(block)
    readable = size <= MAX_BYTES and not headers.malformed
    return ReplyMail(
        sender=_sender(headers),
        refers_to=tuple(_earlier(headers)),
        automatic=_is_automatic(headers),
        said=_said(headers, body) if readable else None,
        results=tuple(headers.all("authentication-results")),
        id=next(iter(_ids(headers.one("message-id") or "")), ""),
        subject=_subject(headers),
    )


def answer_in(text: str) -> CodeAnswer | None:
    """Return the answer in the first line of a text; None if it is unclear."""
    lines = [line.strip() for line in re.split(r"\r\n|\r|\n", text)]
    own = (n for n, line in enumerate(lines) if line and not line.startswith(">"))
    first = next(own, 0)
    found = _answer(lines[first])
    if found is None:
        return None
    below = lines[first + 1 :]
    if below and below[0] and not below[0].startswith((">", "--")):
        return None  # the sentence may go on
    meant = _meaning(found)
    others = filter(None, map(_answer, below))
    return meant if all(_meaning(other) == meant for other in others) else None


def _meaning(found: re.Match[str]) -> CodeAnswer:
    return CodeAnswer(approve=found[1].lower() in _APPROVES, code=found[2])


def _said(headers: Headers, body: bytes) -> CodeAnswer | None:
    forwarded = _is_forward(_subject(headers)) or any(
        name.startswith(("resent-", "x-forwarded-")) for name in headers
    )
    text = None if forwarded else _first_text(headers, body)
    return None if text is None else answer_in(text)


def _first_text(headers: Headers, body: bytes) -> str | None:
    """Return the text of the first part, if it is a plain text."""
    for _ in range(MAX_DEPTH):
        kind = headers.one("content-type", "text/plain")
        disposition = headers.one("content-disposition", "inline")
        if headers.malformed or kind is None or disposition is None:
            return None
        if disposition.strip().lower().startswith("attachment"):
            return None
        message = Message()
        message["Content-Type"] = kind
        if message.get_content_type() == "text/plain":
            return _decoded(headers, message, body)
        boundary = message.get_boundary()
        if message.get_content_type() not in _MIXED or not boundary:
            return None
        part = _first_part(body, boundary)
        if part is None:
            return None
        block, body = _split(part)
        headers = Headers(block)
    return None


def _first_part(body: bytes, boundary: str) -> bytes | None:
    delimiter = re.escape(b"--" + boundary.encode("ascii", "replace"))
    begin = re.search(rb"(?:^|\n)" + delimiter + rb"[ \t]*\r?\n", body)
    if begin is None:
        return None
    end = re.compile(rb"(?:^|\n)" + delimiter + rb"(?:--)?[ \t]*\r?(?:\n|$)").search(
        body, begin.end() - 1
    )
    return None if end is None else body[begin.end() : end.start()]


def _decoded(headers: Headers, message: Message, body: bytes) -> str | None:
    charset = message.get_content_charset("us-ascii")
    if not _is_charset(str(charset)):
        return None
    coding = (headers.one("content-transfer-encoding", "7bit") or "").lower()
    content = body[:MAX_TEXT_BYTES]
    try:
        if coding == "base64":
            content = base64.b64decode(b"".join(content.split()))
        elif coding == "quoted-printable":
            content = quopri.decodestring(content)
        elif coding not in {"7bit", "8bit", "binary"}:
            return None
        return content.decode(charset, "replace")
    except (ValueError, LookupError):  # also `binascii.Error`
        return None


def _sender(headers: Headers) -> str:
    value = headers.one("from") or ""
    if len(value) > ADDRESS_CHARS:
        return ""
    named = _named_address(value)
    address = (named[1] if named else value).strip()
    return address if is_address(address) else ""


def _earlier(headers: Headers) -> Iterator[str]:
    direct = _ids(headers.one("in-reply-to") or "")[:1]
    chain = _ids(headers.one("references") or "")[-MAX_IDS:]
    yield from dict.fromkeys((*direct, *reversed(chain)))


def _is_automatic(headers: Headers) -> bool:
    submitted = {value.partition(";")[0].strip().lower() for value in headers.all("auto-submitted")}
    precedence = {value.lower() for value in headers.all("precedence")}
    kinds = "".join(headers.all("content-type")).lower()
    return bool(
        submitted - {"no"}
        or precedence & _PRECEDENCES
        or any(name.startswith("list-") or name in _AUTOMATIC for name in headers)
        or any(value.replace(" ", "") == "<>" for value in headers.all("return-path"))
        or kinds.startswith(("multipart/report", "message/"))
        or _sender(headers).partition("@")[0].lower() in _ROBOTS
    )


def _subject(headers: Headers) -> str:
    value = (headers.one("subject") or "")[:ADDRESS_CHARS]
    try:
        value = str(make_header(decode_header(value)))
    except (MessageError, ValueError, LookupError):
        value = ""
    return one_line(value, SUBJECT_CHARS)


def _unfolded(block: str) -> Iterator[str]:
    """Yield each header; its continued lines are joined to it."""
    line = ""
    for row in block.replace("\r\n", "\n").split("\n"):
        if row[:1] in {" ", "\t"} and line:
            line += row
            continue
        if line:
            yield line
        line = row
    if line:
        yield line


def _split(mail: bytes) -> tuple[bytes, bytes]:
    """Return the headers and the body of a mail or a part."""
    if mail[:1] == b"\n" or mail[:2] == b"\r\n":
        return b"", mail.partition(b"\n")[2]
    end = re.search(rb"\r?\n\r?\n", mail)
    return (mail, b"") if end is None else (mail[: end.start()], mail[end.end() :])
