"""The addresses that a proposal contacts: in the words of a call, or in its command."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from safetyd.core.action_types import Kind
from safetyd.core.messages.proposal import Proposal, Target
from safetyd.core.shell.reading import Finding
from safetyd.core.text.folding import forms
from safetyd.core.text.web_addresses import Address, address_of, addresses, port_of

# Types that read the address that their text or target names.
FETCHING: Final = frozenset({"web_fetch", "navigate"})
_READING: Final = frozenset({"read_file", "list_files"})
# The arguments of these calls may be addresses.
_CALLING: Final = frozenset({"mcp_read", "mcp_call"})
_NO_TARGET: Final = Target()
CALLS: Final = FETCHING | _READING | _CALLING
MAX_WORDS: Final = 2000  # of one proposal

# A text without any of these names no address of a kind that a rule is about.
_hints = re.compile(
    r"://|\d|metadata|instance-data|localhost|\.me\b|[^\x00-\x7f]", re.IGNORECASE
).search
_apart = re.compile(r"[\s'\"`<>(){},;|&=]+").split
_apart_in_calls = re.compile(r"[\s'\"`<>(){},;|]+").split
# Programs that run code in their arguments or input, and programs that send requests.
_takes_texts = re.compile(
    r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|R|Rscript|julia|awk|gawk|tclsh|guile"
    r"|curl|wget|https?|xh|xhs|aria2c)[\d.]*(?: |\Z)"
).match
_is_relay = re.compile(
    r"(?:tcp4?:|udp4?:|openssl:|/dev/tcp/|/dev/udp/)([^:/]+)[:/](\d+)", re.IGNORECASE
).match


def contacted(
    proposal: Proposal, kind: Kind, findings: Sequence[Finding] | None
) -> tuple[Address, ...]:
    """Return the addresses that a proposal may contact. `findings` are those in its command.

    Without a command, its type is one of `CALLS`, or unknown.
    """
    if findings is not None:
        return _in_command(proposal.text, findings)
    type_ = kind.type
    if type_ in FETCHING or type_ in _READING:
        return tuple(_said(proposal))
    return (*_said(proposal), *_among(_words(_texts(proposal), _apart_in_calls)))


def _texts(proposal: Proposal) -> Iterator[str]:
    target = proposal.target or _NO_TARGET
    return filter(None, (proposal.text, target.label, target.name, target.url))


def _said(proposal: Proposal) -> Iterator[Address]:
    return addresses(_texts(proposal))


def _in_command(text: str, findings: Sequence[Finding]) -> tuple[Address, ...]:
    """Return the addresses in the words of the programs that do more than print or search text.

    Words with spaces are left out there, so the whole text counts for programs that run code or
    send requests.
    """
    if not _hints(text):
        return ()
    said = list(dict.fromkeys(finding.said for finding in findings if finding.said))
    said += [t.path for f in findings for t in f.touches if t.path.startswith("/dev/")]
    if any(_takes_texts(finding.program) for finding in findings):
        said.append(text)
    return tuple(_among(_words(said, _apart)))


def _words(texts: Iterable[str], apart: Callable[[str], list[str]]) -> Iterator[str]:
    for text in forms(tuple(texts)):
        yield from filter(None, apart(text))


def _among(words: Iterable[str]) -> Iterator[Address]:
    """Yield each word as an address. A number after a word is its port, as in `nc HOST PORT`."""
    before: Address | None = None
    for word in itertools.islice(words, MAX_WORDS):
        port = port_of(word)
        if port is not None and before is not None and before.port is None:
            yield before._replace(port=port)
        before = address_of(_relay(word))
        yield before


def _relay(word: str) -> str:
    """Return the address in `TCP:host:port` and `/dev/tcp/host/port`."""
    if found := _is_relay(word):
        return f"{found[1]}:{found[2]}"
    return word
