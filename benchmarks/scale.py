"""Sizes of the full run and of a quick one."""

from pathlib import Path

import msgspec

from benchmarks.report import Report


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    round_s: float
    publishes: int
    guard_rounds: int
    texts: int  # proposals for each kind of text
    agents: tuple[int, ...]
    agent_decisions: int  # before memory is compared: more than safetyd stores
    replayed: int
    fills: tuple[int, ...]  # decisions before a start
    fill_s: float  # at most, for each
    hook_calls: int
    flood_s: float  # for each kind and server
    room_s: float  # a page is watched
    room_rounds: int
    room_probes: int  # decisions to find on the page
    room_pending: int
    postgres_rounds: int
    beside_rounds: int  # starts with a backlog
    history_files: int  # of 10 KiB, in a folder with a file history
    history_commits: int
    takeovers: int  # of each kind
    limit_s: int  # for the whole run


FULL = Scale(
    round_s=2.0,
    publishes=500,
    guard_rounds=60,
    texts=1000,
    agents=(10, 1_000, 100_000),
    agent_decisions=110_000,
    replayed=99_000,  # below the 100,000 that trigger a checkpoint
    fills=(100_000, 1_000_000),
    fill_s=240.0,
    hook_calls=200,
    flood_s=20.0,
    room_s=20.0,
    room_rounds=5,
    room_probes=80,
    room_pending=10_000,
    postgres_rounds=3,
    beside_rounds=3,
    history_files=10_000,
    history_commits=1_000,
    takeovers=20,
    limit_s=1800,
)
QUICK = Scale(
    round_s=0.7,
    publishes=200,
    guard_rounds=40,
    texts=200,
    agents=(10, 1_000, 10_000),
    agent_decisions=20_000,
    replayed=10_000,
    fills=(20_000, 50_000),
    fill_s=20.0,
    hook_calls=40,
    flood_s=3.0,
    room_s=8.0,
    room_rounds=3,
    room_probes=40,
    room_pending=10_000,
    postgres_rounds=1,
    beside_rounds=1,
    history_files=1_000,
    history_commits=100,
    takeovers=5,
    limit_s=300,
)


class Bench(msgspec.Struct, frozen=True):
    """Arguments of every measurement: sizes, working directory and report."""

    scale: Scale
    place: Path
    report: Report
