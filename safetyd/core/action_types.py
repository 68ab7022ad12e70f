"""Action types with their risk and reversibility. An agent's own rating can only raise these."""

import functools
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Literal

import msgspec

from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier
from safetyd.core.text.folding import fold
from safetyd.core.type_aliases import ALIASES, written_together

Profile = Literal["strict", "coding"]
Mode = Literal["development", "production", "hybrid"]

MAX_REMEMBERED: Final = 1024  # maximum number of cached spellings of type names

GUI: Final = frozenset(
    {"click", "type", "key", "scroll", "drag", "wait", "screenshot", "open_app", "navigate"}
)
# The cost of these types is a purchase price, not model spending.
PURCHASES: Final = frozenset({"purchase", "billing_change"})
_PROSE: Final = frozenset({"create_pull_request", "draft", "content_update"})
_IN_TEXT: Final = frozenset({"run_shell", "db_read", "db_write", "type", "key"})
# The text of these types is only stored, or sent to a model or agent, whose own actions are
# judged.
_SAID: Final = frozenset(
    {
        *("memory_write", "memory_consolidation", "memory_prune", "write_state", "write_log"),
        *("create_branch", "create_worktree", "git_commit", "model_call", "dispatch", "delegate"),
    }
)
# The text of these types is a command, or is typed in a place that may accept commands.
_COMMANDS: Final = frozenset({"run_shell", "run_tests", "type", "key"})

_HARM: Final[dict[Reversibility, int]] = {
    "read_only": 0,
    "reversible": 1,
    "unknown": 2,  # may be irreversible
    "irreversible": 3,
}
_DANGER: Final[dict[Risk, int]] = {"low": 0, "medium": 1, "high": 2, "prohibited": 3}
_TIER_OF: Final[dict[Risk, Tier]] = {
    "low": "auto_allowed",
    "medium": "auto_allowed",
    "high": "requires_permission",
    "prohibited": "prohibited",
}
_RISK_OF: Final[dict[Tier, Risk]] = {
    "auto_allowed": "medium",
    "requires_permission": "high",
    "prohibited": "prohibited",
}
_TIERS: Final[tuple[Tier, ...]] = ("auto_allowed", "requires_permission", "prohibited")
_UNDERSCORED: Final = str.maketrans(" -", "__")


class TypeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[types.NAME]` table: a new type, a change to a shipped one, or an alias."""

    same_as: str = ""
    tier: Tier | None = None
    reversibility: Reversibility | None = None
    risk: Risk | None = None
    human: bool | None = None
    # The ways that can approve it: cli, tui, web, link, sms, desktop. Empty means all of them.
    approve_via: tuple[str, ...] = ()


class Kind(msgspec.Struct, frozen=True, dict=True):
    """An action type with the traits that guards need.

    Derived traits are cached, because guards need them for every proposal.
    """

    type: str
    tier: Tier
    reversibility: Reversibility
    risk: Risk
    human: bool = False
    known: bool = True
    raised: bool = False  # the agent rated the action higher than its type
    approve_via: tuple[str, ...] = ()  # empty: every way can approve it

    @functools.cached_property
    def read_only(self) -> bool:
        return self.reversibility == "read_only"

    @functools.cached_property
    def prose(self) -> bool:
        """True if the text is written for people."""
        return self.human or self.type in _PROSE

    @functools.cached_property
    def in_text(self) -> bool:
        """True if the text determines what the action does, as in commands, SQL and messages."""
        return self.human or not self.known or self.type in _IN_TEXT

    @functools.cached_property
    def commands(self) -> bool:
        """True if the text may be a command."""
        return self.type in _COMMANDS or not self.known

    @functools.cached_property
    def edits(self) -> bool:
        """True if the text may be a patch or new content of files."""
        if self.read_only:
            return False
        return not self.known or self.type == "content_update" or (self.acts and not self.commands)

    @functools.cached_property
    def acts(self) -> bool:
        """True if the text has an effect and is not only read, stored or sent to a model."""
        return self.commands or not (self.read_only or self.prose or self.type in _SAID)


_TYPES: Final = (
    (
        Kind("", "auto_allowed", "read_only", "low"),
        """read_file list_files search read_git git_status git_log git_diff run_tests embed
        similarity_search analyze_session internal_analysis db_read screenshot scroll wait plan""",
    ),
    (
        Kind("", "auto_allowed", "read_only", "medium"),  # the server sees the request
        "web_search web_fetch mcp_read",
    ),
    (
        Kind("", "auto_allowed", "reversible", "low"),
        """memory_write memory_consolidation memory_prune create_branch create_worktree git_commit
        write_state write_log draft click type key drag open_app navigate""",
    ),
    (
        # edit_file and create_file are for files in a worktree or outside any repository. A change
        # to the checked-out tree of a repository is modify_code.
        Kind("", "auto_allowed", "reversible", "medium"),
        "content_update edit_file create_file model_call dispatch delegate",
    ),
    (
        Kind("", "requires_permission", "irreversible", "high", human=True),
        "send_email send_message post_chat post_social submit_assignment create_issue comment",
    ),
    (
        Kind("", "requires_permission", "irreversible", "high"),
        """modify_code push create_pull_request merge modify_ci deploy publish delete_file
        delete_file_outside db_write drop_database clear_cache purchase billing_change
        revoke_token modify_permissions""",
    ),
    (
        Kind("", "requires_permission", "unknown", "high"),  # the command is not analysed yet
        "run_shell mcp_call",
    ),
    (
        Kind("", "requires_permission", "reversible", "high"),
        "install_package modify_config start_service open_port schedule",
    ),
    (
        Kind("", "prohibited", "irreversible", "prohibited"),
        "change_password change_api_key change_auth read_credentials disable_security",
    ),
)
_TOGETHER: Final = written_together(
    (*(name for _, names in _TYPES for name in names.split()), *ALIASES)
)


class Kinds:
    """The table of types with the operator's changes and aliases.

    An operator's type replaces a shipped alias of the same name. The constructor raises
    `ValueError` with all mistakes in the operator's tables.
    """

    def __init__(self, types: Mapping[str, TypeConfig], profile: str) -> None:
        if wrong := list(_problems(types)):
            raise ValueError("; ".join(wrong))
        own = {normalised(name): change for name, change in types.items()}
        self._aliases = _aliases(types)
        self._table = _shipped(profile)
        for name, change in own.items():
            if not change.same_as:
                self._table[name] = _changed(self._table.get(name) or _unknown(name), change)
        self._remembered: dict[str, Kind] = {}

    def of(self, proposal: Proposal) -> Kind:
        """Return the kind of a proposal, raised by the agent's own risk and reversibility."""
        kind = self._remembered.get(proposal.type) or self._look_up(proposal.type)
        return raised_by(proposal, kind)

    def named(self, spelling: str) -> Kind:
        """Return the kind of a type. Case, spaces and hyphens in the name do not matter."""
        name = _resolved(normalised(spelling), self._aliases)
        return self._table.get(name) or _unknown(name)

    @property
    def known(self) -> Mapping[str, Kind]:
        """All known types by name, without aliases."""
        return self._table

    def aliases(self) -> dict[str, list[str]]:
        """Return the aliases of each type, without those that only omit `_`."""
        found: dict[str, list[str]] = {}
        for name, to in sorted(self._aliases.items()):
            if _TOGETHER.get(name) != to:
                found.setdefault(_resolved(name, self._aliases), []).append(name)
        return found

    def _look_up(self, spelling: str) -> Kind:
        kind = self.named(spelling)
        if len(self._remembered) < MAX_REMEMBERED:
            self._remembered[spelling] = kind
        return kind


def raised_by(proposal: Proposal, kind: Kind) -> Kind:
    """Return a kind, raised by the agent's own risk and reversibility."""
    if proposal.risk is None and proposal.reversibility is None:
        return kind
    return _raised(kind, proposal.reversibility, proposal.risk)


def normalised(name: str) -> str:
    """Return `name` folded and in lower case, with `_` instead of spaces and hyphens."""
    return fold(name).strip().lower().translate(_UNDERSCORED)


def _unknown(name: str) -> Kind:
    return Kind(name, "requires_permission", "unknown", "high", known=False)


def _changed(kind: Kind, change: TypeConfig) -> Kind:
    """Apply `change`. If only one of tier and risk is given, derive the other from it."""
    tier = change.tier or (_TIER_OF[change.risk] if change.risk else kind.tier)
    risk = change.risk or (kind.risk if _TIER_OF[kind.risk] == tier else _RISK_OF[tier])
    human = kind.human if change.human is None else change.human
    harm = change.reversibility or kind.reversibility
    return Kind(kind.type, tier, harm, risk, human, approve_via=change.approve_via)


def _raised(kind: Kind, reversibility: Reversibility | None, risk: Risk | None) -> Kind:
    """Raise the tier to match the risk, so that no high-risk action is called auto_allowed."""
    harm = max(kind.reversibility, reversibility or kind.reversibility, key=_HARM.__getitem__)
    floor: Risk = "high" if reversibility == "irreversible" else "low"
    danger = max(kind.risk, risk or floor, floor, key=_DANGER.__getitem__)
    if harm == kind.reversibility and danger == kind.risk:
        return kind
    tier = kind.tier if danger == kind.risk else max(kind.tier, _TIER_OF[danger], key=_TIERS.index)
    return Kind(
        kind.type,
        tier,
        harm,
        danger,
        kind.human,
        kind.known,
        raised=True,
        approve_via=kind.approve_via,
    )


def _aliases(types: Mapping[str, TypeConfig]) -> dict[str, str]:
    """Return all aliases and their targets: the operator's and the shipped ones."""
    aliases = {**_TOGETHER, **ALIASES}
    for name, change in types.items():
        aliases.pop(normalised(name), None)
        if change.same_as:
            aliases[normalised(name)] = normalised(change.same_as)
    return aliases


def _resolved(name: str, aliases: Mapping[str, str]) -> str:
    """Return the final target of `name`. If aliases form a circle, return one of them."""
    return _way(name, aliases)[-1]


def _way(name: str, aliases: Mapping[str, str]) -> list[str]:
    """Return `name` and the targets that follow from it, up to a type or a repeated name."""
    way = [name]
    while way[-1] in aliases and way[-1] not in way[:-1]:
        way.append(aliases[way[-1]])
    return way


def _problems(types: Mapping[str, TypeConfig]) -> Iterator[str]:
    aliases = _aliases(types)
    known = _shipped("strict").keys() | {normalised(name) for name in types}
    spelt: dict[str, str] = {}
    for name, change in types.items():
        twin = spelt.setdefault(normalised(name), name)
        if twin != name:
            yield f"types.{name} and types.{twin} are the same type: remove one of them"
        if change.same_as:
            yield from _alias_problems(name, change, aliases, known)


def _alias_problems(
    name: str, change: TypeConfig, aliases: Mapping[str, str], known: AbstractSet[str]
) -> Iterator[str]:
    if change != TypeConfig(same_as=change.same_as):
        yield f"types.{name} is an alias: put its other settings under types.{change.same_as}"
    way = _way(normalised(name), aliases)
    if way[-1] in aliases:
        yield f"types.{name}: same_as {change.same_as} is circular: {', '.join(way)}"
    elif way[-1] not in known:
        yield f"types.{name}: same_as refers to the unknown type {way[-1]}"


def _shipped(profile: str) -> dict[str, Kind]:
    table = {
        name: msgspec.structs.replace(traits, type=name)
        for traits, names in _TYPES
        for name in names.split()
    }
    if profile == "coding":
        table["run_shell"] = Kind("run_shell", "auto_allowed", "reversible", "medium")
    return table
