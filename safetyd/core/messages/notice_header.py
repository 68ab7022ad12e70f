"""The mark of what the daemon publishes of its own accord.

Where an answer goes is the asker's choice, and may be where events are heard; none has the mark.
"""

from typing import Final

HEADER: Final = "Safetyd-Notice"
VALUE: Final = "1"
