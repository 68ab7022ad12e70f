"""Writes and parses commit messages. Text from an agent cannot start a new line."""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC
from typing import Final
from urllib.parse import quote

import msgspec

from safetyd.core.text.visible_text import printable_line
from safetyd.extras.file_history.history_records import CommitOrder, Why
from safetyd.operators.contract.history_contract import Author

MAX_SUBJECT: Final = 100
MAX_VALUE: Final = 200
_MAX_NAME: Final = 100
_PLAIN: Final = re.compile(r"\w[\w-]*(?:\.[\w-]+)*", re.ASCII)
# The trailers and the fields that they carry.
_TRAILERS: Final = {
    "Safetyd-Why": "why",
    "Safetyd-Proposal": "id",
    "Safetyd-Decision": "decision",
    "Safetyd-Agent": "agent",
    "Safetyd-Session": "session",
    "Safetyd-Action": "action",
    "Safetyd-Approver": "approver",
    "Safetyd-Target": "target",
    "Safetyd-Left-Out": "left_out",
}
_PREFIXES: Final[Mapping[Why, str]] = {
    "after": "feat:",
    "failed": "failed:",
    "unknown": "unknown:",
    "before": "human:",
    "rollback": "rollback:",
    "automatic_rollback": "rollback:",
}
_AUTHORS: Final[Mapping[str, Author]] = {
    "unknown": "unknown",
    "before": "human",
    "rollback": "rollback",
    "automatic_rollback": "automatic_rollback",
}


class CommitNote(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a commit message."""

    subject: str
    why: str = ""
    id: str = ""
    decision: int = 0
    agent: str = ""
    session: str = ""
    action: str = ""
    approver: str = ""
    target: str = ""
    left_out: str = ""

    @property
    def author(self) -> Author:
        """Return the author of the changes."""
        return _AUTHORS.get(self.why, "agent")


def written(order: CommitOrder, *, only_state: bool) -> str:
    """Return a commit message: one line, and trailers."""
    lines = [_subject(order, only_state=only_state), ""]
    for trailer, field in _TRAILERS.items():
        if value := getattr(order, field):
            lines.append(f"{trailer}: {value_line(str(value))}")
    return "\n".join(lines) + "\n"


def read(message: str) -> CommitNote:
    """Parse a commit message. Everything before the first empty line is the subject."""
    subject, _, rest = message.partition("\n\n")
    found: dict[str, str] = {}
    for line in rest.split("\n"):
        trailer, _, value = line.partition(": ")
        if field := _TRAILERS.get(trailer):
            found.setdefault(field, value)
    number = found.pop("decision", "")
    decision = int(number) if number.isascii() and number.isdigit() else 0
    return CommitNote(subject=subject.replace("\n", " "), decision=decision, **found)


def value_line(text: str) -> str:
    """Return a text as the value of a trailer: one line of limited length."""
    return _bounded(printable_line(text), MAX_VALUE)


def reference(agent: str, session: str) -> str:
    """Return the ref of a session. It is unique for each session."""
    return f"refs/safetyd/{_name(agent)}/{_name(session)}"


def _name(text: str) -> str:
    """Return a text as part of a ref: `_` if it is empty, with %XX for special characters."""
    if not text:
        return "_"
    plain = _PLAIN.fullmatch(text) and text != "_" and not text.endswith(".lock")
    name = text if plain else quote(text, safe="", errors="replace")
    if not plain:
        name = name.replace(".", "%2E").replace("~", "%7E").replace("-", "%2D")
        name = "%5F" if name == "_" else name
    if len(name) <= _MAX_NAME:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"{name[:_MAX_NAME]}%{digest[:16]}"


def _subject(order: CommitOrder, *, only_state: bool) -> str:
    agent = printable_line(order.agent) or "-"
    action = printable_line(order.action) or order.why
    if only_state:
        at = order.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        room = MAX_SUBJECT - len(f"state:   {at}")
        half = room // 2
        return f"state: {_bounded(agent, half)} {_bounded(action, half)} {at}"
    ticket = _bounded(printable_line(order.ticket), MAX_SUBJECT // 2)
    words = printable_line(order.description) or f"{action} of {agent}"
    if order.why == "before" and order.agent:
        words = f"changes found before {words}"
    return _bounded(" ".join(filter(None, (_PREFIXES[order.why], ticket, words))), MAX_SUBJECT)


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
