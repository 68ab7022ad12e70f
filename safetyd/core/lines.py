"""The journal's format: one event, one line of JSON."""

from collections.abc import Callable

import msgspec

from safetyd.core.events import (
    AuditRecovered,
    ClockStepped,
    ConfigRejected,
    Decided,
    Event,
    Forgotten,
    Refused,
    Reported,
    Resumed,
    SafetyEvent,
    Stopped,
    Withheld,
)
from safetyd.core.policy import Configured

AnyEvent = (
    Decided
    | Refused
    | Withheld
    | Reported
    | Stopped
    | Resumed
    | Forgotten
    | Configured
    | ConfigRejected
    | ClockStepped
    | AuditRecovered
    | SafetyEvent
)

encode: Callable[[Event], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], Event] = msgspec.json.Decoder(AnyEvent).decode
decode_batch: Callable[[bytes], list[Event]] = msgspec.json.Decoder(AnyEvent).decode_lines
