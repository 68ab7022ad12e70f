"""Resources that belong to safetyd: its name, files, keys, bus subjects and web addresses.

They are reserved for operators, so an action that names them is blocked. They are found by text
patterns, which can be evaded. Commands of safetyd that only read are allowed.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
import re2
from msgspec.structs import replace

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Proposed
from safetyd.core.facts.fact_finder import ProposalFacts
from safetyd.core.guards.gate.own_config import ABOVE, OWN, REWORDED, OwnConfig
from safetyd.core.guards.projects import ByProject
from safetyd.core.messages.proposal import Observation, Proposal, Target, canonical
from safetyd.core.messages.verdict import ALLOWED, ASK, BLOCK, Verdict
from safetyd.core.shell.command_reader import READ
from safetyd.core.shell.reading import HOLE, OWN_PROGRAM, Access, Finding, Touch
from safetyd.core.text.folding import forms
from safetyd.core.text.path_globs import Globs, from_folder, is_pattern, likely, path_words, place
from safetyd.core.text.patterns import PatternConfig, PatternSet
from safetyd.core.text.visible_text import quoted
from safetyd.core.text.web_addresses import Address, address_of, may_lead_here

NONE: Final[AbstractSet[str]] = frozenset()

# These types read the file or address that their text or target names.
_FETCHING: Final = frozenset({"read_file", "list_files", "web_fetch", "navigate"})
_ELSEWHERE: Final = "with another file or address"
_NAME: Final = "safetyd"
_KEYS: Final = ("operator.nk", "operator.token", "links.json")
_SEED: Final = ".nk"
_ADDRESS: Final = "safetyd's address"
_STOP_FILE: Final = "EMERGENCY_STOP"
_SWITCH: Final = "AI_COMPANY_ENABLED"  # its other name contains "safetyd"

# Parts that a shell removes from a word: quotes and empty variables.
_UNSEEN: Final = r"(?:\\\n?|\$?['\"]|`|\$[@*]|\$\{\w*\}|\$\(\))*"
_SLASH: Final = r"/(?:\.?/)*"
# The start of a path (also below /proc/*/root), and the end of a file name.
_BEGIN: Final = r"(?:\A|[^\w.\-/~}]|\s-\w)(?:/proc/[\w/-]+/root)?"
_END: Final = r"(?:[^\w.\-]|\z)"
_MANY: Final = r"(?:\*|\{[^{}\s]*\})"
_ONE: Final = r"(?:\?|\[[^\]\s]+\])"
# Shell wildcards that can match the name, if three of its letters in a row are literal.
_WILD_NAME: Final = "|".join(
    (
        rf"\bsaf(?:e|{_ONE})(?:t|{_ONE})(?:y|{_ONE})(?:d|{_ONE})",
        rf"(?:s|{_ONE})(?:a|{_ONE})(?:f|{_ONE})(?:e|{_ONE})tyd\b",
        rf"\bsafe?t?y?{_MANY}(?:\B|(?:(?:(?:(?:f?e)?t)?y)?d)\b)",
        rf"{_MANY}a?f?e?tyd\b",
    )
)

_is_reading = re.compile(
    r"safetyd (?:status|list|show|explain|check|log|doctor|types)(?: +[\w@%+=:,./-]+)* *\Z",
    re.ASCII,
).match
_is_name = re.compile(r"\W*safetyd(?:\.service)?\W*\Z", re.IGNORECASE).match
_is_screen = re.compile(r"\W*safetyd\b", re.IGNORECASE).match
_NO_TARGET: Final = Target()
_NO_OBSERVATION: Final = Observation()
_below_home = re.compile(r"/(?:root|(?:home|Users)/[^/]+)/(.+)\Z").match


class OwnResources:
    """Find resources of safetyd in the text, target and paths of a proposal."""

    def __init__(self, config: OwnConfig, roots: ByProject[str]) -> None:
        self._roots = roots
        named = list(_named(config))
        self._whose = tuple(whose for whose, _ in named)
        self._patterns = PatternSet(
            [PatternConfig(name=f"own_{n}", pattern=p) for n, (_, p) in enumerate(named)]
        )
        files = tuple(_globs(config))
        self._files = Globs(files, ignore_case=True)
        self._with_settings = Globs((*files, *config.settings), ignore_case=True)
        self._above = frozenset(_above(config.directories))
        served = [address_of(address) for address in config.addresses]
        self._served = frozenset((address.host, address.port) for address in served)
        self._ports = frozenset(address.port for address in served if address.port)

    def judge(
        self, proposed: Proposed, facts: ProposalFacts, lifted: AbstractSet[str] = NONE
    ) -> Verdict:
        """Block a proposal that names or touches a resource. A grant can lift only text matches."""
        proposal, kind = proposed.proposal, facts.kind
        patched = facts.patch.files
        placed = ALLOWED
        if proposal.paths or proposal.cwd or patched or proposed.resolved:
            placed = self._placed(
                proposed, kind, [way for file in patched for way in file.readings]
            )
        if placed.decision is BLOCK:
            return placed
        if whose := self._in_target(proposal, kind):
            return _names(f"target names {whose}", "with another target")
        if OWN in lifted or not (proposal.text or facts.addresses):
            return placed
        return self._contacted(facts) or placed

    def _contacted(self, facts: ProposalFacts) -> Verdict | None:
        """Return a block if the text names a resource, or if the action would contact one."""
        fetches = facts.addresses and facts.kind.type in _FETCHING
        if fetches and self._fetches_file(facts.proposal, facts.addresses):
            return _names("text or target names one of safetyd's files", _ELSEWHERE)
        if facts.proposal.text and (whose := self._said(facts)):
            return _names(f"text names {whose}", REWORDED)
        if any(map(self._is_served, facts.addresses)):
            named = "text or target" if facts.findings is None else "text"
            return _names(f"{named} names {_ADDRESS}", _ELSEWHERE)
        return None

    def _is_served(self, address: Address) -> bool:
        """Return whether safetyd listens on an address."""
        if address.port not in self._ports:
            return False
        return may_lead_here(address.host) or (address.host, address.port) in self._served

    def _said(self, facts: ProposalFacts) -> str:
        """Return the resource that the text names, if the action does more than read."""
        if facts.findings is not None:
            return self._in_command(facts.findings)
        proposal, kind = facts.proposal, facts.kind
        text, root, cwd = proposal.text, self._root(proposal), proposal.cwd
        hits = self._patterns.find((text,) if text.isascii() else forms((text,)))
        if not (hits or root or cwd or ".." in text) or not kind.acts or _is_reading(text):
            return ""
        if hits:
            return self._whose[hits[0]]
        return "one of safetyd's files" if self._winds_to(text, root, cwd) else ""

    def _fetches_file(self, proposal: Proposal, addresses: Iterable[Address]) -> bool:
        """Return whether an action reads a file of safetyd that its text or target names."""
        root = self._root(proposal)
        paths = (address.text.removeprefix("file://") for address in addresses)
        return any(self._files.find(place(path, root, proposal.cwd)) for path in paths)

    def _in_command(self, findings: Sequence[Finding]) -> str:
        """Return the resource that a command acts on. Printing or mentioning it does not count."""
        named = functools.cache(_is_named)  # findings of one command share its words
        for finding in findings:
            if finding.blocks and finding.program.partition(" ")[0] == OWN_PROGRAM:
                return _NAME
            if any(map(self._is_own, finding.touches)):
                return "one of safetyd's files"
            if not finding.passes and named(finding.said):
                return _NAME
        said = dict.fromkeys(finding.said for finding in findings)
        hits = self._patterns.find(tuple(filter(None, said)))
        return next((self._whose[hit] for hit in hits if self._whose[hit] != _NAME), "")

    def _is_own(self, touch: Touch) -> bool:
        owned = self._files if touch.access is Access.READ else self._with_settings
        places = likely(touch.path.replace(HOLE, "$"), "")
        return any(owned.find(replace(where, pattern=touch.pattern)) for where in places)

    def _winds_to(self, text: str, root: str, cwd: str | None) -> bool:
        """Return whether a relative path, or one with `..`, in a text leads to a resource."""
        words = dict.fromkeys(path_words(text))
        winding = (word for word in words if root or cwd or (".." in word and word[0] in "/~$"))
        places = [place(word, root, cwd) for word in winding]
        owned = self._with_settings
        if owned.miss((where.path for where in places), resolved=True):
            return False
        return any(map(owned.find, places))

    def _in_target(self, proposal: Proposal, kind: Kind) -> str:
        """Return the resource that is the target. The name of safetyd in a label does not count."""
        target, seen = proposal.target, proposal.observation
        if not kind.acts or (target is None and seen is None and proposal.extra is None):
            return ""
        target, seen = target or _NO_TARGET, seen or _NO_OBSERVATION
        said = (target.label, target.name, target.role, target.url, target.app, seen.url)
        hits = self._patterns.find(forms((*said, target.window, _written(proposal.extra))))
        whose = (self._whose[hit] for hit in hits if self._whose[hit] != _NAME)
        itself = any(map(_is_name, (target.name, target.app)))
        screen = any(map(_is_screen, (target.window, seen.window_title)))
        return _NAME if itself or screen else next(whose, "")

    def _placed(self, proposed: Proposed, kind: Kind, patched: Sequence[str]) -> Verdict:
        proposal, root = proposed.proposal, self._root(proposed.proposal)
        paths: tuple[str, ...] = (*proposal.paths, *proposed.resolved, *patched)
        if cwd := proposal.cwd:  # paths in a patch may be relative to it, or to the root
            paths = (*(from_folder(path, cwd) for path in paths), *patched, cwd)
        patterns = kind.read_only and any(map(is_pattern, paths))
        if (
            not (root or patterns)
            and self._with_settings.miss(paths)
            and self._above.isdisjoint(paths)
        ):
            return ALLOWED
        # A command changes only some of the files that its links lead to.
        read = {*proposed.resolved} - {*proposed.changed} if kind.type in READ else ()
        verdict = ALLOWED
        for given in paths:
            changes = not kind.read_only and given not in read
            where = place(given, root)
            if patterns:
                where = replace(where, pattern=is_pattern(given))
            if (self._with_settings if changes else self._files).find(where):
                return _touches(given)
            if changes and where.path in self._above:
                verdict = _holds(given)
        return verdict

    def _root(self, proposal: Proposal) -> str:
        return self._roots.of(proposal.project)


def _is_named(said: str) -> bool:
    """Return True if a word of a command is the name of safetyd."""
    return any(map(_is_name, said.split()))


def _written(extra: object) -> str:
    """Return unknown fields as text, because each may name a file."""
    if extra is None:
        return ""
    return bytes(extra if isinstance(extra, msgspec.Raw) else canonical(extra)).decode()


def _named(config: OwnConfig) -> Iterator[tuple[str, str]]:
    """Yield the name of each resource, and a pattern that finds it in text."""
    yield _NAME, f"{_spelt(_NAME)}|{_WILD_NAME}"
    for key in _KEYS:
        yield "one of safetyd's keys", rf"\b{_spelt(key)}\b"
    yield "one of safetyd's keys", rf"{_spelt(_SEED)}\b"
    yield "safetyd's stop file", _spelt(_STOP_FILE)
    yield "safetyd's switch", _spelt(_SWITCH)
    yield "safetyd's bus", rf"\b{_spelt(config.prefix)}\."
    yield "safetyd's bus", r"\b(?:p?kill|killall)\b[^\n]*\bnats"
    for path in config.directories:
        for name in _names_of(path):
            yield "safetyd's data directory", name + _END
    for path in (*config.files, *config.settings):
        for name in _names_of(path):
            yield "one of safetyd's files", name + _END
    for path in config.files:
        # A plain word such as "stop" has other meanings.
        if not (name := path.rpartition("/")[2]).isalpha():
            yield "one of safetyd's files", rf"\b{_spelt(name)}{_END}"
    for address in config.addresses:
        yield _ADDRESS, rf"{_spelt(address)}\b"


def _names_of(path: str) -> Iterator[str]:
    """Yield patterns for a path, absolute and from a home directory."""
    yield _BEGIN + _spelt(path)
    if below := _below_home(path):
        yield rf"(?:~[\w.-]*|\$HOME|\$\{{HOME\}}){_UNSEEN}{_spelt('/' + below[1])}"


def _spelt(name: str) -> str:
    """Return a pattern for a name with any quotes that a shell would remove."""
    return _UNSEEN.join(_SLASH if char == "/" else re2.escape(char) for char in name)


def _globs(config: OwnConfig) -> Iterator[str]:
    for path in config.directories:
        yield from (f"{name}/**" for name in _homes(path))
    for path in config.files:
        yield from _homes(path)
    yield from ("**/operator.nk", "**/operator.token", "**/keys/links.json", "**/*.nk")
    yield from (f"**/{_STOP_FILE}", "**/.local/state/safetyd/**")


def _homes(path: str) -> Iterator[str]:
    yield path
    if below := _below_home(path):
        yield from (f"{home}/{below[1]}" for home in ("~*", "$HOME", "${HOME}"))


def _above(directories: tuple[str, ...]) -> Iterator[str]:
    for directory in directories:
        above, slash, _ = directory.rpartition("/")
        while slash:
            yield above or "/"
            above, slash, _ = above.rpartition("/")


def _names(what: str, remedy: str) -> Verdict:
    reason = f"Protected: the {what}, which is reserved for operators"
    return Verdict("gate", BLOCK, OWN, reason, remedy=remedy)


def _touches(path: str) -> Verdict:
    shown = quoted(path)
    reason = f"Protected: {shown} belongs to safetyd, and only operators may access it"
    return Verdict("gate", BLOCK, OWN, reason, remedy=f"without {shown}")


def _holds(path: str) -> Verdict:
    shown = quoted(path)
    reason = f"{shown} contains files that belong to safetyd"
    return Verdict("gate", ASK, ABOVE, reason, remedy=f"without {shown}")
