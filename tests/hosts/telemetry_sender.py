"""Sends telemetry to a daemon as a host does, with the token that `safetyd protect` writes."""

import gzip
import json
import urllib.error
import urllib.request
from typing import Any, Final, NamedTuple

from safetyd.bus.keyring import Keyring
from safetyd.bus.telemetry_tokens import read_tokens
from tests.conftest import RunningDaemon

JSON: Final = "application/json"
WAIT_S: Final = 60.0


class Answered(NamedTuple):
    status: int
    content: Any


def token_of(daemon: RunningDaemon, agent: str) -> str:
    return read_tokens(Keyring(daemon.data_dir / "keys").telemetry_key).token(agent)


class TelemetrySender:
    def __init__(self, daemon: RunningDaemon, agent: str, token: str | None = None) -> None:
        self._daemon = daemon
        self._token = token_of(daemon, agent) if token is None else token

    def send(
        self, signal: str, content: bytes, kind: str = JSON, *, packed: bool = False
    ) -> Answered:
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._token}"}
        if packed:
            headers["Content-Encoding"] = "gzip"
            content = gzip.compress(content)
        return self._posted(f"/otlp/v1/{signal}", content, headers)

    def send_with_path(self, signal: str, content: bytes) -> Answered:
        return self._posted(f"/otlp/t/{self._token}/v1/{signal}", content, {"Content-Type": JSON})

    def _posted(self, path: str, content: bytes, headers: dict[str, str]) -> Answered:
        request = urllib.request.Request(f"{self._daemon.endpoint.web}{path}", content, headers)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as response:
                return Answered(response.status, json.load(response))
        except urllib.error.HTTPError as exc:
            with exc:
                return Answered(exc.code, json.load(exc))
