"""What sessions did, for whoever reviews: the summaries of the newest transcripts."""

from pathlib import Path
from typing import Final

import msgspec

from safetyd.console.terminal_text import plain
from safetyd.core.reporting.session_summary import summary
from safetyd.journal.transcript_files import DIRECTORY, names, read

NEWEST: Final = 10


def sessions(data_dir: Path) -> str:
    """Return the newest summaries, as far as the files are on this machine."""
    where = data_dir / DIRECTORY
    newest = names(where)[::-1][:NEWEST]
    told = "\n\n\n".join(_summary(where, name) for name in newest)
    return told or f"There are no transcripts in {where}."


def _summary(where: Path, name: str) -> str:
    try:
        return f"{name}\n{summary(read(where, name), plain)}"
    except (OSError, msgspec.DecodeError) as exc:
        return f"{name} cannot be read: {plain(exc)}"
