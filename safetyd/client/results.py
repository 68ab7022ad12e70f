"""Results of permission requests and claims, and an agent's own requests."""

from datetime import datetime
from typing import ClassVar, Literal

import msgspec

from safetyd.client.exceptions import Down, NotNow
from safetyd.core.messages.verdict import Cause


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of the results. Check `approved` or `granted`: `bool(result)` raises."""

    def __bool__(self) -> bool:
        raise TypeError("a result is neither true nor false: check `approved` or `granted`")


class Approved(Answer, frozen=True, kw_only=True):
    """An operator approved the action. The approval covers it once."""

    message: str = ""
    approved: ClassVar[bool] = True


class Denied(Answer, frozen=True, kw_only=True):
    """The action is not allowed.

    If `cause` is `human_denied`, an operator denied it. Otherwise a guard blocked it, or there was
    no valid answer.
    """

    reason: str
    cause: Cause
    approved: ClassVar[bool] = False


class Queued(Answer, frozen=True, kw_only=True):
    """The request is pending: no operator has answered it yet."""

    request_id: str
    reachable_from: datetime | None = None  # when somebody can be notified, if nobody can be now
    approved: ClassVar[bool] = False


class Timeout(Answer, frozen=True, kw_only=True):
    """The request expired without an answer. Do not act."""

    timeout_minutes: float | None = None
    approved: ClassVar[bool] = False


PermissionResult = Approved | Denied | Queued | Timeout


class Claim(Answer, frozen=True, kw_only=True):
    """The answer to a claim. Begin the approved action only if `granted` is true."""

    granted: bool
    cause: str
    reason: str = ""


class OwnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of this agent that is pending, or approved and not yet used."""

    request_id: str
    action: str
    status: Literal["pending", "approved"]
    expires_at: datetime | None = None
    message: str = ""


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    approved: bool | None = None
    queued: bool = False
    message: str = ""
    reason: str = ""
    cause: Cause = "policy"
    request_id: str = ""
    reachable_from: datetime | None = None
    timeout_minutes: float | None = None
    retry: bool = False


class _Open(msgspec.Struct, frozen=True):
    requests: tuple[OwnRequest, ...]


_decode_said = msgspec.json.Decoder(_Said).decode
_decode_claim = msgspec.json.Decoder(Claim).decode
_decode_open = msgspec.json.Decoder(_Open).decode


def read_result(data: bytes) -> PermissionResult | None:
    """Decode the answer to a permission request. Return None for anything else.

    Raises `NotNow` if the message should be sent again.
    """
    try:
        said = _decode_said(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if said.queued:
        queued = Queued(request_id=said.request_id, reachable_from=said.reachable_from)
        return queued if said.approved is None else None
    if said.approved is None:
        return None
    if said.approved:
        return Approved(message=said.message)
    if said.cause == "expired_no_response":
        return Timeout(timeout_minutes=said.timeout_minutes)
    if said.retry:
        raise NotNow(said.reason)
    return Denied(reason=said.reason, cause=said.cause)


def read_claim(data: bytes) -> Claim | None:
    """Decode the answer to a claim. Raise `Down` if the daemon cannot answer now."""
    try:
        claim = _decode_claim(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not claim.granted and claim.cause == "unavailable":
        raise Down(claim.reason)
    return claim


def read_open(data: bytes) -> tuple[OwnRequest, ...] | None:
    try:
        return _decode_open(data).requests
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
