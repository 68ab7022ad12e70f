"""Read what the receiving mail server found out about a mail (RFC 8601).

Anyone can write such a header. Only the topmost one with the server's own name counts, because the
server adds it above everything that the sender wrote.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

MAX_CHARS: Final = 10_000

_is_domain = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.?").fullmatch
_service = re.compile(r"\s*([!-:<-~]+)(?:\s+[0-9]+)?\s*").fullmatch
_method = re.compile(r"\s*([A-Za-z0-9-]+)(?:\s*/\s*[0-9]+)?\s*=\s*([A-Za-z]+)(?=\s|$)").match
_quotes = re.compile(r'"[^"\\]*"').sub
_touching = re.compile(r"[^\s;]\(").search
_property = re.compile(
    r'\s+([A-Za-z0-9_.-]+)\s*=\s*(?:"([^"\\]*)"|([^\s"]+))(?=\s|$)'  # `.` also in `header.d`
).match


def dkim_domains(headers: Iterable[str], server: str) -> frozenset[str]:
    """Return the domains whose signature is valid, according to the server of this name.

    `headers` are the Authentication-Results of a mail, topmost first.
    """
    for header in headers:
        parts = list(_parts(header[:MAX_CHARS]))
        named = _service(parts[0])
        if named is not None and named[1].lower() == server.lower():
            if len(header) > MAX_CHARS:
                break
            return frozenset() if _is_odd(header) else _signers(parts[1:])
    return frozenset()


def _signers(results: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(_passed, results)))


def _is_odd(header: str) -> bool:
    """Return True if a server may have copied words of the sender without quoting them.

    Then a comment or a quote is not closed, or a comment touches a value.
    """
    bare = _quotes("", header)
    opened = bare.count("(")
    return '"' in bare or opened != bare.count(")") or bool(_touching(bare))


def is_aligned(sender_domain: str, signing_domain: str) -> bool:
    """Return True if a domain may sign for a sender: it is equal, or a parent with a dot."""
    sender, signing = sender_domain.lower(), signing_domain.lower().rstrip(".")
    return sender == signing or ("." in signing and sender.endswith(f".{signing}"))


def _passed(result: str) -> str:
    """Return the domain of a result such as `dkim=pass header.d=example.com`, if it is one."""
    method = _method(result)
    if method is None or (method[1].lower(), method[2].lower()) != ("dkim", "pass"):
        return ""
    properties: dict[str, str] = {}
    at = method.end()
    while found := _property(result, at):
        name, at = found[1].lower(), found.end()
        if name in properties:
            return ""
        properties[name] = found[2] or found[3] or ""
    if result[at:].strip():
        return ""  # something that this reader does not understand
    identity = properties.get("header.i", "")
    domain = properties.get("header.d") or identity.rpartition("@")[2]
    return domain if _is_domain(domain) else ""


def _parts(header: str) -> Iterator[str]:
    """Yield the parts between semicolons, without comments; quoted text stays as it is."""
    part, depth, quoted, escaped = list[str](), 0, False, False
    for char in header:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif quoted:
            quoted = char != '"'
        elif char == "(":
            depth += 1
        elif char == ")":
            depth = max(0, depth - 1)
            char = " "  # noqa: PLW2901 - a comment separates words
        elif not depth and char == '"':
            quoted = True
        elif not depth and char == ";":
            yield "".join(part)
            part.clear()
            continue
        if not depth:
            part.append(char)
    yield "".join(part)
