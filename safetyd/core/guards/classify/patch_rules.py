"""Rules for the files that a patch changes: their paths and modes."""

from collections.abc import Iterable, Iterator

from safetyd.core.action_types import Kind
from safetyd.core.facts.fact_finder import ProposalFacts
from safetyd.core.guards.classify import rule_verdicts
from safetyd.core.guards.classify.free_places import is_free
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import Verdict
from safetyd.core.text.patches import NO_PATCH, Patch, PatchedFile
from safetyd.core.text.path_globs import Globs, PathTarget, likely, place
from safetyd.core.text.proposal_patches import says_executable


class PatchRules:
    """Judge patches by the path lists and the root of a rule set."""

    def __init__(
        self, sensitive: Globs, protected: Globs, either: Globs, root: str, *, free: bool
    ) -> None:
        self._free = free  # temporary files may be outside the project
        self._sensitive = sensitive
        self._protected = protected
        self._either = either
        self._root = root

    def places(self, facts: ProposalFacts) -> Iterator[PathTarget]:
        """Yield the likely locations of the patched files."""
        for file in facts.patch.files:
            yield place(file.path, self._root, facts.proposal.cwd)

    def judge(self, facts: ProposalFacts) -> Iterable[Verdict]:
        """Return all verdicts on the patch."""
        proposal, kind, patch = facts.proposal, facts.kind, facts.patch
        unremarkable = patch is NO_PATCH and proposal.context is None
        return () if unremarkable else self._judged(proposal, kind, patch)

    def _judged(self, proposal: Proposal, kind: Kind, patch: Patch) -> Iterator[Verdict]:
        if patch.problem and not kind.read_only:
            yield rule_verdicts.unreadable_patch(patch.problem)
        for file, places in self._placed(patch.files, proposal.cwd):
            yield from self._misplaced(file, places, kind)
        if kind.read_only:
            return
        yield from (rule_verdicts.patched_executable(f) for f in patch.files if f.executable)
        yield from (rule_verdicts.patched_link(f) for f in patch.files if f.link)
        if kind.edits and proposal.paths and says_executable(proposal):
            yield rule_verdicts.said_executable(proposal.paths[0])

    def _placed(
        self, files: tuple[PatchedFile, ...], cwd: str | None
    ) -> list[tuple[PatchedFile, list[PathTarget]]]:
        """Return the possible locations of each file, or nothing if none can need approval.

        Some programs apply a patch at the top of a project, whatever the current folder is.
        """
        starts = dict.fromkeys((cwd, None))
        placed = [
            (file, [where for start in starts for where in self._locations(file, start)])
            for file in files
        ]
        every = [where for _, places in placed for where in places]
        if self._root and any(where.local is None for where in every):
            return placed
        names = (name for where in every for name in (where.path, where.local) if name)
        return [] if self._either.miss(names, resolved=True) else placed

    def _locations(self, file: PatchedFile, start: str | None) -> Iterator[PathTarget]:
        for way in file.readings:
            yield from likely(way, self._root, start)

    def _is_away(self, where: PathTarget) -> bool:
        return where.local is None and not (self._free and is_free(where, changes=True))

    def _misplaced(
        self, file: PatchedFile, places: list[PathTarget], kind: Kind
    ) -> Iterator[Verdict]:
        named = rule_verdicts.in_patch(file)
        if self._root and any(map(self._is_away, places)):
            yield rule_verdicts.outside(named, self._root)
        if glob := _found(self._sensitive, places):
            yield rule_verdicts.sensitive(named, glob)
        elif (
            not kind.read_only
            and file.deed != "copies"
            and (glob := _found(self._protected, places))
        ):
            yield rule_verdicts.protected(named, glob)


def _found(globs: Globs, places: list[PathTarget]) -> str | None:
    return next(filter(None, map(globs.find, places)), None)
