"""Grants: their terms, the list of them, and suggestions."""

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
    """What a person adds to an approval, to permit the same kind for a while."""

    uses: Uses
    until: Until
    max_usd: Dollars | None = None
    text: Pattern | None = None


class RequestGrantTerms(GrantTerms, frozen=True, kw_only=True):
    """The same, with what only a request can tell."""

    program: bool = False  # whatever the unknown program does with the verb that was shown
    session: bool = False  # in the session of the request alone


class GrantMade(Done, frozen=True, kw_only=True):
    id: str
    until: datetime


class GrantCommand(Command[GrantMade], GrantTerms, frozen=True, kw_only=True, tag="grant_add"):
    """Permit a kind of action for a while; it needs a reason."""

    agent: str
    reason: Annotated[str, Meta(max_length=2000)]
    type: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    rule: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    paths: Paths = ()
    via: str = "cli"


class GrantOver(Done, frozen=True, kw_only=True):
    """`left` uses had not been made of it."""

    id: str
    left: int


class RevokeCommand(Command[GrantOver], frozen=True, kw_only=True, tag="grant_revoke"):
    """Revoke a grant."""

    id: str
    reason: Annotated[str, Meta(max_length=2000)] = ""


class GrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A grant in force; amounts are US dollars."""

    id: str
    agent: str
    type: str | None
    project: str | None
    rules: tuple[str, ...]
    text: str | None  # a pattern
    seen: str | None  # the beginning of what was approved: exactly that is permitted
    wide: bool  # whatever the agent says passes
    paths: tuple[str, ...]  # patterns
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


class GrantsAnswer(Done, frozen=True, kw_only=True):
    """Oldest first; `left_out` had no room."""

    grants: tuple[GrantRow, ...]
    left_out: int


class GrantsQuestion(Question[GrantsAnswer], frozen=True, tag="grants"):
    """List the grants in force."""

    paths = ("/grants",)


class SuggestionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that people might want, what speaks for it, and how to write it."""

    then: str
    agent: str
    type: str
    project: str | None
    approved: int
    denied: int
    first_at: datetime
    last_at: datetime
    reason: str
    toml: str


class SuggestionsAnswer(Done, frozen=True, kw_only=True):
    suggestions: tuple[SuggestionRow, ...]
    left_out: int


class SuggestionsQuestion(Question[SuggestionsAnswer], frozen=True, tag="suggestions"):
    """Suggest rules that past answers add up to; nothing changes by itself."""

    paths = ("/suggestions",)
