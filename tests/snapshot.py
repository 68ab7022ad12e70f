"""Snapshots of rendered texts, so that a new wording is a review of one file."""

import os
from pathlib import Path


def check_snapshot(file: Path, text: str) -> None:
    """Compare a text with its snapshot; SAFETYD_SNAPSHOTS=write updates it."""
    if os.environ.get("SAFETYD_SNAPSHOTS") == "write":
        file.write_text(text)
    assert text == file.read_text()
