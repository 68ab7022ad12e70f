"""Requests as JSON: a row of the queue, the details of one request, past answers."""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.core.approvals.request import UNPAUSE, Answer, KeptChange, State
from safetyd.core.events.notification_events import DeliveryState
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Urgency
from safetyd.core.messages.verdict import CommandPart, Verdict

SHORT_DIGEST: Final = 12
ROW_CHARS: Final = 200  # of a text in a list


class GrantOffer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be granted with an approval, in words. The counts are of the last week."""

    shape: str  # the command, with blanks for what may differ
    approved: int = 0  # requests that the grant would have covered
    denied: int = 0
    program: str = ""  # nobody knows it: it may be granted with its verb, whatever else it is given


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request in the queue; `text` and `description` are cut short."""

    id: str
    agent: str
    type: str
    unknown: bool  # a type that nobody configured
    text: str
    description: str
    whole: bool  # its text is here, and is all that would be done
    urgency: Urgency
    risk: Risk
    path: str | UnsetType = UNSET  # the first that it names
    paths: int | UnsetType = UNSET  # how many it names
    rule: str
    reason: str
    parts: tuple[CommandPart, ...] | UnsetType = UNSET  # of a command, that do not pass
    grant: GrantOffer | UnsetType = UNSET  # what may be granted with an approval
    asked_at: datetime
    deadline: datetime | None
    left_s: float | None
    until: datetime | None  # put off until then
    repeats: int
    digest: str
    permission: bool  # asked beforehand: it is for a proposal that is yet to come
    undeliverable: bool  # every channel refused to tell of it

    @property
    def words(self) -> str:
        """What would be done, exactly or as the agent describes it."""
        return self.text or self.description

    @property
    def place(self) -> str:
        """The first path that it names, and how many more there are."""
        return _place(self.path, self.paths)

    @property
    def placed_words(self) -> str:
        """Where something would be done, and then what."""
        return ": ".join(filter(None, (self.place, self.words)))


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How a request ended; an approval may still be unused."""

    request_id: str
    agent: str
    action: str
    text: str
    path: str | UnsetType = UNSET  # the first that it named
    paths: int | UnsetType = UNSET
    decision: State
    decided_at: datetime | None
    decided_via: str | None
    decided_by: str | None
    words: str
    response_time_seconds: float | None
    used: str  # the id of the proposal that used an approval, or nothing
    change: KeptChange | UnsetType = UNSET  # what the action changed, if that was committed

    @property
    def place(self) -> str:
        """The first path that it named, and how many more there are."""
        return _place(self.path, self.paths)


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """A message about a request."""

    delivery: str
    recipient: str
    channel: str
    state: DeliveryState
    at: datetime


class RequestDetails(RequestRow, frozen=True, kw_only=True):
    """All that is known of a request; `before` are the last answers to the same kind."""

    state: State
    proposal: Proposal
    verdicts: tuple[Verdict, ...]
    tier: Tier
    reversibility: Reversibility
    gives: str  # what an approval gives beside the action
    resolved: tuple[str, ...]  # where its paths lead, if elsewhere than they say
    answer: Answer | None
    valid_until: datetime | None
    denied_until: datetime | None  # the same action is denied without asking
    used: str
    claimant: str | None
    before: tuple[RequestEnded, ...]
    told: tuple[Telling, ...]
    not_by_web: str = ""  # why the control room cannot approve it, and what can
    not_granted: str = ""  # why it cannot be permitted for a while
    change: KeptChange | UnsetType = UNSET  # what the action changed, if that was committed

    @property
    def own(self) -> bool:
        """Whether safetyd itself asks to end a pause; an agent may propose the same type."""
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
