"""Action types: what each can do to the world, and how an agent's own words raise that."""

import functools
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier
from safetyd.core.text.folding import fold
from safetyd.core.type_aliases import ALIASES, written_together

MAX_REMEMBERED: Final = 1024  # spellings of types, which are the agents' words

GUI: Final = frozenset(
    {"click", "type", "key", "scroll", "drag", "wait", "screenshot", "open_app", "navigate"}
)
# Their cost is the price of what they buy, which is not model spending.
PURCHASES: Final = frozenset({"purchase", "billing_change"})
_PROSE: Final = frozenset({"create_pull_request", "draft", "content_update"})
_IN_TEXT: Final = frozenset({"run_shell", "db_read", "db_write", "type", "key"})
# Their text is kept, or told to a model or another agent, whose own acts are judged.
_SAID: Final = frozenset(
    {
        *("memory_write", "memory_consolidation", "memory_prune", "write_state", "write_log"),
        *("create_branch", "create_worktree", "git_commit", "model_call", "dispatch"),
    }
)
# Their text is a command, or is typed where one may be read.
_COMMANDS: Final = frozenset({"run_shell", "run_tests", "type", "key"})

_HARM: Final[dict[Reversibility, int]] = {
    "read_only": 0,
    "reversible": 1,
    "unknown": 2,  # nobody can say that it is less
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
    """One `[types.NAME]` table: a new type, a change to a shipped one, or another name for one."""

    same_as: str = ""
    tier: Tier | None = None
    reversibility: Reversibility | None = None
    risk: Risk | None = None
    human: bool | None = None
    approve_via: tuple[
        str, ...
    ] = ()  # cli, tui, web, link, sms, desktop; empty: every way may approve it


class Kind(msgspec.Struct, frozen=True, dict=True):
    """A type as it is judged: its own name and what it can do.

    What follows from that is worked out once: guards ask for it with every proposal.
    """

    type: str
    tier: Tier
    reversibility: Reversibility
    risk: Risk
    human: bool = False
    known: bool = True
    raised: bool = False  # above its type's own traits, by the agent's words
    approve_via: tuple[str, ...] = ()  # empty: every way

    @functools.cached_property
    def read_only(self) -> bool:
        return self.reversibility == "read_only"

    @functools.cached_property
    def prose(self) -> bool:
        """Say whether its text is written for a person, who is asked about it anyway."""
        return self.human or self.type in _PROSE

    @functools.cached_property
    def in_text(self) -> bool:
        """Say whether what it does lies in its text: commands, statements, messages, or unknown."""
        return self.human or not self.known or self.type in _IN_TEXT

    @functools.cached_property
    def commands(self) -> bool:
        """Say whether its text may be a command."""
        return self.type in _COMMANDS or not self.known

    @functools.cached_property
    def edits(self) -> bool:
        """Say whether its text may be a change of files."""
        if self.read_only:
            return False
        return not self.known or self.type == "content_update" or (self.acts and not self.commands)

    @functools.cached_property
    def acts(self) -> bool:
        """Say whether its text does something, and is not only read, kept or told."""
        return self.commands or not (self.read_only or self.prose or self.type in _SAID)


_TYPES: Final = (
    (
        Kind("", "auto_allowed", "read_only", "low"),
        """read_file list_files search read_git git_status git_log git_diff run_tests embed
        similarity_search analyze_session internal_analysis db_read screenshot scroll wait""",
    ),
    (
        Kind("", "auto_allowed", "read_only", "medium"),  # a GET leaves a trace
        "web_search web_fetch",
    ),
    (
        Kind("", "auto_allowed", "reversible", "low"),
        """memory_write memory_consolidation memory_prune create_branch create_worktree git_commit
        write_state write_log draft click type key drag open_app navigate""",
    ),
    (
        # edit_file and create_file are work in a worktree or outside any repository;
        # a change to the checked-out tree of a repository is modify_code.
        Kind("", "auto_allowed", "reversible", "medium"),
        "content_update edit_file create_file model_call dispatch",
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
        Kind("", "requires_permission", "unknown", "high"),  # nobody has read the command yet
        "run_shell",
    ),
    (
        Kind("", "requires_permission", "reversible", "high"),
        "install_package modify_config start_service open_port",
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
    """The table of types, with the operator's changes and other names.

    A name in the operator's tables no longer means what the shipped aliases say. `ValueError` names
    everything that is wrong with these tables.
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
        """Return the type's traits; the proposal's own risk and reversibility only raise them."""
        kind = self._remembered.get(proposal.type) or self._look_up(proposal.type)
        return raised_by(proposal, kind)

    def named(self, spelling: str) -> Kind:
        """Return the traits of a type that the configuration names, in any spelling."""
        name = _resolved(normalised(spelling), self._aliases)
        return self._table.get(name) or _unknown(name)

    @property
    def known(self) -> Mapping[str, Kind]:
        """Every known type by its own name, aliases left out."""
        return self._table

    def aliases(self) -> dict[str, list[str]]:
        """Return the other names of each type that has some, spellings without `_` left out."""
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
    """Return a kind as the proposal's own risk and reversibility raise it."""
    if proposal.risk is None and proposal.reversibility is None:
        return kind
    return _raised(kind, proposal.reversibility, proposal.risk)


def normalised(name: str) -> str:
    """Return `name` as a person reads it, in lower case, with `_` for spaces and hyphens."""
    return fold(name).strip().lower().translate(_UNDERSCORED)


def _unknown(name: str) -> Kind:
    return Kind(name, "requires_permission", "unknown", "high", known=False)


def _changed(kind: Kind, change: TypeConfig) -> Kind:
    """Apply `change`; of tier and risk, one that is not given follows one that is."""
    tier = change.tier or (_TIER_OF[change.risk] if change.risk else kind.tier)
    risk = change.risk or (kind.risk if _TIER_OF[kind.risk] == tier else _RISK_OF[tier])
    human = kind.human if change.human is None else change.human
    harm = change.reversibility or kind.reversibility
    return Kind(kind.type, tier, harm, risk, human, approve_via=change.approve_via)


def _raised(kind: Kind, reversibility: Reversibility | None, risk: Risk | None) -> Kind:
    """Raise the tier with the risk: what is asked about must not be called auto_allowed."""
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
    """Return what each other name leads to: the operator's, and what is shipped beside them."""
    aliases = {**_TOGETHER, **ALIASES}
    for name, change in types.items():
        aliases.pop(normalised(name), None)
        if change.same_as:
            aliases[normalised(name)] = normalised(change.same_as)
    return aliases


def _resolved(name: str, aliases: Mapping[str, str]) -> str:
    """Return what `name` stands for, or an alias on its way that leads in a circle."""
    return _way(name, aliases)[-1]


def _way(name: str, aliases: Mapping[str, str]) -> list[str]:
    """Return `name` and what it leads to, up to a type or a name that was passed before."""
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
            yield f"types.{name} is the same type as types.{twin}: keep one of them"
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
