"""Grants: their terms, the list of grants, and suggestions."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

Uses = Annotated[int, Meta(ge=1, le=1000)]
Until = Annotated[datetime, Meta(tz=True)]
Dollars = Annotated[float, Meta(ge=0)]
Pattern = Annotated[str, Meta(max_length=1024)]
Paths = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=1024)], ...], Meta(max_length=32)
]


class GrantTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a grant: how long and how often the same kind of action stays allowed."""

    uses: Uses
    until: Until
    max_usd: Dollars | None = None
    text: Pattern | None = None


class RequestGrantTerms(GrantTerms, frozen=True, kw_only=True):
    """Terms that apply only to a grant made from a request."""

    program: bool = False  # True: covers any use of the unknown program with the verb shown.
    session: bool = False  # True: covers only the session of the request.


class GrantMade(Done, frozen=True, kw_only=True):
    id: str
    until: datetime


class GrantCommand(Command[GrantMade], GrantTerms, frozen=True, kw_only=True, tag="grant_add"):
    """Allow a kind of action for a while; a reason is required."""

    agent: str
    reason: Annotated[str, Meta(max_length=2000)]
    type: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    rule: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    paths: Paths = ()
    via: str = "cli"


class SuggestionCommand(Command[GrantMade], frozen=True, kw_only=True, tag="suggestion_apply"):
    """Make a suggested grant."""

    id: Annotated[str, Meta(max_length=64)]
    via: str = "cli"


class GrantOver(Done, frozen=True, kw_only=True):
    """`left` is how many uses remained."""

    id: str
    left: int


class RevokeCommand(Command[GrantOver], frozen=True, kw_only=True, tag="grant_revoke"):
    """Revoke a grant."""

    id: str
    reason: Annotated[str, Meta(max_length=2000)] = ""


class GrantOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Why a grant was suggested."""

    suggestion: str  # The id of the suggestion.
    approved: int  # How many requests had been approved, and since when.
    since: datetime  # The first of these approvals.


class GrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A grant in force. Amounts are US dollars."""

    id: str
    agent: str
    type: str | None
    project: str | None
    rules: tuple[str, ...]
    text: str | None  # A pattern that the text must match.
    seen: str | None  # The start of the approved text. The grant covers only this text.
    wide: bool  # True: the grant allows any text of the agent.
    paths: tuple[str, ...]  # Patterns that the paths must match.
    program: str | None  # A program with its subcommand; only its calls are allowed.
    folder: str | None  # The only project folder in which the grant applies.
    uses: int
    left: int
    until: datetime
    max_usd: float | None
    spent_usd: float
    reason: str
    by: str
    via: str
    at: datetime
    request_id: str | None
    # Why it was suggested; missing for other grants.
    suggested: GrantOrigin | msgspec.UnsetType = msgspec.UNSET


class GrantsAnswer(Done, frozen=True, kw_only=True):
    """Grants, oldest first. `left_out` is how many did not fit."""

    grants: tuple[GrantRow, ...]
    left_out: int


class GrantsQuestion(Question[GrantsAnswer], frozen=True, tag="grants"):
    """List the grants in force."""

    paths = ("/grants",)


class SuggestedGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a suggestion writes: a grant that ends at `until`, or at the first denial."""

    agent: str
    type: str
    project: str | None
    cwd: str | None  # The folder in which the actions were proposed.
    shape: str  # The command, with descriptions of the parts that may differ.
    text: str  # A pattern that the whole text must match.
    rules: tuple[str, ...]  # The rules that the grant lifts.
    uses: int
    until: datetime


class SuggestionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A suggested rule or grant, the answers that support it, and its TOML or command."""

    then: str
    agent: str
    type: str
    project: str | None
    approved: int
    denied: int
    first_at: datetime
    last_at: datetime
    reason: str
    toml: str  # Empty if a grant is suggested.
    command: str = ""  # Makes a suggested grant, or approves the next request with a grant.
    id: str = ""  # The id of a suggestion that `safetyd suggestions apply` can make.
    grant: SuggestedGrant | None = None


class SuggestionsAnswer(Done, frozen=True, kw_only=True):
    suggestions: tuple[SuggestionRow, ...]
    left_out: int


class SuggestionsQuestion(Question[SuggestionsAnswer], frozen=True, tag="suggestions"):
    """Suggest rules based on past answers; nothing changes automatically."""

    paths = ("/suggestions",)
