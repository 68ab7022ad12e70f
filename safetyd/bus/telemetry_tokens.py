"""Tokens with which coding agents send telemetry, and nothing else.

They are derived from `keys/telemetry.key`, so the daemon stores no tokens, and anyone who can read
that key can create a token for any agent. Tokens are written to settings files, which other
programs of the user can read.
"""

import hashlib
import hmac
import re
from pathlib import Path
from typing import Final

from safetyd.bus.keyring import KEY_BYTES, KeyUnusable
from safetyd.core.messages.proposal import is_token

PREFIX: Final = "otlp"

_is_key = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}\Z").match


class TelemetryTokens:
    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def token(self, agent: str) -> str:
        mac = hmac.new(self._key, agent.encode(), hashlib.sha256).hexdigest()
        return f"{PREFIX}.{agent}.{mac}"

    def agent_of(self, token: str) -> str:
        """Return the agent of a token, or an empty string if the token is not valid."""
        _, _, rest = token.partition(".")
        agent = rest.partition(".")[0]
        given = token.encode(errors="replace")
        same = is_token(agent) and hmac.compare_digest(given, self.token(agent).encode())
        return agent if same else ""


def read_tokens(path: Path) -> TelemetryTokens:
    key = path.read_text(errors="replace").strip()
    if not _is_key(key):
        raise KeyUnusable(f"{path} does not contain a key ({KEY_BYTES} bytes in hexadecimal)")
    return TelemetryTokens(key)
