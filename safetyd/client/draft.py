"""A proposal made ready to be sent: with an id, a digest and its bytes."""

import os
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from safetyd.client.arguments import AskFields, ProposalFields
from safetyd.client.encoding import check, encode
from safetyd.client.exceptions import Malformed
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import (
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
        "Nobody could be asked, so this is not allowed. Do not act. If the reason names what a "
        "person has to mend, tell a person and stop; otherwise try again later."
    ),
    "disabled": "Autonomous work is switched off. Do not act and do not try another way.",
    "malformed": "The proposal is malformed. Do not act; propose again with what is named mended.",
}

_read_fields = msgspec.json.Decoder(dict[str, object], float_hook=shortest).decode


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    id: str
    digest: str = ""
    payload: bytes = b""
    wait: bool = False
    timeout_s: float | None = None
    flaw: str = ""  # why it is not worth sending

    def refused(self, cause: Cause, reason: str) -> Decision:
        """Return the block that stands for an answer nobody gave."""
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
    """Make a proposal of `fields`; one without an id gets a new one.

    A wrong type or an unknown field is a `TypeError`. A value that the daemon would call malformed
    makes a draft with a flaw.
    """
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise TypeError(f"a proposal has no field {', '.join(map(repr, sorted(unknown)))}")
    return prepared(agent, {"type": action, **fields})


def prepared(agent: str, fields: Mapping[str, object]) -> Draft:
    """Make a proposal of `fields`, unknown ones and all; raise `TypeError` for a wrong type."""
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
    """Make a permission ask, with the id and the digest of the proposal that it stands for.

    What is wrong with it is told as by `draft`.
    """
    if unknown := fields.keys() - _ASK_FIELDS:
        raise TypeError(f"a permission ask has no field {', '.join(map(repr, sorted(unknown)))}")
    given = without_nulls(fields)
    if not isinstance(given.get("context", {}), Mapping):
        raise TypeError("context is an object with names, not a single value")
    said = draft(agent, action, _as_proposal(given))
    if said.flaw:
        return said
    try:
        payload = encode({"action": action, **given, "id": said.id})
    except Malformed as exc:
        return msgspec.structs.replace(said, flaw=str(exc))
    return msgspec.structs.replace(said, payload=payload)


def id_of(fields: Mapping[str, object]) -> str:
    """Return the id of a proposal; a new one if it has none that can be sent."""
    given = fields.get("id")
    return given if isinstance(given, str) and is_token(given) else new_id()


def new_id() -> str:
    """Return an id that sorts by the time it was made: a ULID."""
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
