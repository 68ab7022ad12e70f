"""The recorded telemetry of hosts. `tests/hosts/real/record_telemetry.py` records it."""

import json
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

RECORDED: Final = Path(__file__).with_name("telemetry")
CANARY: Final = "canary-of-a-prompt"
SECOND: Final = 10**9
# Names of attributes and fields that safetyd reads; all other texts are the canary.
READ: Final = frozenset(
    [
        "event.name",
        "event.sequence",
        "event.timestamp",
        "event.kind",
        "session.id",
        "conversation.id",
        "model",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_creation_tokens",
        "cost_usd",
        "duration_ms",
        "input_token_count",
        "output_token_count",
        "cached_token_count",
        "tool_token_count",
        "thoughts_token_count",
        "cached_content_token_count",
        "tool_name",
        "tool_use_id",
        "call_id",
        "function_name",
        "success",
        "arguments",
        "gen_ai.operation.name",
        "gen_ai.conversation.id",
        "gen_ai.response.model",
        "gen_ai.request.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "timeUnixNano",
        "observedTimeUnixNano",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "spanId",
        "scope",
    ]
)


class Sent(NamedTuple):
    signal: str
    body: Any

    @property
    def content(self) -> bytes:
        return json.dumps(self.body).encode()


def recorded(name: str) -> list[Sent]:
    """Return what a program sent, such as `codex-0.169.0`."""
    lines = (RECORDED / f"{name}.jsonl").read_text().splitlines()
    return [Sent(**json.loads(line)) for line in lines]


def sent_now(name: str) -> list[Sent]:
    """Return what a program sent, as if every call began after now."""
    return [Sent(sent.signal, _now(sent.body)) for sent in recorded(name)]


def _now(value: Any, key: str = "") -> Any:
    match value:
        case dict():
            return {name: _now(inner, name) for name, inner in value.items()}
        case list():
            return [_now(inner, key) for inner in value]
        case str() if key.endswith("UnixNano") and int(value):
            return str(time.time_ns() + 10 * SECOND + int(value) % SECOND)
    return value
