"""Finds the facts of a proposal, and remembers those of the last one for all guards."""

from collections.abc import Sequence

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.facts.contacted_addresses import contacted
from safetyd.core.messages.proposal import Proposal
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.reading import Finding, Touch
from safetyd.core.text.patches import Patch
from safetyd.core.text.proposal_patches import patch_of
from safetyd.core.text.web_addresses import Address


class ProposalFacts:
    """What a proposal touches. The facts are found when they are first needed."""

    __slots__ = ("_addresses", "_patch", "_touches", "findings", "kind", "proposal")

    def __init__(self, proposal: Proposal, kind: Kind, findings: Sequence[Finding] | None) -> None:
        self.proposal = proposal
        self.kind = kind
        self.findings = findings  # in its command; None if it is no command that is analysed
        self._patch: Patch | None = None
        self._touches: tuple[Touch, ...] | None = None
        self._addresses: tuple[Address, ...] | None = None

    @property
    def patch(self) -> Patch:
        """All patches in it."""
        if self._patch is None:
            self._patch = patch_of(self.proposal, edits=self.kind.edits)
        return self._patch

    @property
    def touches(self) -> tuple[Touch, ...]:
        """The files in its command, each once."""
        if self._touches is None:
            found = (touch for finding in self.findings or () for touch in finding.touches)
            self._touches = tuple(dict.fromkeys(found))
        return self._touches

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses that it may contact, each in one spelling."""
        if self._addresses is None:
            self._addresses = contacted(self.proposal, self.kind, self.findings)
        return self._addresses


class FactFinder:
    """Find facts with one reader of commands, or none."""

    def __init__(self, reader: CommandReader | None = None) -> None:
        self._reader = reader
        self._last: ProposalFacts | None = None

    def of(self, event: Proposed | Decided, kind: Kind) -> ProposalFacts:
        """Return the facts of a proposal. Those of the last proposal are not found again."""
        last, proposal = self._last, event.proposal
        if last is not None and last.proposal is proposal and last.kind == kind:
            return last
        findings = None
        reader = self._reader
        if reader is not None and reader.reads(kind, proposal):
            findings = reader.reading(proposal).findings
        self._last = found = ProposalFacts(proposal, kind, findings)
        return found
