"""Answers to commands and queries: done, or refused."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

Yes = Annotated[bool, Meta(extra_json_schema={"const": True})]
No = Annotated[bool, Meta(extra_json_schema={"const": False})]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The command was carried out and is in the journal."""

    ok: Yes


class CommandRefused(Exception):
    """Raised to refuse a command; `code` is for programs."""

    def __init__(self, code: str, error: str) -> None:
        super().__init__(error)
        self.code = code


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A command or query was refused; `code` is for programs."""

    ok: No
    error: str
    code: str
    agents: tuple[str, ...] | UnsetType = UNSET  # Agents in safe mode; name one of them.
    # Milliseconds until safe mode can be left without force.
    cooldown_remaining_ms: int | UnsetType = UNSET
    retry_after_s: float | UnsetType = UNSET  # When to send the next query, in seconds.


Reply = Done | Refusal
DONE: Final = Done(ok=True)


def refused(code: str, error: str) -> Refusal:
    return Refusal(ok=False, error=error, code=code)


def too_many(by: str) -> str:
    return f'Too many queries from operator "{by}".'


def too_often(by: str, wait: float) -> Refusal:
    """Refuse a query because the operator sends too many, and say when to retry."""
    error = f"{too_many(by)} Try again in {wait:.1f} s."
    return Refusal(ok=False, error=error, code="rate_limit", retry_after_s=round(wait, 3))
