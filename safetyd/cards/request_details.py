"""Requests as JSON: rows of the queue, details of one request, and past answers."""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.core.approvals.request import UNPAUSE, Answer, KeptChange, State
from safetyd.core.events.notification_events import DeliveryState
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Urgency
from safetyd.core.messages.verdict import CommandPart, Verdict

SHORT_DIGEST: Final = 12
ROW_CHARS: Final = 200  # maximum length of a text in a list


class GrantOffer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grant that can be given together with an approval. The counts cover the last week."""

    shape: str  # The command, with blanks for parts that may differ.
    approved: int = 0  # Approved requests that the grant would have covered.
    denied: int = 0  # Denied requests that the grant would have covered.
    program: str = ""  # An unknown program with its subcommand, which can be granted.


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request in the queue. `text` and `description` are shortened."""

    id: str
    agent: str
    type: str
    unknown: bool  # True: the action type is unknown.
    text: str
    description: str
    whole: bool  # True: the full text is here, and the action does nothing else.
    urgency: Urgency
    risk: Risk
    path: str | UnsetType = UNSET  # The first path that the request names.
    paths: int | UnsetType = UNSET  # How many paths the request names.
    rule: str
    reason: str
    parts: tuple[CommandPart, ...] | UnsetType = UNSET  # Parts of a command that need approval.
    grant: GrantOffer | UnsetType = UNSET  # A grant that can be given with an approval.
    asked_at: datetime
    deadline: datetime | None
    left_s: float | None
    until: datetime | None  # The request is deferred until this time.
    repeats: int
    digest: str
    permission: bool  # True: a permission request; the proposal follows later.
    undeliverable: bool  # True: no channel could deliver a message about it.

    @property
    def words(self) -> str:
        """The exact text of the action, or else its description."""
        return self.text or self.description

    @property
    def place(self) -> str:
        """The first path that the request names, and the number of further paths."""
        return _place(self.path, self.paths)

    @property
    def placed_words(self) -> str:
        """The place of the action, then its text or description."""
        return ": ".join(filter(None, (self.place, self.words)))


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How a request ended. An approval may still be unused."""

    request_id: str
    agent: str
    action: str
    text: str
    path: str | UnsetType = UNSET  # The first path that the request named.
    paths: int | UnsetType = UNSET
    decision: State
    decided_at: datetime | None
    decided_via: str | None
    decided_by: str | None
    words: str
    response_time_seconds: float | None
    used: str  # The id of the proposal that used the approval; empty if unused.
    change: KeptChange | UnsetType = UNSET  # The commit of the action's changes, if any.

    @property
    def place(self) -> str:
        """The first path that the request named, and the number of further paths."""
        return _place(self.path, self.paths)


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """A message about a request."""

    delivery: str
    recipient: str
    channel: str
    state: DeliveryState
    at: datetime


class RequestDetails(RequestRow, frozen=True, kw_only=True):
    """All details of a request. `before` are the last answers to requests of the same kind."""

    state: State
    proposal: Proposal
    verdicts: tuple[Verdict, ...]
    tier: Tier
    reversibility: Reversibility
    gives: str  # What an approval permits besides the action, in words.
    resolved: tuple[str, ...]  # The resolved paths, if they differ from those proposed.
    answer: Answer | None
    valid_until: datetime | None
    denied_until: datetime | None  # Until then, the same action is denied automatically.
    used: str
    claimant: str | None
    before: tuple[RequestEnded, ...]
    told: tuple[Telling, ...]
    wish: str = ""  # What is asked for, if it is more than the action, such as more budget.
    not_by_web: str = ""  # Why the control room cannot approve it, and what can.
    not_granted: str = ""  # Why no grant can be made from it.
    change: KeptChange | UnsetType = UNSET  # The commit of the action's changes, if any.
    # How many similar requests of the session were approved, if a grant would cover this one, too.
    similar: int = 0

    @property
    def own(self) -> bool:
        """True if safetyd itself asks to end a pause. An agent can also propose this type."""
        return self.type == UNPAUSE and self.proposal.id == self.id

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of all rules that require approval."""
        return tuple(rule for verdict in self.verdicts for rule in (verdict.rule, *verdict.also))


def _place(path: str | UnsetType, paths: int | UnsetType) -> str:
    if path is UNSET:
        return ""
    more = 0 if paths is UNSET else paths - 1
    return f"{path} and {more} more" if more > 0 else path


def short_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:SHORT_DIGEST]
