"""The header of messages that the daemon publishes without a request.

A client could choose the subject of an event as its reply subject. Replies never have this header,
so they cannot be mistaken for events.
"""

from typing import Final

HEADER: Final = "Safetyd-Notice"
VALUE: Final = "1"
