"""Proposals of the load generator: a realistic edit, with ordinary and hostile texts."""

import json
from typing import Final

from safetyd.core.messages.proposal import MAX_TEXT_BYTES

_WORDS: Final = "replace the old header with the new one and keep both lines of the licence as is "
SHORT: Final = (_WORDS * 2)[:100]
LONG: Final = (_WORDS * 200)[:MAX_TEXT_BYTES]

# Each is a repeated near miss, the worst case for a pattern matcher, a case folder or a detector of
# mixed scripts.
HOSTILE: Final = {
    "close without unsaved": "close " * (MAX_TEXT_BYTES // 6),
    "drop without table": "drop" + " " * (MAX_TEXT_BYTES - 4),
    "rm without -rf": "sudo  rm  -r " * (MAX_TEXT_BYTES // 13),
    "wide letters": "\uff43\uff4c\uff4f\uff53\uff45 " * (MAX_TEXT_BYTES // 16),
    "mixed scripts": "cl\u043ese \u03b1pp " * (MAX_TEXT_BYTES // 12),
    "joiners": "c\u200dl\u200do\u200ds\u200de " * (MAX_TEXT_BYTES // 18),
    "quotes": '"' * MAX_TEXT_BYTES,
}


def around_id(text: str, type_: str = "edit_file") -> tuple[bytes, bytes]:
    """Return the proposal's JSON before and after its id, so that ids can be inserted cheaply."""
    fields = {
        "type": type_,
        "text": text,
        "description": "Bring the header of the settings page up to date",
        "session": "s-42",
        "confidence": 0.91,
        "paths": ["src/settings/page.py", "src/settings/header.py"],
        "cwd": "/srv/shop",
    }
    rest = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return b'{"id":"', b'",' + rest[1:]


def patterns(count: int) -> list[str]:
    """Return blocklist patterns that no text of this suite matches."""
    return [rf"\bforbidden_{number:04d}\b" for number in range(count)]
