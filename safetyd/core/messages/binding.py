"""The fields that a proposal must share with an approved one to be covered by the approval.

An approval is bound to all fields that the digest covers, except those that can differ without
changing the action: prose, estimates, and the session, episode, chain and task.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from safetyd.core.messages.proposal import (
    UNDIGESTED,
    Json,
    Observation,
    Proposal,
    Tokens,
    canonical,
    shortest,
    without_nulls,
)

# If there is no text, the operator saw only the description, so the description is bound too.
PROSE: Final = frozenset({"description", "rationale", "rollback"})
ESTIMATES: Final = frozenset({"confidence", "scores"})
BELONGING: Final = frozenset({"session", "episode", "chain", "task"})
# An approval covers smaller amounts, but not larger ones.
AMOUNTS: Final = frozenset({"cost_usd", "tokens"})
UNBOUND: Final = UNDIGESTED | PROSE | ESTIMATES | BELONGING | AMOUNTS | {"agent"}
BOUND: Final = frozenset(Proposal.__struct_fields__) - UNBOUND

_encode_key = msgspec.msgpack.Encoder().encode
_decode = msgspec.json.Decoder(float_hook=shortest).decode  # parses numbers as in a context
_DEFAULTS: Final = {name: getattr(Proposal(type="-"), name) for name in UNBOUND}
_NO_TOKENS: Final = Tokens()
_NOTHING: Final = Proposal(type="-")
# If one of these fields is empty, it counts as missing.
_EMPTY: Final = (BOUND | {"description"}) - {"type", "context", "extra"}


class Seen(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An action that an operator saw. A grant for it covers the same or a lower cost."""

    action: bytes  # The key of the action that the operator saw.
    words: str = ""  # The beginning of the action, for display.
    cost_usd: float | None = None
    tokens: Tokens | None = None
    shape: bool = False  # True: `action` is a shape, and all commands of that shape match.
    shown: Json = None  # The action that a permission request showed.
    resolved: tuple[str, ...] = ()  # The resolved paths that the operator saw.

    def covers(self, action: bytes, proposal: Proposal) -> bool:
        return action == self.action and no_dearer(self, proposal)

    def permits(self, proposal: Proposal, resolved: tuple[str, ...]) -> bool:
        """Return whether the permission request showed everything that would be done."""
        return self.resolved == resolved and _showed(object_of(self.shown), proposal)


def binding(agent: str, kind: str, proposal: Proposal, resolved: tuple[str, ...] = ()) -> bytes:
    """Return a hash of everything that an approval is bound to.

    `kind` is the resolved type, `resolved` the resolved paths.
    """
    bare = msgspec.structs.replace(_bare(proposal), type=kind)
    said = (agent, bare, resolved) if resolved else (agent, bare)
    return hashlib.sha256(canonical(said)).digest()[:16]


def no_dearer(seen: Proposal | Seen, proposal: Proposal) -> bool:
    """Return whether a proposal costs at most the amounts that were shown.

    If only one of the two costs is known, return False.
    """
    if (seen.cost_usd is None) != (proposal.cost_usd is None):
        return False
    most, wanted = seen.tokens or _NO_TOKENS, proposal.tokens or _NO_TOKENS
    fewer = wanted.input <= most.input and wanted.output <= most.output
    # Cached tokens are cheaper.
    fewer &= wanted.input - wanted.cached <= most.input - most.cached
    return fewer and (proposal.cost_usd or 0.0) <= (seen.cost_usd or 0.0)


def is_all(proposal: Proposal) -> bool:
    """Return whether a proposal consists only of type, text and project."""
    said = {"type": "-", "text": "", "description": "", "project": None}
    beside = msgspec.structs.replace(_bare(proposal), **said)
    return beside == _NOTHING and no_dearer(_NOTHING, proposal)


def besides(proposal: Proposal) -> list[str]:
    """Return the bound fields that are set, except type, text, description and project."""
    said = BOUND - {"type", "text", "project"}
    names = [name for name in Proposal.__struct_fields__ if name in said]
    bare = _bare(proposal)
    return [name for name in names if getattr(bare, name) != getattr(_NOTHING, name)]


def permits(asked: Proposal, proposal: Proposal) -> bool:
    """Return whether a permission request showed everything that a proposal would do."""
    return _showed(shown_by(asked), proposal)


