"""What a desktop says after a button was pressed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from safetyd.notify.sanitize import one_line

Result = Mapping[str, Any]  # of one answer, as the daemon tells it

_CHARS: Final = 200
_DONE: Final = {"approve": "approved", "deny": "denied"}


class Outcome(NamedTuple):
    summary: str
    detail: str = ""


def outcome(command: str, result: Result) -> Outcome:
    """Return what came of an answer: that it counts, or why it does not."""
    if not result["ok"]:
        return _refused(command, result)
    held = result.get("held") if command == "approve" else None
    if held:
        return Outcome("Approved, but held back now.", f"Why: {_plain(held)}")
    return Outcome(f"{_DONE[command].capitalize()}. The agent has been told.")


def _refused(command: str, result: Result) -> Outcome:
    if result["code"] == "expired":
        return Outcome("Too late.", "Nobody answered in time, so it did not happen.")
    if result["code"] != "already_decided":
        return Outcome("Not recorded.", _plain(result["error"]))
    already = f"Already {_plain(result['decision'])}."
    if result["decision"] != _DONE[command]:
        already += " Your answer was NOT applied."
    return Outcome(already, _first(result))


def _first(result: Result) -> str:
    """Say who answered first, if anybody did: a request may end without that."""
    if "by" not in result:
        return ""
    return f"By {_plain(result['by'])} via {_plain(result['via'])} at {_when(result['at'])}"


def _plain(words: object) -> str:
    return one_line(str(words), _CHARS)


def _when(at: object) -> str:
    return f"{datetime.fromisoformat(str(at)).astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
