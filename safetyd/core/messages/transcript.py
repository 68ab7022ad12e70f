"""The transcript of a session after its end: agent, actions and pending requests."""

from datetime import datetime
from typing import Final, Literal

import msgspec

from safetyd.core.messages.proposal import Json, Tier

ASKED_FOR: Final = "permission_request"  # the type of a permission request

Status = Literal[
    "allowed",  # allowed, but no outcome was reported
    "done",
    "failed",
    "blocked",
    "pending",
    "approved",  # not started
    "denied",
    "expired",
    "cancelled",
    "superseded",
    "closed",  # the result of the request is no longer known
]


class Entry(msgspec.Struct, omit_defaults=True, gc=False):
    """One action of a session. It has no tier if there was no proposal."""

    type: str
    description: str = ""
    tier: Tier | None = None
    status: Status = "allowed"
    action: str = ""  # The action that a permission request is for.
    request_id: str = ""
    reason: str = ""  # Why the action was blocked or failed.
    details: Json = None


class Usage(msgspec.Struct, frozen=True, gc=False):
    input: int = 0
    output: int = 0


class Transcript(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole session. The implicit session is called ""."""

    session_id: str
    agent: str
    started_at: datetime
    ended_at: datetime  # If the session was idle: the time of its last message.
    why: Literal["ended", "idle"]
    provider: str | None
    model: str | None
    token_usage: Usage
    actions: tuple[Entry, ...]
    left_out: int  # How many actions are omitted for lack of space.
    pending_permissions: int
    scheduled_next: str | None
    # How much of the daily budget was left when the transcript was made.
    budget_remaining_percent: int | None
