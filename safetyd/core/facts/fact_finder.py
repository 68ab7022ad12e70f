"""Finds the facts of a proposal, and remembers those of the last one for all guards."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.facts.contacted_addresses import CALLS, contacted
from safetyd.core.messages.proposal import Proposal
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.reading import Finding, Touch
from safetyd.core.text.patches import NO_PATCH, Patch
from safetyd.core.text.proposal_patches import patch_of
from safetyd.core.text.web_addresses import Address

FILE: Final = "file://"
MAX_REMEMBERED: Final = 512  # commands


class ProposalFacts(NamedTuple):
    """What a proposal touches."""

    proposal: Proposal
    kind: Kind
    patch: Patch = NO_PATCH  # all patches in it
    addresses: tuple[Address, ...] = ()  # those that it may contact, each in one spelling
    findings: Sequence[Finding] | None = None  # in its command; None if no command is analysed
    touches: tuple[Touch, ...] = ()  # the files in its command, each once
    fetched: tuple[str, ...] = ()  # the files that it reads by a `file:` address


class _CommandFacts(NamedTuple):
    findings: Sequence[Finding]
    addresses: tuple[Address, ...]
    touches: tuple[Touch, ...]


class FactFinder:
    """Find facts with one reader of commands, or none."""

    def __init__(self, reader: CommandReader | None = None) -> None:
        self._reader = reader
        self.last: ProposalFacts | None = None
        self._commands: dict[int, _CommandFacts] = {}

    def of(self, event: Proposed | Decided, kind: Kind) -> ProposalFacts:
        """Return the facts of a proposal. Those of the last proposal are not found again."""
        last, proposal = self.last, event.proposal
        if last is not None and last.proposal is proposal and last.kind is kind:
            return last
        self.last = found = self._found(proposal, kind)
        return found

    def _found(self, proposal: Proposal, kind: Kind) -> ProposalFacts:
        patch, reader = NO_PATCH, self._reader
        if proposal.context is not None or proposal.extra is not None or proposal.text:
            patch = patch_of(proposal, edits=kind.edits)
        if reader is not None and reader.reads(kind, proposal):
            known = self._in_command(proposal, kind, reader.reading(proposal).findings)
            return ProposalFacts(proposal, kind, patch, known.addresses, *known[::2])
        if kind.type in CALLS or not kind.known:
            addresses = contacted(proposal, kind, None)
            fetched = (a.text.removeprefix(FILE) for a in addresses if a.text.startswith(FILE))
            return ProposalFacts(proposal, kind, patch, addresses, fetched=tuple(fetched))
        return ProposalFacts(proposal, kind, patch)

    def _in_command(
        self, proposal: Proposal, kind: Kind, findings: Sequence[Finding]
    ) -> _CommandFacts:
        """Return the facts of a command. They are remembered as long as its analysis."""
        known = self._commands.get(id(findings))
        if known is not None and known.findings is findings:
            return known
        if len(self._commands) >= MAX_REMEMBERED:
            self._commands.clear()
        touches = dict.fromkeys(touch for finding in findings for touch in finding.touches)
        found = _CommandFacts(findings, contacted(proposal, kind, findings), tuple(touches))
        self._commands[id(findings)] = found
        return found
