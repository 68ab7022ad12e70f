"""How every command and question is answered: done, or refused."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

Yes = Annotated[bool, Meta(extra_json_schema={"const": True})]
No = Annotated[bool, Meta(extra_json_schema={"const": False})]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """It was carried out and is in the journal."""

    ok: Yes


class CommandRefused(Exception):
    """A command that is not carried out; `code` is for machines."""

    def __init__(self, code: str, error: str) -> None:
        super().__init__(error)
        self.code = code


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A command or question that was not carried out; `code` is for machines."""

    ok: No
    error: str
    code: str
    agents: tuple[str, ...] | UnsetType = UNSET  # that are in safe mode: one must be named
    cooldown_remaining_ms: int | UnsetType = UNSET  # until safe mode is left without force
    retry_after_s: float | UnsetType = UNSET  # of a client that sends too many queries


Reply = Done | Refusal
DONE: Final = Done(ok=True)


def refused(code: str, error: str) -> Refusal:
    return Refusal(ok=False, error=error, code=code)


def too_many(by: str) -> str:
    return f'Too many queries from operator "{by}".'


def too_often(by: str, wait: float) -> Refusal:
    """Say that somebody sends too many queries, and when the next is answered."""
    error = f"{too_many(by)} Try again in {wait:.1f} s."
    return Refusal(ok=False, error=error, code="rate_limit", retry_after_s=round(wait, 3))
