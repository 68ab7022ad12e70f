"""The rules that bind an agent in a project, all of them asked."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Proposed
from safetyd.core.guards.classify import rule_verdicts as wording
from safetyd.core.guards.classify.rule_sets import NONE, Book
from safetyd.core.guards.gate.steps import together
from safetyd.core.guards.projects import ProjectConfig, Sides, sides
from safetyd.core.messages.verdict import ALLOWED, Verdict


class Bench:
    """The books that bind an agent together. `plain` are the types that all of them let pass."""

    def __init__(self, books: Sequence[Book], broken: Verdict | None = None) -> None:
        self._books = books
        self._broken = () if broken is None else (broken,)
        every = frozenset.intersection(*(book.plain for book in books))
        self.plain = every if broken is None else frozenset()

    def well_placed(self, proposed: Proposed, kind: Kind) -> bool:
        """Say that no path is a reason to ask, in any book."""
        return all(book.well_placed(proposed, kind) for book in self._books)

    def judge(
        self,
        proposed: Proposed,
        kind: Kind,
        memory_used: float,
        lifted: AbstractSet[str] = NONE,
    ) -> Verdict:
        """Return the strictest verdict of all books, with the other rules that objected."""
        each = (book.judge(proposed, kind, memory_used, lifted) for book in self._books)
        found = [verdict for verdicts in each for verdict in verdicts]
        found += self._broken
        return together(found, masks_text=False) if found else ALLOWED


def benches(name: str, project: ProjectConfig, base: Book) -> Sides[Bench]:
    """Return who judges in a project; where its file is broken, everything is asked about."""
    broken = None
    if project.file_broken:
        broken = wording.broken_file(name, project.file, project.file_broken)
    return sides(
        project,
        base,
        lambda book, settings: book.within(settings.rules, project.root),
        lambda books: Bench(books, broken),
    )
