"""Encode proposals and permission requests, with an id and a digest."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from safetyd.client.arguments import AskFields, ProposalFields
from safetyd.client.encoding import check, encode
from safetyd.client.exceptions import Malformed
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import (
    MAX_LINE,
    MAX_TEXT_BYTES,
    Proposal,
    digest,
    is_token,
    shortest,
    without_nulls,
)
from safetyd.core.messages.verdict import Cause, Severity

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_FIELDS: Final = frozenset(ProposalFields.__annotations__)
_ASK_FIELDS: Final = frozenset(AskFields.__annotations__)

_TO_MODELS: Final[Mapping[str, str]] = {
    "unavailable": (
        "safetyd did not answer, so this is not allowed. Do not act. If the reason names a problem "
        "that a human must fix, report it and stop. Otherwise try again later."
    ),
    "disabled": "Autonomous work is switched off. Do not act and do not try another way.",
    "malformed": "The proposal is malformed. Do not act. Fix the named field and propose again.",
}

_read_fields = msgspec.json.Decoder(dict[str, object], float_hook=shortest).decode


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    id: str
    digest: str = ""
    payload: bytes = b""
    wait: bool = False
    timeout_s: float | None = None
    flaw: str = ""  # why the daemon would reject it as malformed

    def refused(self, cause: Cause, reason: str) -> Decision:
        """Return a block made by the client, without an answer from the daemon."""
        return Decision(
            id=self.id,
            agent=self.agent,
            decision=Severity.BLOCK,
            cause=cause,
            reason=reason,
            triggered_rules=(f"client.{cause}",),
            agent_message=_TO_MODELS.get(cause, ""),
            digest=self.digest,
        )


def draft(agent: str, action: str, fields: Mapping[str, object]) -> Draft:
    """Return a draft of a proposal. A proposal without an id gets a new one.

    Raises `TypeError` for a wrong type or an unknown field. If the daemon would reject a value as
    malformed, the draft has a `flaw`.
    """
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise TypeError(f"a proposal has no field {', '.join(map(repr, sorted(unknown)))}")
    return prepared(agent, {"type": action, **in_folder(fields)})


def in_folder(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Add the working directory, unless `cwd` is given or no path is relative."""
    paths, here = fields.get("paths"), _working_directory()
    if not here or fields.get("cwd") or not isinstance(paths, Sequence) or isinstance(paths, str):
        return fields
    names = (os.fspath(path) for path in paths if isinstance(path, str | os.PathLike))
    if all(name.startswith(("/", "~", "$")) for name in names):
        return fields
    return {**fields, "cwd": here}


def _working_directory() -> str:
    """Return this process's folder. Empty if it was deleted, or has a name that cannot be sent."""
    try:
        here = os.getcwd()  # noqa: PTH109 - a text is needed
        here.encode()
    except (OSError, UnicodeEncodeError):
        return ""
    return here if len(here) <= MAX_LINE else ""


def prepared(agent: str, fields: Mapping[str, object]) -> Draft:
    """Return a draft of a proposal, unknown fields included. Raise `TypeError` for wrong types."""
    name = id_of(fields)
    try:
        payload = encode({**without_nulls(fields), "id": fields.get("id") or name})
        proposal = check(payload, Proposal)
    except Malformed as exc:
        return Draft(agent=agent, id=name, flaw=str(exc))
    if len(proposal.text.encode()) > MAX_TEXT_BYTES:
        return Draft(agent=agent, id=name, flaw=f"text has more than {MAX_TEXT_BYTES} bytes")
    return Draft(
        agent=agent,
        id=name,
        digest=digest(agent, _read_fields(payload)),
        payload=payload,
        wait=proposal.wait,
        timeout_s=proposal.timeout_s,
    )


def draft_ask(agent: str, action: str, fields: Mapping[str, object]) -> Draft:
    """Return a draft of a permission request, with the id and digest of the matching proposal.

    Wrong types, unknown fields and malformed values are handled as in `draft`.
    """
    if unknown := fields.keys() - _ASK_FIELDS:
        raise TypeError(
            f"a permission request has no field {', '.join(map(repr, sorted(unknown)))}"
        )
    given = without_nulls(fields)
    context = given.get("context", {})
    if not isinstance(context, Mapping):
        raise TypeError("context must be an object with named fields")
    if context:
        given["context"] = in_folder(context)
    said = draft(agent, action, _as_proposal(given))
    if said.flaw:
        return said
    try:
        payload = encode({"action": action, **given, "id": said.id})
    except Malformed as exc:
        return msgspec.structs.replace(said, flaw=str(exc))
    return msgspec.structs.replace(said, payload=payload)


def id_of(fields: Mapping[str, object]) -> str:
    """Return the id of a proposal, or a new one if it has no valid id."""
    given = fields.get("id")
    return given if isinstance(given, str) and is_token(given) else new_id()


def new_id() -> str:
    """Return a ULID: an id that sorts by creation time."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def _as_proposal(ask: Mapping[str, object]) -> Mapping[str, object]:
    said = {"description": "", "rationale": "", **ask}
    minutes = said.pop("timeout_minutes", None)
    if minutes is not None:
        said["timeout_s"] = minutes * 60 if isinstance(minutes, int | float) else minutes
    context = ask.get("context")
    if isinstance(context, Mapping) and isinstance(text := context.get("text"), str):
        said["text"] = text
    return said
