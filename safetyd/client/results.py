"""What comes of a permission ask and of a claim, and an agent's own requests, as they are read."""

from datetime import datetime
from typing import ClassVar, Literal

import msgspec

from safetyd.client.exceptions import Down
from safetyd.core.messages.verdict import Cause


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One of the answers below; whether it is a yes is in `approved` or `granted` alone."""

    def __bool__(self) -> bool:
        raise TypeError("an answer is neither true nor false: look at `approved` or `granted`")


class Approved(Answer, frozen=True, kw_only=True):
    """A person said yes, once."""

    message: str = ""
    approved: ClassVar[bool] = True


class Denied(Answer, frozen=True, kw_only=True):
    """No: by a person if `cause` is `human_denied`, else by a guard or for want of an answer."""

    reason: str
    cause: Cause
    approved: ClassVar[bool] = False


class Queued(Answer, frozen=True, kw_only=True):
    """A person was asked and has yet to answer."""

    request_id: str
    approved: ClassVar[bool] = False


class Timeout(Answer, frozen=True, kw_only=True):
    """Nobody answered in time, which is neither a yes nor a no."""

    timeout_minutes: float | None = None
    approved: ClassVar[bool] = False


PermissionResult = Approved | Denied | Queued | Timeout


class Claim(Answer, frozen=True, kw_only=True):
    """Whether what a person approved may be begun by who claims it."""

    granted: bool
    cause: str
    reason: str = ""


class OwnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of this agent: pending, or approved and not used yet."""

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
    timeout_minutes: float | None = None


class _Open(msgspec.Struct, frozen=True):
    requests: tuple[OwnRequest, ...]


_decode_said = msgspec.json.Decoder(_Said).decode
_decode_claim = msgspec.json.Decoder(Claim).decode
_decode_open = msgspec.json.Decoder(_Open).decode


def read_result(data: bytes) -> PermissionResult | None:
    """Return the answer to an ask; what has none of its four shapes is no answer."""
    try:
        said = _decode_said(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if said.queued:
        return Queued(request_id=said.request_id) if said.approved is None else None
    if said.approved is None:
        return None
    if said.approved:
        return Approved(message=said.message)
    if said.cause == "expired_no_response":
        return Timeout(timeout_minutes=said.timeout_minutes)
    return Denied(reason=said.reason, cause=said.cause)


def read_claim(data: bytes) -> Claim | None:
    """Return the answer to a claim; raise `Down` if the daemon can give none now."""
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
