"""Text for a terminal and for programs. What agents wrote can neither move the cursor nor hide."""

import json
from typing import Final

import msgspec

from safetyd.core.text.visible_text import visible

MAX_CHARS: Final = 500


def plain(text: object, limit: int = MAX_CHARS) -> str:
    """Return one line of at most about `limit` characters in which everything can be seen."""
    said = str(text)
    shown = visible(said[:limit])
    if len(said) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[:limit]}… ({len(said)} characters)"


def several(count: int, noun: str) -> str:
    """Return a number of things, one of them without an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def document(content: object, *, indent: int | None = None) -> str:
    """Return JSON in ASCII: for programs, and harmless if a person looks at it."""
    text = json.dumps(msgspec.to_builtins(content), indent=indent)
    return text.replace("\x7f", "\\u007f")
