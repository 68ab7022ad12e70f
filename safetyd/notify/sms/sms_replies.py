"""Replies by SMS: checking the signature, parsing the answer, and the texts sent back.

Keywords that carriers reserve (YES, START, STOP) never answer a request.
"""

import base64
import hashlib
import hmac
import html
import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from safetyd.notify import answers
from safetyd.notify.code_replies import CodeAnswer

STOP_WORDS: Final = frozenset(
    {"STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT"}
)

SAID: Final[Mapping[answers.Outcome | Literal["unknown", "changed", "not_recorded"], str]] = {
    "approved": "Approved.",
    "denied": "Denied.",
    "held": "Approved, but agents are stopped. The agent must propose the action again later.",
    "unknown": "NOT recorded: no pending request has this code.",
    "changed": "NOT approved: some of these requests have ended. Use the link for the others.",
    "too_late": "NOT recorded: already answered or expired.",
    "elsewhere": "NOT approved: use a terminal to approve. D and the code still deny it.",
    "not_recorded": "NOT recorded. Try again in a minute.",
}
HELP: Final = "Not understood. Reply A and the code to approve, D and the code to deny."

_answer = re.compile(r"\s*([AD])\s*([0-9]{4,6})\s*", re.IGNORECASE).fullmatch
_PORTS: Final = {"http": 80, "https": 443}


# After "stop" the carrier blocks messages to the recipient.
Reply = CodeAnswer | Literal["stop", "unclear"]


def parse(body: str) -> Reply:
    """Parse a reply. Only a letter and a code, without other words, are an answer."""
    if found := _answer(body):
        return CodeAnswer(approve=found[1] in "Aa", code=found[2])
    return "stop" if body.strip().upper() in STOP_WORDS else "unclear"


def twiml(text: str = "") -> str:
    """Return the response to a Twilio webhook; without a text, no SMS is sent back."""
    message = f"<Message>{html.escape(text, quote=False)}</Message>" if text else ""
    return f'<?xml version="1.0" encoding="UTF-8"?><Response>{message}</Response>'


def signed(auth_token: str, url: str, params: Mapping[str, str], signature: str) -> bool:
    """Return True if Twilio signed these form fields for this URL.

    `url` must be the URL configured at Twilio, not the one that a proxy requested.
    """
    fields = "".join(name + value for name, value in sorted(set(params.items())))
    given = signature.encode("utf-8", "replace")
    matches = [
        hmac.compare_digest(_signature(auth_token, spelt + fields), given)
        for spelt in _spellings(url)
    ]
    return any(matches)


def _signature(auth_token: str, text: str) -> bytes:
    # Twilio signs with HMAC-SHA-1, which is still secure as a MAC.
    mac = hmac.new(auth_token.encode(), text.encode("utf-8", "replace"), hashlib.sha1)
    return base64.b64encode(mac.digest())


def _spellings(url: str) -> tuple[str, str]:
    """Return a URL with and without its port: Twilio signs either."""
    parts = urlsplit(url)
    name = parts.netloc if parts.port is None else parts.netloc.rpartition(":")[0]
    port = parts.port or _PORTS.get(parts.scheme, 443)
    return _with_host(parts, name), _with_host(parts, f"{name}:{port}")


def _with_host(parts: SplitResult, host: str) -> str:
    return parts._replace(netloc=host).geturl()
