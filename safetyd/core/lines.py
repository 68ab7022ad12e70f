"""The journal's format: one event, one line of JSON."""

import msgspec

from safetyd.core.events import (
    AuditRecovered,
    ClockStepped,
    ConfigRejected,
    Decided,
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

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(AnyEvent).decode
decode_batch = msgspec.json.Decoder(AnyEvent).decode_lines
