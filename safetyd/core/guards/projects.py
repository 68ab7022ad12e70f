"""`[projects.<p>]`: settings for proposals that name the project.

The settings of the default project also apply to proposals that name none.

Agents choose which project they name. A project can therefore loosen rules only for the agents that
it lists; for others the global rules apply as well. A settings file that agents may write can only
tighten rules.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from safetyd.core.guards.rules import ProjectRules
from safetyd.core.messages.host_folder import OWN_FOLDER
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
# Agents do not wait longer than this for the answer to a proposal.
CommitDeadline = Annotated[float, Meta(gt=0, le=300)]


class ProjectGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Overrides of `[gate]`. None means no override. `loop_counts` cannot be overridden."""

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
    """Overrides of `[confidence]`. None means no override."""

    required_for: tuple[Risk, ...] | None = None
    low: Share | None = None
    medium: Share | None = None
    high: Share | None = None
    default: Share | None = None


class ProjectBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Overrides of budget limits. 0 means no limit, and None means no override.

    The daily and model budgets are shared by all, so a project cannot change them.
    """

    chain_usd: Usd | None = None
    session_usd: Usd | None = None
    agent_usd: Usd | None = None


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that a project, or its file, can override."""

    rules: ProjectRules = ProjectRules()
    gate: ProjectGate = ProjectGate()
    confidence: ProjectConfidence = ProjectConfidence()
    budget: ProjectBudget = ProjectBudget()


class ProjectFields(ProjectSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a project, both as configured and as applied.

    Do not add fields: that would change the bytes of older checkpoints when they are rewritten.
    """

    root: str = ""
    agents: tuple[str, ...] = ()  # the project can loosen rules for these agents only
    file: str = ""  # a .safetyd.toml that agents may write, so it can only tighten rules
    # Commands that are allowed as written, such as `make test`. Older journals have none.
    checks: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    # Whether changes of agents are committed, and what happens after errors; see history.md.
    # Journals of earlier versions also have "branch".
    history: Literal["off", "shadow", "branch"] | msgspec.UnsetType = msgspec.UNSET
    state_paths: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    # A number: how many seconds an irreversible action waits for the commit, at most.
    before_irreversible: bool | CommitDeadline | msgspec.UnsetType = msgspec.UNSET
    on_error: Literal["offer", "rollback"] | msgspec.UnsetType = msgspec.UNSET
    errors_in_a_row: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET

    @property
    def committed(self) -> bool:
        """True if the project has a file history."""
        return self.history in {"shadow", "branch"}


class ProjectTable(ProjectFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project as written in the configuration."""

    before_irreversible: bool | msgspec.UnsetType = msgspec.UNSET
    commit_deadline_s: CommitDeadline | msgspec.UnsetType = msgspec.UNSET
    default: bool = False  # also for proposals that name no project; `Policy.default_project`


class ProjectConfig(ProjectFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project as applied."""

    from_file: ProjectSettings | None = None  # the settings in `file`
    file_broken: str = ""  # why `file` cannot be used

    @property
    def commit_deadline_s(self) -> float:
        """How many seconds an irreversible action waits for the commit, at most."""
        before = self.before_irreversible
        return before if isinstance(before, float) else COMMIT_DEADLINE_S


def in_force(table: ProjectTable) -> ProjectConfig:
    """Return the project of a table as applied, without the settings of its file."""
    fields = {name: getattr(table, name) for name in ProjectFields.__struct_fields__}
    if table.before_irreversible is True and table.commit_deadline_s:
        fields["before_irreversible"] = table.commit_deadline_s
    return ProjectConfig(**fields)


class ByProject(Generic[T]):
    """A value for each project, and one for proposals that name no known project.

    That is the value of the default project or, without one, `base`. A host's call in another
    repository (`OWN_FOLDER`) has `base`.
    """

    def __init__(self, values: Mapping[str, T], base: T, default: str = "") -> None:
        self._values = values
        self._none = base
        self._base = values.get(default, base)

    def of(self, project: str | None) -> T:
        if project == OWN_FOLDER:
            return self._none
        return self._values.get(project or "", self._base)


class Sides(Generic[T]):
    """A value for the agents that a project lists, and another for all others."""

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
    """Combine the settings that apply to an agent in a project.

    `base` applies everywhere. `within` adds the overrides of a project or its file.
    """
    own = within(base, project)
    bound = (own,) if project.from_file is None else (own, within(own, project.from_file))
    everything = tuple(dict.fromkeys((base, *bound)))
    return Sides(frozenset(project.agents), join(tuple(dict.fromkeys(bound))), join(everything))


def over(base: Config, own: msgspec.Struct) -> Config:
    """Return `base` with the given overrides. Return `base` itself if there are none."""
    given = {name: getattr(own, name) for name in own.__struct_fields__}
    changes = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(base, **changes) if changes else base
