"""`[projects.<p>]`: what holds for proposals that name a project.

`project` is the agent's word, so a project loosens only for the agents that it lists; for others
the global rules hold as well. A file that agents may write holds beside them and only tightens.
"""

from collections.abc import Sequence

import msgspec

from safetyd.core.events import Proposed
from safetyd.core.guards import wording
from safetyd.core.guards.rulebook import Book
from safetyd.core.guards.rules import ProjectRules
from safetyd.core.guards.steps import together
from safetyd.core.kinds import Kind
from safetyd.core.verdict import ALLOWED, Verdict


class ProjectConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    root: str = ""
    agents: tuple[str, ...] = ()  # for these it may loosen; for others it only tightens
    file: str = ""  # a .safetyd.toml that agents may write: it only tightens
    rules: ProjectRules = ProjectRules()
    # What was read from `file`, which is not the operator's to write here.
    file_rules: ProjectRules | None = None
    file_broken: str = ""  # why it could not be used


class Bench:
    """The books that bind an agent together. `plain` are the types that all of them let pass."""

    def __init__(self, books: Sequence[Book], broken: Verdict | None = None) -> None:
        self._books = books
        self._broken = () if broken is None else (broken,)
        every = frozenset.intersection(*(book.plain for book in books))
        self.plain = every if broken is None else frozenset()

    def judge(self, proposed: Proposed, kind: Kind, memory_used: float) -> Verdict:
        """Return the strictest verdict of all books, with the other rules that objected."""
        found = [v for book in self._books for v in book.judge(proposed, kind, memory_used)]
        found += self._broken
        return together(found, masks_text=False) if found else ALLOWED


class Project:
    """A project as it binds the agents that it lists, and others."""

    def __init__(self, name: str, config: ProjectConfig, base: Book) -> None:
        own = base.within(config.rules, config.root)
        books = [own]
        if config.file_rules is not None:
            books.append(own.within(config.file_rules, config.root))
        broken = None
        if config.file_broken:
            broken = wording.broken_file(name, config.file, config.file_broken)
        self._agents = frozenset(config.agents)
        self._listed = Bench(books, broken)
        self._others = Bench([base, *books], broken)

    def bench(self, agent: str) -> Bench:
        return self._listed if agent in self._agents else self._others
