"""`[projects.<p>]`: what holds for proposals that name a project.

`project` is the agent's word, so a project loosens only for the agents that it lists; for others
what holds everywhere holds as well. A file that agents may write is heard beside the project, so
it only tightens.
"""

from collections.abc import Callable
from typing import Annotated, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from safetyd.core.guards.rules import ProjectRules
from safetyd.core.messages.money import MAX_USD
from safetyd.core.messages.proposal import Risk
from safetyd.core.text.patterns import AnyPattern

COMMIT_DEADLINE_S: Final = 10.0

T = TypeVar("T")
U = TypeVar("U")
Config = TypeVar("Config", bound=msgspec.Struct)

Patterns = tuple[AnyPattern, ...]
Share = Annotated[float, Meta(ge=0, le=1)]
Usd = Annotated[float, Meta(ge=0, le=MAX_USD)]
# Nobody waits longer for the answer to a proposal.
CommitDeadline = Annotated[float, Meta(gt=0, le=300)]


class ProjectGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `[gate]`; None leaves a setting as it is. Visits are counted in one way for all."""

    blocklist_patterns: Patterns | None = None
    irreversible_patterns: Patterns | None = None
    confidence_threshold: Share | None = None
    loop_threshold: Annotated[int, Meta(ge=1)] | None = None
    credential_patterns: Patterns | None = None
    credential_allowlist: Patterns | None = None
    expected_app: str | None = None
    expected_window_pattern: str | None = None
    shell_patterns: Patterns | None = None


class ProjectConfidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `[confidence]`; None leaves a setting as it is."""

    required_for: tuple[Risk, ...] | None = None
    low: Share | None = None
    medium: Share | None = None
    high: Share | None = None
    default: Share | None = None


class ProjectBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other limits on the accounts that there are; 0 is none, None leaves one as it is.

    The day and the models belong to everybody, so a project has no say in those.
    """

    chain_usd: Usd | None = None
    session_usd: Usd | None = None
    agent_usd: Usd | None = None


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may differ in a project, and what its file may hold."""

    rules: ProjectRules = ProjectRules()
    gate: ProjectGate = ProjectGate()
    confidence: ProjectConfidence = ProjectConfidence()
    budget: ProjectBudget = ProjectBudget()


class ProjectFields(ProjectSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operator writes and what is in force have in common.

    With one field more, checkpoints from before would not be written again byte for byte.
    """

    root: str = ""
    agents: tuple[str, ...] = ()  # for these it may loosen; for others it only tightens
    file: str = ""  # a .safetyd.toml that agents may write: it only tightens
    # Commands that pass as they stand, such as `make test`. Journals from before have none.
    checks: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    # Whether what agents change is committed, and what then follows from errors; see history.md.
    # Journals of earlier versions also have "branch".
    history: Literal["off", "shadow", "branch"] | msgspec.UnsetType = msgspec.UNSET
    state_paths: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    # A number: whether, and for how many seconds an action waits for that commit.
    before_irreversible: bool | CommitDeadline | msgspec.UnsetType = msgspec.UNSET
    on_error: Literal["offer", "rollback"] | msgspec.UnsetType = msgspec.UNSET
    errors_in_a_row: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET

    @property
    def committed(self) -> bool:
        """Whether what agents change in its folder is committed."""
        return self.history in {"shadow", "branch"}


class ProjectTable(ProjectFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project as the operator writes it."""

    before_irreversible: bool | msgspec.UnsetType = msgspec.UNSET
    commit_deadline_s: CommitDeadline | msgspec.UnsetType = msgspec.UNSET


class ProjectConfig(ProjectFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project as it is in force."""

    from_file: ProjectSettings | None = None  # what was read from `file`
    file_broken: str = ""  # why that cannot be used

    @property
    def commit_deadline_s(self) -> float:
        """How long an action waits for the commit before it."""
        before = self.before_irreversible
        return before if isinstance(before, float) else COMMIT_DEADLINE_S


def in_force(table: ProjectTable) -> ProjectConfig:
    """Return a project as it is without what its file says."""
    fields = {name: getattr(table, name) for name in ProjectFields.__struct_fields__}
    if table.before_irreversible is True and table.commit_deadline_s:
        fields["before_irreversible"] = table.commit_deadline_s
    return ProjectConfig(**fields)


class Sides(Generic[T]):
    """What a project has for the agents that it lists, and for others."""

    def __init__(self, agents: frozenset[str], listed: T, others: T) -> None:
        self._agents = agents
        self._listed = listed
        self._others = others

    def of(self, agent: str) -> T:
        return self._listed if agent in self._agents else self._others


def sides(
    project: ProjectConfig,
    base: T,
    within: Callable[[T, ProjectSettings], T],
    join: Callable[[tuple[T, ...]], U],
) -> Sides[U]:
    """Join what binds an agent together.

    `base` holds everywhere, and `within` returns it as a project or its file changes it.
    """
    own = within(base, project)
    bound = (own,) if project.from_file is None else (own, within(own, project.from_file))
    everything = tuple(dict.fromkeys((base, *bound)))
    return Sides(frozenset(project.agents), join(tuple(dict.fromkeys(bound))), join(everything))


def over(base: Config, own: msgspec.Struct) -> Config:
    """Return settings with those of a project's own that are given; `base` itself without any."""
    given = {name: getattr(own, name) for name in own.__struct_fields__}
    changes = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(base, **changes) if changes else base
