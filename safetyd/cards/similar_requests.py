"""Groups similar requests, so that a message shows them as one entry.

Requests are similar if they come from the same agent, for the same reasons, and differ only in
parts that may vary: numbers, names with a number such as `node-07`, files of one folder, and the
blanks of a command's shape. Everything else is the same: the type, project, rules, risk, price,
recipients, hosts, programs, options and attachments. A set shows each difference, so it can be
answered as a whole.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

import msgspec

from safetyd.core.approvals.request import Request
from safetyd.core.messages.binding import ESTIMATES, PROSE
from safetyd.core.messages.proposal import UNDIGESTED, Proposal, Target, canonical
from safetyd.core.shell.command_reader import READ, CommandReader
from safetyd.core.shell.reading import HOLE, Effect, word_set

WINDOW: Final = timedelta(hours=12)  # between the first and the last request of a set
MAX_IN_SET: Final = 50

Shape = bytes
Shaper = Callable[[Request], Shape | None]

# A host or a package may differ in these commands, so they vary only in blanks.
_FIXED: Final = frozenset({Effect.LEAVES, Effect.INSTALLS, Effect.SECRETS})
# Words after which a number is an amount.
_AMOUNTS: Final = word_set(
    "amount balance budget cost discount eur fee limit pay percent price quantity qty refund"
    " salary sum total transfer usd"
)
# Options whose values say where or as whom a command acts.
_PLACES: Final = word_set(
    "a account c cluster context d database e env environment g group h host hostname n namespace"
    " p port profile project region registry remote server to u url user"
)
# Characters that tie a number to something else: a price, a user or host, a port, a share.
_BINDING: Final = frozenset("$€£¥@:%#+*")
_OPERATORS: Final = frozenset("|&;(){}<>`=$!\"'\\*?~,%:@")
_LONGEST_NUMBER: Final = 6  # a longer one may be an account or a phone number
_has_mark = re.compile(r"\[(?:\.\.|[A-Z]{1,2})\]").search
_tokens = re.compile(rf"[\w./{HOLE}-]+|\s+|.", re.DOTALL).findall
_digits = re.compile(r"[0-9]+").sub
_is_name = re.compile(r"(?:\w[\w-]*/)*\w[\w-]*\Z", re.ASCII).match  # without dots, as in hosts
# A name of several parts in a domain. Its first part is not a number, so it is no address.
_is_below = re.compile(r"(?=[0-9-]*[a-z])[a-z0-9-]+(?:\.[a-z0-9-]+){2,}\Z").match
_is_id = re.compile(
    r"(?=.*[a-f])(?=.*[0-9])(?:[0-9a-f]{7,32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z"
).match
# Fields that do not change the action, and the empty value of each.
_UNBOUND: Final[dict[str, object]] = {
    name: getattr(Proposal(type="-"), name)
    for name in (PROSE | ESTIMATES | UNDIGESTED | {"agent", "task"})
}


def set_ref(requests: Sequence[Request]) -> str:
    """Return the name of a set, which depends on the id and digest of each of its requests."""
    said = sorted(f"{request.id}\0{request.asked.digest}" for request in requests)
    return "set_" + hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def grouped(requests: Sequence[Request], shape: Shaper) -> list[tuple[Request, ...]]:
    """Return the requests in groups, each in the order of its first request.

    A group of several is a set. Requests that are similar to no other are alone in their group.
    """
    groups: list[list[Request]] = []
    open_: dict[Shape, list[Request]] = {}
    for request in requests:
        key = shape(request)
        known = None if key is None else open_.get(key)
        if known is not None and _joins(request, known):
            known.append(request)
            continue
        groups.append([request])
        if key is not None:
            open_[key] = groups[-1]
    return [tuple(group) for group in groups]


def _joins(request: Request, group: Sequence[Request]) -> bool:
    times = [one.asked.at for one in group]
    first, last = min(*times, request.asked.at), max(*times, request.asked.at)
    new = all(request.id != one.id for one in group)
    return new and len(group) < MAX_IN_SET and last - first <= WINDOW


def shapes(reader: CommandReader) -> Shaper:
    """Return a function that returns what similar requests have in common.

    It returns None for a request that is always alone: one whose approval permits more than the
    action, a permission request, and one that contains a mark such as `[..]`.
    """

    def shape(request: Request) -> Shape | None:
        asked = request.asked
        if request.own or request.gives or asked.permission:
            return None
        proposal = asked.proposal
        if _has_mark(canonical(proposal).decode()):
            return None  # an agent's words could be taken for the marks of a set
        bare = msgspec.structs.replace(
            proposal,
            **_UNBOUND,
            text=_text_shape(proposal, asked.type, reader),
            paths=tuple(map(_path_shape, proposal.paths)),
            target=None if proposal.target is None else _target_shape(proposal.target),
        )
        facts = (
            (asked.agent, asked.keyless, asked.type, asked.host, request.urgency),
            (asked.risk, asked.reversibility, asked.tier, sorted(request.rules)),
            tuple(map(_path_shape, asked.resolved)),
            bare,
        )
        return hashlib.sha256(canonical(facts)).digest()

    return shape


def _text_shape(proposal: Proposal, kind: str, reader: CommandReader) -> str:
    if not reader.reads(reader.kinds.of(proposal), proposal):
        return proposal.text if kind in READ else _with_holes(proposal.text, proposal.paths)
    shaped = reader.shaped(proposal).text
    effects = {finding.effect for finding in reader.reading(proposal).findings}
    return shaped if effects & _FIXED else _command_with_holes(shaped)


def _command_with_holes(text: str) -> str:
    """Replace names with a number in a command, except programs.

    The number after an option does not vary, and neither does a place or a user after one.
    """
    shaped, before = list[str](), ""
    for word in re.split(r"(\s+)", text):
        option = before.strip("-").lower() if before.startswith("-") else ""
        fixed = not before or before[-1] in _OPERATORS or option in _PLACES
        # A number alone may be a mode, a process or a port.
        if fixed or word.isdecimal() or not word.isascii():
            shaped.append(word)
        else:
            shaped.append(_host_shape(word) if _is_below(word) else _name_shape(word))
        before = word if word.strip() else before
    return "".join(shaped)


def _host_shape(host: str) -> str:
    """Return a host with blanks for the numbers of its first label. Its domain does not vary."""
    label, _, domain = host.partition(".")
    return f"{_name_shape(label)}.{domain}"


def _with_holes(text: str, files: Sequence[str] = ()) -> str:
    """Replace files, and names with a number, in a text. Its first word does not vary."""
    shaped, before = list[str](), ""  # the word before
    tokens = _tokens(text)
    for last, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        bound = not before or last in _BINDING or after in _BINDING or before.lower() in _AMOUNTS
        shape = _path_shape(token) if token in files else _name_shape(token)
        shaped.append(token if bound else shape)
        before = token if token[0].isalnum() else before
    return "".join(shaped)


def _name_shape(word: str) -> str:
    """Return a name with blanks for its numbers. An option, a host or a price has none."""
    if _is_id(word):
        return HOLE
    long = any(len(number) > _LONGEST_NUMBER for number in re.findall("[0-9]+", word))
    return word if long or not _is_name(word) else _digits(HOLE, word)


def _path_shape(path: str) -> str:
    """Return the folder and the extension of a file. A hidden file or `..` does not vary."""
    parts = PurePosixPath(path)
    if ".." in parts.parts or parts.name.startswith(".") or "\n" in path or not parts.name:
        return path
    return f"{parts.parent}/{HOLE}{parts.suffix}"


def _target_shape(target: Target) -> Target:
    label, name = _with_holes(target.label), _with_holes(target.name)
    return msgspec.structs.replace(target, label=label, name=name, url=_url_shape(target.url))


def _url_shape(url: str) -> str:
    """Replace numbers in the path of a URL. Its host and its query do not vary."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return parts._replace(path=_digits(HOLE, parts.path)).geturl()
