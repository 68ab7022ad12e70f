"""What a person's yes is good for: everything that was shown and could change what happens.

Bound is every field of a proposal that its digest covers, but for what an agent may say otherwise
each time without doing anything else: its prose, its own estimates, and where its work belongs.
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
    without_nulls,
)

# The exact text says what happens; without one the description is all that a person had.
PROSE: Final = frozenset({"description", "rationale", "rollback"})
ESTIMATES: Final = frozenset({"confidence", "scores"})
BELONGING: Final = frozenset({"session", "episode", "chain", "task"})
# More of these is not what was shown, less is.
AMOUNTS: Final = frozenset({"cost_usd", "tokens"})
UNBOUND: Final = UNDIGESTED | PROSE | ESTIMATES | BELONGING | AMOUNTS | {"agent"}
BOUND: Final = frozenset(Proposal.__struct_fields__) - UNBOUND

_encode_key = msgspec.msgpack.Encoder().encode
_DEFAULTS: Final = {name: getattr(Proposal(type="-"), name) for name in UNBOUND}
_NO_TOKENS: Final = Tokens()
_NOTHING: Final = Proposal(type="-")
_ACTING: Final = BOUND - {"type", "context", "extra"}


class Seen(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a person saw and permits again: the same action, at the same cost or a lower one."""

    action: bytes
    words: str = ""  # the beginning of it, for people
    cost_usd: float | None = None
    tokens: Tokens | None = None
    shape: bool = False  # the action is that of a shape, so others of that shape are it as well
    shown: Json = None  # by an ask for permission, which does nothing itself
    resolved: tuple[str, ...] = ()  # where the paths that it showed lead

    def covers(self, action: bytes, proposal: Proposal) -> bool:
        return action == self.action and no_dearer(self, proposal)

    def permits(self, proposal: Proposal, resolved: tuple[str, ...]) -> bool:
        """Say whether the ask for permission that was seen showed all that would be done."""
        return self.resolved == resolved and _showed(object_of(self.shown), proposal)


def binding(agent: str, kind: str, proposal: Proposal, resolved: tuple[str, ...] = ()) -> bytes:
    """Name all that a yes is bound to: equal names are what a person has seen.

    `kind` is the proposal's type after aliases, `resolved` where its paths lead.
    """
    bare = msgspec.structs.replace(_bare(proposal), type=kind)
    said = (agent, bare, resolved) if resolved else (agent, bare)
    return hashlib.sha256(canonical(said)).digest()[:16]


def no_dearer(seen: Proposal | Seen, proposal: Proposal) -> bool:
    """Say whether a proposal costs no more than what was seen; what is not said may be anything."""
    if (seen.cost_usd is None) != (proposal.cost_usd is None):
        return False
    most, wanted = seen.tokens or _NO_TOKENS, proposal.tokens or _NO_TOKENS
    fewer = wanted.input <= most.input and wanted.output <= most.output
    return fewer and (proposal.cost_usd or 0.0) <= (seen.cost_usd or 0.0)


def is_all(proposal: Proposal) -> bool:
    """Say whether a text is all that a yes is bound to, beside type and project of a proposal."""
    said = {"type": "-", "text": "", "description": "", "project": None}
    beside = msgspec.structs.replace(_bare(proposal), **said)
    return beside == _NOTHING and no_dearer(_NOTHING, proposal)


def besides(proposal: Proposal) -> list[str]:
    """Return the names of what a yes is bound to beside type, text, description and project."""
    said = BOUND - {"type", "text", "project"}
    names = [name for name in Proposal.__struct_fields__ if name in said]
    bare = _bare(proposal)
    return [name for name in names if getattr(bare, name) != getattr(_NOTHING, name)]


def permits(asked: Proposal, proposal: Proposal) -> bool:
    """Say whether an ask for permission showed all that a proposal would do."""
    return _showed(shown_by(asked), proposal)


def shown_by(asked: Proposal) -> dict[str, object]:
    """Return what an ask for permission shows, by the names that it has in a proposal.

    That is its text and the entries of its context.
    """
    return {**without_nulls(object_of(asked.context)), "text": asked.text}


def as_shown(asked: Proposal) -> Proposal:
    """Return an ask for permission with the project and the place that its context names."""
    shown = object_of(asked.context)
    project, cwd = shown.get("project"), shown.get("cwd")
    return msgspec.structs.replace(
        asked,
        project=project if isinstance(project, str) else None,
        cwd=cwd if isinstance(cwd, str) else None,
    )


def shown_paths(asked: Proposal) -> tuple[tuple[str, ...], str | None]:
    """Return the paths that an ask for permission shows, and the project that it names."""
    shown = object_of(asked.context)
    paths, project = shown.get("paths"), shown.get("project")
    named = project if isinstance(project, str) else None
    if not isinstance(paths, list):
        return (), named
    return tuple(path for path in paths if isinstance(path, str)), named


def action_key(agent: str, kind: str, proposal: Proposal) -> bytes:
    """Name what an agent does, so that doing the same again and again is seen.

    It has less in it than a binding: what an agent adds to each repetition must not hide it.
    """
    what = proposal.text, proposal.target, proposal.paths, proposal.remote, proposal.project
    diff = None if proposal.context is None else diff_of(proposal)
    said = (agent, kind, *what, diff)
    return hashlib.sha256(_encode_key(said)).digest()[:16]


def diff_of(proposal: Proposal) -> object:
    """Return what a proposal would change in files, as far as it says so."""
    return object_of(proposal.context).get("diff")


def _bare(proposal: Proposal) -> Proposal:
    """Return a proposal with nothing in it that a yes is not bound to."""
    bare = msgspec.structs.replace(proposal, **_DEFAULTS)
    seen = proposal.observation
    if seen is not None and seen.screen_hash:  # no person can read it, and it changes all the time
        seen = msgspec.structs.replace(seen, screen_hash="")
        bare = msgspec.structs.replace(bare, observation=seen if seen != Observation() else None)
    if proposal.text:
        return bare
    return msgspec.structs.replace(bare, description=proposal.description)


def _showed(shown: Mapping[str, object], proposal: Proposal) -> bool:
    """Say whether all that a proposal would do was shown.

    What was shown of the action must be done so; other entries only explained it.
    """
    done = _fields(proposal)
    told = (*done.items(), *without_nulls(object_of(proposal.context)).items())
    if any(name not in shown or shown[name] != value for name, value in told):
        return False
    undone = any(shown.get(name) for name in _ACTING - done.keys())
    return not undone and no_dearer(_amounts(shown), proposal)


def _fields(proposal: Proposal) -> dict[str, object]:
    """Return what would be done as the agent sent it, without its context."""
    bare = msgspec.structs.replace(_bare(proposal), context=None, extra=None, description="")
    fields: dict[str, object] = msgspec.json.decode(canonical(bare))
    del fields["type"]
    for name, unknown in object_of(proposal.extra).items():
        # Of a field that is known, these are the parts that are not.
        fields[name] = (
            {**object_of(fields[name]), **object_of(unknown)} if name in fields else unknown
        )
    return fields


def _amounts(shown: Mapping[str, object]) -> Seen:
    """Return the amounts among what was shown; what is none was not shown."""
    try:
        return msgspec.convert({**shown, "action": b""}, Seen)
    except msgspec.ValidationError:
        return Seen(action=b"")


def object_of(said: object) -> Mapping[str, object]:
    """Return an object that an agent sent; as JSON until it has been journalled."""
    fields = msgspec.json.decode(said) if isinstance(said, msgspec.Raw) else said
    return fields if isinstance(fields, Mapping) else {}
