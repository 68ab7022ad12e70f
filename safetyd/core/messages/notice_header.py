"""The header of messages that the daemon publishes by itself.

Clients choose the reply subject, and could choose one of events. Replies never have this header.
"""

from typing import Final

HEADER: Final = "Safetyd-Notice"
VALUE: Final = "1"
