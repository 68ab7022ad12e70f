"""Compare the audit files with the decisions that agents received."""

from itertools import chain
from pathlib import Path
from typing import Final

from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.messages.verdict import Severity
from safetyd.journal.audit import files
from tests.conftest import RunningDaemon
from tests.journeys.agents import Heard, History

# Blocks that are answered without being recorded one by one.
UNRECORDED: Final = frozenset({"malformed", "rate_limit", "stopped", "unavailable"})


def events(data_dir: Path) -> list[Event]:
    """Return all events in the audit files, without a line that is still being written."""
    return [
        decode(line)
        for path in files(data_dir / "audit")
        for line in path.read_bytes().splitlines(keepends=True)[1:]
        if line.endswith(b"\n")
    ]


def assert_verifies(daemon: RunningDaemon) -> None:
    verified = daemon.safetyd("audit", "verify")

    assert verified.returncode == 0, verified.stderr


def assert_recorded(history: History, *data_dirs: Path) -> None:
    """Assert that every received decision is in an audit file with the same important fields."""
    kept = chain.from_iterable(map(events, data_dirs))
    decided = {event.seq: event for event in kept if isinstance(event, Decided)}
    wrong = [heard for heard in history.heard if not _recorded(heard, decided)]

    assert not wrong, f"{len(wrong)} of {len(history.heard)} are not recorded: {wrong[:3]}"
    assert not [h for h in history.heard if not _asked(h, history)]


def _recorded(heard: Heard, decided: dict[int, Decided]) -> bool:
    decision = heard.decision
    if decision.seq is None:
        return decision.decision is Severity.BLOCK and decision.cause in UNRECORDED
    found = decided.get(decision.seq)
    return found is not None and (found.agent, found.id, found.digest, found.decision) == (
        decision.agent,
        decision.id,
        decision.digest,
        decision.decision,
    )


def _asked(heard: Heard, history: History) -> bool:
    """Return whether an answer names its proposal; a late refusal in a flood may not."""
    if heard.decision.seq is None and not heard.decision.digest:
        return True
    return history.digests.get(heard.decision.id) == heard.decision.digest
