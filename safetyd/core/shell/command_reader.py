"""Analyses the commands that agents propose, and caches the results."""

import copy
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from safetyd.core.action_types import Kind, Kinds, normalised, raised_by
from safetyd.core.messages.host_folder import OWN_FOLDER
from safetyd.core.messages.proposal import Proposal
from safetyd.core.shell.places import project_of
from safetyd.core.shell.programs import Row, digest, shipped
from safetyd.core.shell.reading import REVERSIBILITY, Effect

if TYPE_CHECKING:
    from safetyd.core.shell.judge import Reading  # see CommandReader.__init__

MAX_CACHED: Final = 512
MAX_LETTERS: Final = (
    256 * 1024
)  # total of all cached commands; their results may be 100 times as large

READ: Final = frozenset({"run_shell", "run_tests"})  # types whose text is a command
ANALYSED: Final = frozenset(
    {"run_shell", "db_read", "type"}
)  # types whose traits depend on the text
# Tools that take the name of a table instead of statements.
_OF_TABLES: Final = frozenset({"describe_table", "describetable", "list_tables", "listtables"})
_names_terminal = re.compile(
    r"\b(?:(?:q|lx)?terminal|terminator|konsole|[xe]term|u?rxvt\w*|iterm\d?|kitty|alacritty|wezterm|ghostty"
    r"|tilix|guake|yakuake|tmux|putty|powershell|pwsh|cmd\.exe|bash|zsh)\b",
    re.IGNORECASE,
).search
_is_name = re.compile(r"[\w.$]+\Z").match

ShellReading = Literal["judge", "patterns"]


class ShellConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `[shell]`, in which operators add programs or replace their descriptions."""

    programs: dict[str, Row] = {}
    table: str = ""  # the digest of the shipped table; set by safetyd

    def dated(self) -> "ShellConfig":
        """Return the same configuration with the digest of the current table."""
        return replace(self, table=digest())


class CheckedProject(msgspec.Struct, frozen=True):
    """The settings of a project that matter for its commands."""

    root: str = ""
    checks: tuple[str, ...] = ()


Key = tuple[str, str | None, str | None]  # the text, folder and project of a command


class _Cache:
    """The results of the last analyses."""

    def __init__(self) -> None:
        self.readings: dict[Key, Reading] = {}
        self._letters = 0  # in the commands

    def keep(self, key: Key, reading: "Reading") -> "Reading":
        """Add a result, and remove the oldest ones if there are too many."""
        self.readings[key] = reading
        self._letters += len(key[0])
        while len(self.readings) > MAX_CACHED or self._letters > MAX_LETTERS:
            oldest = next(iter(self.readings))
            del self.readings[oldest]
            self._letters -= len(oldest[0])
        return reading


class CommandReader:
    """Analyses the commands of proposals, unless `how` is "patterns"."""

    def __init__(
        self,
        kinds: Kinds,
        config: ShellConfig,
        projects: Mapping[str, CheckedProject],
        how: ShellReading = "judge",
        default: str = "",
    ) -> None:
        self.kinds = kinds
        self._table = None
        if how != "patterns":
            # Import it here, because it is slow and only processes that analyse commands need it.
            from safetyd.core.shell.code.sql_code import only_queries  # noqa: PLC0415
            from safetyd.core.shell.declared_checks import known_begin  # noqa: PLC0415
            from safetyd.core.shell.judge import read  # noqa: PLC0415

            self._judge = read
            self._known_begin = known_begin
            self._only_queries = only_queries
            self._table = shipped().with_rows(config.programs)
        self._projects = projects
        self._base = projects.get(default, CheckedProject())
        self._cached = _Cache()
        self._kinds_by_effect: dict[tuple[Kinds, str, Effect], Kind] = {}

    def reads(self, kind: Kind, proposal: Proposal) -> bool:
        """Return True if the text of a proposal is a command to analyse."""
        if self._table is None or not proposal.text:
            return False
        return kind.type in READ or (kind.type == "type" and _is_in_terminal(proposal))

    def reading(self, proposal: Proposal) -> "Reading":
        key = proposal.text, proposal.cwd, proposal.project
        return self._cached.readings.get(key) or self._cached.keep(key, self._read(proposal))

    def with_kinds(self, kinds: Kinds) -> "CommandReader":
        """Return a reader with other types. Both share their results, which depend on no type."""
        other = copy.copy(self)
        other.kinds = kinds
        return other

    def remotes(self, proposal: Proposal) -> tuple[str | None, ...]:
        """Return the remotes to which the command of a proposal pushes.

        None stands for an unknown remote, and for a part of the command that is no push.
        """
        if self._table is None:
            return (None,)
        found = [f for f in self.reading(proposal).findings if f.type == "push" or not f.passes]
        return tuple(f.remote if f.type == "push" else None for f in found) or (None,)

    def runs_file(self, proposal: Proposal) -> bool:
        """Return True if a command runs a file, which may change between two calls."""
        if not self.reads(self.kinds.of(proposal), proposal):
            return False
        return any("runs_file" in finding.traits for finding in self.reading(proposal).findings)

    @property
    def roots(self) -> list[str]:
        """The roots of all projects."""
        return [project.root for project in self._projects.values() if project.root]

    def root(self, proposal: Proposal) -> str:
        """Return the root of the project that a proposal names, or an empty string."""
        known = self._projects.get(proposal.project or "")
        return "" if known is None else known.root

    def kind(self, proposal: Proposal, kind: Kind) -> Kind:
        """Return the kind of a proposal. The kind of a command depends on its effect.

        A command that only reads is allowed in every profile. A query that may also change data is
        judged as db_write. A command that is typed into a terminal is judged like one that is run.
        """
        if kind.type == "db_read":
            return self._kind_of_statements(proposal, kind)
        if kind.type not in ANALYSED or not self.reads(kind, proposal):
            return kind
        effect = self.reading(proposal).effect
        key = self.kinds, kind.type, effect
        known = self._kinds_by_effect.get(key)
        if known is None:
            known = self._kinds_by_effect[key] = self._with_effect(kind.type, effect)
        return raised_by(proposal, known)

    def _with_effect(self, type_: str, effect: Effect) -> Kind:
        kind = self.kinds.named(type_)
        if kind.type == "type":
            if effect is Effect.READ:
                return kind
            shell = self.kinds.named("run_shell")
            kind = replace(kind, tier=shell.tier, risk=shell.risk)
        if effect is Effect.READ:
            return replace(kind, tier="auto_allowed", reversibility="read_only", risk="low")
        return replace(kind, reversibility=REVERSIBILITY[effect])

    def _kind_of_statements(self, proposal: Proposal, kind: Kind) -> Kind:
        if self._table is None or not proposal.text or kind.tier == "prohibited":
            return kind
        if normalised(proposal.type) in _OF_TABLES and _is_name(proposal.text):
            return kind
        if self._only_queries(proposal.text):
            return kind
        return raised_by(proposal, self.kinds.named("db_write"))

    def shaped(self, proposal: Proposal) -> Proposal:
        """Replace the command of a proposal by its shape. Other proposals are unchanged.

        Two proposals count as similar if the results are equal.
        """
        if not self.reads(self.kinds.of(proposal), proposal):
            return proposal
        return replace(proposal, text=self.reading(proposal).shape)

    def check_for(self, proposal: Proposal) -> str:
        """Return a check of its project that would cover a command, such as `pytest`."""
        project = self._projects.get(proposal.project or "")
        if project is None or not project.root or not self.reads(self.kinds.of(proposal), proposal):
            return ""
        assert self._table is not None  # noqa: S101 - `reads` is only true with a table
        check = self._known_begin(proposal.text, self._table)
        where = project_of(project.root, proposal.cwd or "")
        found = self._judge(proposal.text, self._table, where, (check,)) if check else None
        return check if found is not None and found.effect is Effect.READ else ""

    def _read(self, proposal: Proposal) -> "Reading":
        assert self._table is not None  # noqa: S101 - callers check `reads` first
        default = CheckedProject() if proposal.project == OWN_FOLDER else self._base
        known = self._projects.get(proposal.project or "", default)
        project = project_of(known.root, proposal.cwd or "")
        # Without a root, an absolute folder that the agent chose is not known to be the project.
        anywhere = not known.root and (proposal.cwd or "").startswith("/")
        checks = () if anywhere else known.checks
        return self._judge(proposal.text, self._table, project, checks)


def _is_in_terminal(proposal: Proposal) -> bool:
    """Return True if text is typed where a shell would run it."""
    target, seen = proposal.target, proposal.observation
    there = () if target is None else (target.app, target.role, target.name, target.window)
    screen = () if seen is None else (seen.app_name, seen.window_title)
    return any(map(_names_terminal, (*there, *screen)))
