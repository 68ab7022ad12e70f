"""The journal's format: one event, one line of JSON."""

from collections.abc import Callable

import msgspec

from safetyd.core.catalogue.catalogue import AnyEvent
from safetyd.core.events.event import Event

encode: Callable[[Event], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], Event] = msgspec.json.Decoder(AnyEvent).decode
decode_batch: Callable[[bytes], list[Event]] = msgspec.json.Decoder(AnyEvent).decode_lines
