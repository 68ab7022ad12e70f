"""The blocks of code in a document, with the note in the comment before each."""

import re
from pathlib import Path
from typing import Final

BLOCK: Final = re.compile(
    r"(?:<!-- (?P<note>[^>]*) -->\n)?```(?P<kind>\w*)\n(?P<body>.*?)```", re.DOTALL
)


def noted_block(document: Path, note: str) -> str:
    """Return the body of the one block with this note."""
    blocks = BLOCK.finditer(document.read_text())
    (body,) = (block["body"] for block in blocks if block["note"] == note)
    return body
