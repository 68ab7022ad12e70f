"""Cost of a file history: time for a commit, and disk space for changes."""

import os
import statistics
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.processes import Unmeasured, call
from benchmarks.scale import Bench
from safetyd.extras.file_history.history_records import CommitOrder
from safetyd.extras.file_history.project_history import ProjectHistory

SIZE: Final = 10 * 1024
IN_FOLDER: Final = 100
ROUNDS: Final = 15
# Times the bytes written. Until git packs them, a commit, its two trees and the file each
# take whole disk blocks.
GROWTH: Final = 3.0


def history(bench: Bench) -> None:
    """Commit an unchanged folder, then one changed file repeatedly."""
    root, store = bench.place / "history", bench.place / "history-store"
    for number in range(bench.scale.history_files):
        _write(root, number)
    call("git", "init", "-q", str(root))
    kept = ProjectHistory("bench", root, (), store)
    began = perf_counter()
    _commit(kept)
    bench.report.tell("history, first commit", f"{perf_counter() - began:.1f} s")
    kept.finish()
    _tell_unchanged(bench, kept, root)
    _tell_growth(bench, kept, root, store)


def _tell_unchanged(bench: Bench, kept: ProjectHistory, root: Path) -> None:
    """Compare with `git status` of the same folder, in turns."""
    call("git", "-C", str(root), "add", "-A", patience_s=300.0)
    turns = []
    for _ in range(ROUNDS):
        began = perf_counter()
        if kept.commit(_order()) is not None:
            raise Unmeasured("a folder that nobody changed was committed")
        between = perf_counter()
        call("git", "-C", str(root), "status", "--porcelain")
        turns.append((between - began, perf_counter() - between))
    files = f"{bench.scale.history_files:,} files"
    ours = statistics.median(ours for ours, _ in turns)
    ratio = statistics.median(ours / theirs for ours, theirs in turns)
    spread = f"{min(turns)[0] * 1000:.0f} to {max(turns)[0] * 1000:.0f}"
    bench.report.at_most(f"history, {files} unchanged, ms", ours * 1000, 200, spread)
    bench.report.tell("history, unchanged / git status", f"{ratio:.1f}")


def _tell_growth(bench: Bench, kept: ProjectHistory, root: Path, store: Path) -> None:
    before, times = _size(store), []
    for number in range(bench.scale.history_commits):
        _write(root, number * 7 % bench.scale.history_files)
        began = perf_counter()
        _commit(kept)
        times.append(perf_counter() - began)
    kept.finish()
    grown, changed = _size(store) - before, bench.scale.history_commits * SIZE
    note = f"{before >> 20} MiB before, {grown >> 20} MiB more for {changed >> 20} MiB written"
    commits = f"{bench.scale.history_commits:,} commits"
    bench.report.at_most(f"history, growth of {commits} / changed", grown / changed, GROWTH, note)
    bench.report.tell("history, one file changed", f"{statistics.median(times) * 1000:.0f} ms")


def _write(root: Path, number: int) -> None:
    file = root / f"{number // IN_FOLDER}" / f"{number % IN_FOLDER}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(os.urandom(SIZE))  # incompressible


def _commit(kept: ProjectHistory) -> None:
    if kept.commit(_order()) is None:
        raise Unmeasured("a folder that was changed was not committed")


def _order() -> CommitOrder:
    return CommitOrder(why="after", at=datetime.now(UTC), agent="bench", session="s")


def _size(store: Path) -> int:
    """Return the disk usage of files, in blocks."""
    return sum(path.stat().st_blocks * 512 for path in store.rglob("*") if path.is_file())
