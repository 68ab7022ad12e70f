"""What `doctor` found: each says what it is about, how bad it is, and what to do."""

from typing import Literal

import msgspec

Level = Literal["ok", "note", "wrong"]


class Finding(msgspec.Struct, frozen=True):
    check: str
    level: Level
    text: str


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def note(check: str, text: str) -> Finding:
    return Finding(check, "note", text)


def wrong(check: str, text: str) -> Finding:
    return Finding(check, "wrong", text)
