"""Readings of the commands that agents propose, each made once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from safetyd.core.action_types import Kind, Kinds, raised_by
from safetyd.core.messages.proposal import Proposal
from safetyd.core.shell.places import project_of
from safetyd.core.shell.programs import Row, digest, shipped
from safetyd.core.shell.reading import REVERSIBILITY, Effect

if TYPE_CHECKING:
    from safetyd.core.shell.judge import Reading  # see CommandReader.__init__

MAX_REMEMBERED: Final = 512
MAX_LETTERS: Final = 256 * 1024  # of their texts; a reading may be a hundred times as large

READ: Final = frozenset({"run_shell", "run_tests"})  # types whose text is a command

ShellReading = Literal["judge", "patterns"]


class ShellConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[shell]`: programs that the table does not know, or knows otherwise."""

    programs: dict[str, Row] = {}
    table: str = ""  # the digest of the shipped table; it finds that out itself

    def dated(self) -> "ShellConfig":
        """Return the same with the digest of the table that is shipped now."""
        return replace(self, table=digest())


class CheckedProject(msgspec.Struct, frozen=True):
    """What a command may know of its project."""

    root: str = ""
    checks: tuple[str, ...] = ()


class CommandReader:
    """Reads what proposals of some types would run. With `patterns` it reads nothing."""

    def __init__(
        self,
        kinds: Kinds,
        config: ShellConfig,
        projects: Mapping[str, CheckedProject],
        how: ShellReading = "judge",
    ) -> None:
        self.kinds = kinds
        self._table = None
        if how != "patterns":
            # The parser and the readers are slow to import: here, so that only processes that read
            # commands import them, and not during a decision.
            from safetyd.core.shell.judge import read  # noqa: PLC0415

            self._judge = read
            self._table = shipped().with_rows(config.programs)
        self._projects = projects
        self._remembered: dict[tuple[str, str | None, str | None], Reading] = {}
        self._letters = 0  # in the texts of these

    def reads(self, kind: Kind, proposal: Proposal) -> bool:
        """Say whether the text of a proposal is a command that is read."""
        return self._table is not None and kind.type in READ and bool(proposal.text)

    def reading(self, proposal: Proposal) -> "Reading":
        key = proposal.text, proposal.cwd, proposal.project
        known = self._remembered.get(key)
        if known is None:
            known = self._read(proposal)
            self._remembered[key] = known
            self._letters += len(proposal.text)
            while len(self._remembered) > MAX_REMEMBERED or self._letters > MAX_LETTERS:
                oldest = next(iter(self._remembered))
                del self._remembered[oldest]
                self._letters -= len(oldest[0])
        return known

    def kind(self, proposal: Proposal, kind: Kind) -> Kind:
        """Return what a proposal of a kind is: a command is what it was read to do.

        What only looks passes in any profile.
        """
        if kind.type != "run_shell" or not self.reads(kind, proposal):
            return kind
        effect = self.reading(proposal).effect
        kind = self.kinds.named(proposal.type)
        if effect is Effect.READ:
            kind = replace(kind, tier="auto_allowed", reversibility="read_only", risk="low")
        else:
            kind = replace(kind, reversibility=REVERSIBILITY[effect])
        return raised_by(proposal, kind)

    def shaped(self, proposal: Proposal) -> Proposal:
        """Return a proposal as others of its kind are: a command as its shape, others as they are.

        Two proposals have the same shape if what is returned for both is the same to a person.
        """
        if not self.reads(self.kinds.of(proposal), proposal):
            return proposal
        return replace(proposal, text=self.reading(proposal).shape)

    def _read(self, proposal: Proposal) -> "Reading":
        assert self._table is not None  # noqa: S101 - `reads` was asked first
        known = self._projects.get(proposal.project or "") or CheckedProject()
        project = project_of(known.root, proposal.cwd or "")
        return self._judge(proposal.text, self._table, project, known.checks)