def shown_by(asked: Proposal) -> dict[str, object]:
    """Return what a permission request shows, as fields of a proposal.

    These are the fields of its context, and its text or, without a text, its description.
    """
    words = {"text": asked.text} if asked.text else {"description": asked.description}
    return {**without_nulls(object_of(asked.context)), **words}


def as_shown(asked: Proposal) -> Proposal:
    """Return a permission request with the project and folder that its context names."""
    shown = object_of(asked.context)
    project, cwd = shown.get("project"), shown.get("cwd")
    return msgspec.structs.replace(
        asked,
        project=project if isinstance(project, str) else None,
        cwd=cwd if isinstance(cwd, str) else None,
    )


def shown_paths(asked: Proposal) -> tuple[str, ...]:
    """Return the paths that a permission request shows."""
    paths = object_of(asked.context).get("paths")
    if not isinstance(paths, list):
        return ()
    return tuple(path for path in paths if isinstance(path, str))


def action_key(agent: str, kind: str, proposal: Proposal) -> bytes:
    """Return a hash that identifies repetitions of an action.

    The hash covers fewer fields than `binding`, so that small variations cannot hide a repetition.
    """
    what = proposal.text, proposal.target, proposal.paths, proposal.remote, proposal.project
    diff = None if proposal.context is None else diff_of(proposal)
    said = (agent, kind, *what, diff)
    return hashlib.sha256(_encode_key(said)).digest()[:16]


def diff_of(proposal: Proposal) -> object:
    """Return the diff in the context of a proposal, if any."""
    return object_of(proposal.context).get("diff")


def _bare(proposal: Proposal) -> Proposal:
    """Return a proposal with only the bound fields."""
    bare = msgspec.structs.replace(proposal, **_DEFAULTS)
    seen = proposal.observation
    if seen is not None and seen.screen_hash:  # operators cannot read it, and it changes often
        seen = msgspec.structs.replace(seen, screen_hash="")
        bare = msgspec.structs.replace(bare, observation=seen if seen != Observation() else None)
    if proposal.text:
        return bare
    return msgspec.structs.replace(bare, description=proposal.description)


def _showed(shown: Mapping[str, object], proposal: Proposal) -> bool:
    """Return whether a proposal has the same fields and context as the shown action.

    The operator may have approved the action because of any of them. The only permitted difference
    is a lower amount.
    """
    done, context = _fields(_bare(proposal)), without_nulls(object_of(proposal.context))
    if not all(
        _same(shown, name, value) for said in (done, context) for name, value in said.items()
    ):
        return False
    said = {**_fields(proposal), **context}
    left = {name: value for name, value in shown.items() if value or name not in _EMPTY}
    whole = all(_same(said, name, left[name]) for name in left.keys() - AMOUNTS)
    return whole and no_dearer(_amounts(shown), proposal)


def _same(fields: Mapping[str, object], name: str, value: object) -> bool:
    """Return whether a field has this value; `true` and `1` are different in JSON."""
    return name in fields and canonical(fields[name]) == canonical(value)


def _fields(proposal: Proposal) -> dict[str, object]:
    """Return a proposal as the agent sent it, without its type and context."""
    bare = msgspec.structs.replace(proposal, context=None, extra=None)
    fields: dict[str, object] = _decode(canonical(bare))
    del fields["type"]
    for name, unknown in object_of(proposal.extra).items():
        # A name in both is a known field with unknown parts.
        fields[name] = (
            {**object_of(fields[name]), **object_of(unknown)} if name in fields else unknown
        )
    return fields


def _amounts(shown: Mapping[str, object]) -> Seen:
    """Return the amounts that were shown. Invalid values count as not shown."""
    try:
        amounts = {name: shown[name] for name in AMOUNTS & shown.keys()}
        return msgspec.convert({**amounts, "action": b""}, Seen)
    except msgspec.ValidationError:
        return Seen(action=b"")


def object_of(said: object) -> Mapping[str, object]:
    """Return an agent's JSON object, decoded if it is still raw. Return {} if it is no object."""
    fields = msgspec.json.decode(said) if isinstance(said, msgspec.Raw) else said
    return fields if isinstance(fields, Mapping) else {}
