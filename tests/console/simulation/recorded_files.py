"""A data directory with the audit files of a story."""

from collections.abc import Sequence
from pathlib import Path

from safetyd.journal.audit import Audit
from tests.core.simulation.recorded_story import RecordedStory

BATCH = 7  # lines that are written together


def written(story: RecordedStory, place: Path, max_bytes: int = 20_000) -> Path:
    """Write a story's lines as a daemon does; return the data directory."""
    audit = Audit(place / "audit", max_bytes)
    audit.open()
    for begin in range(0, len(story.lines), BATCH):
        lines = story.lines[begin : begin + BATCH]
        audit.append(lines, begin + len(lines))
    audit.close()
    return place


def configured(place: Path, text: str, name: str = "new.toml") -> Sequence[str]:
    """Write a configuration; return the option that names it."""
    path = place / name
    path.write_text(text)
    return "--config", str(path)
