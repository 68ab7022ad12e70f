"""What is told of a session once it is over: who worked, what was done, and what waits."""

from datetime import datetime
from typing import Final, Literal

import msgspec

from safetyd.core.messages.proposal import Json, Tier

ASKED_FOR: Final = "permission_request"  # the type of what an agent asked permission for

Status = Literal[
    "allowed",  # and no outcome was reported
    "done",
    "failed",
    "blocked",
    "pending",
    "approved",  # and not begun
    "denied",
    "expired",
    "cancelled",
    "superseded",
    "closed",  # somebody was asked, and how it ended is no longer known
]


class Entry(msgspec.Struct, omit_defaults=True, gc=False):
    """One action of a session; what an agent did without a proposal has no tier."""

    type: str
    description: str = ""
    tier: Tier | None = None
    status: Status = "allowed"
    action: str = ""  # of a permission request: what it is for
    request_id: str = ""
    reason: str = ""  # why it was blocked or failed
    details: Json = None


class Usage(msgspec.Struct, frozen=True, gc=False):
    input: int = 0
    output: int = 0


class Transcript(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session as a whole. The implicit one is called ""."""

    session_id: str
    agent: str
    started_at: datetime
    ended_at: datetime  # of a session that fell silent: when it was last heard
    why: Literal["ended", "idle"]
    provider: str | None
    model: str | None
    token_usage: Usage
    actions: tuple[Entry, ...]
    left_out: int  # actions that had no room above
    pending_permissions: int
    scheduled_next: str | None
    budget_remaining_percent: int | None  # of the day's, when the transcript was made
