"""The control room: what an open page costs decisions, and how decisions affect an open page."""

import math
import statistics
from time import time
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from benchmarks.against_echo import allowed
from benchmarks.load import Result, Spec
from benchmarks.processes import Unmeasured
from benchmarks.rig import Daemon, Place, load, running
from benchmarks.room_browser import Screen, screen
from benchmarks.room_readers import fetch, looking, sign_in
from benchmarks.scale import Bench
from benchmarks.wire import Proposer
from safetyd.web.control_room.live_pages import MAX_OF_ONE

LIMITS: Final = """\
[approvals]
max_pending_keyless = 1_000_000
max_pending_bytes_keyless = 1_000_000_000
"""
PAGES: Final = (
    "/",
    "/agents",
    "/agents/bench",
    "/safe-mode",
    "/feed",
    "/feed?what=decisions",
    "/money",
    "/breakers",
    "/limits",
    "/anomalies",
    "/messages",
    "/health",
)
BUSY_PER_S: Final = 2000.0
USUAL_PER_S: Final = 200.0
IN_FLIGHT: Final = 64
FRAME_MS: Final = 100.0
SLOWER: Final = 1.10
PAINT_MS: Final = 1000.0
SCREEN_MS: Final = 250.0
PAGE_BYTES: Final = 250_000
READERS: Final = 200
READERS_BYTES: Final = 100 * 1024 * 1024
FILLS: Final = 10  # a busy daemon refuses some; repeating one makes no second request
COMMAND: Final = "git push --force origin main"


def control_room(bench: Bench) -> None:
    """Measure frames, slowdown, first paint, delay to the screen, weight, and many open pages."""
    anyio.run(_measure, bench)


async def _measure(bench: Bench) -> None:
    with running(Place(bench.place, "control-room", LIMITS)) as daemon:
        async with screen(daemon) as shown:
            await _weigh(bench, shown)
            await _to_screen(bench, daemon, shown)
            for path in ("/feed", "/"):
                await _busy(bench, daemon, shown, path)
        await _many(bench, daemon)
        async with screen(daemon) as shown:
            await _full(bench, daemon, shown)


async def _loaded(spec: Spec) -> Result:
    return allowed(await anyio.to_thread.run_sync(load, spec))


def _keyed(daemon: Daemon, seconds: float, per_s: float = 0.0) -> Spec:
    return Spec(
        url=daemon.url,
        key_file=daemon.place.agent_key,
        in_flight=IN_FLIGHT,
        seconds=seconds,
        per_s=per_s,
    )


async def _weigh(bench: Bench, shown: Screen) -> None:
    weights = {path: await shown.weight(path) for path in PAGES}
    path = max(weights, key=lambda known: weights[known].unpacked)
    sent, unpacked = weights[path]
    note = f"the largest of {len(weights)}, {path}; {sent:,} sent"
    bench.report.at_most("bytes of a page with assets", unpacked, PAGE_BYTES, note)
    bench.report.raw["page_bytes"] = {path: weight._asdict() for path, weight in weights.items()}


async def _to_screen(bench: Bench, daemon: Daemon, shown: Screen) -> None:
    """Measure the delay from a decision to its row in the feed."""
    await shown.show("/feed")
    await shown.note_links('tbody a[href^="/decisions/"]')
    await _judge_screen(bench, daemon, shown, "idle")
    async with anyio.create_task_group() as tasks:
        seconds = bench.scale.room_s
        tasks.start_soon(_loaded, _keyed(daemon, seconds, USUAL_PER_S))
        await anyio.sleep(seconds / 10)
        await _judge_screen(bench, daemon, shown, f"{USUAL_PER_S:g} decisions/s")


async def _judge_screen(bench: Bench, daemon: Daemon, shown: Screen, what: str) -> None:
    answered: dict[str, float] = {}
    with Proposer(daemon.url, daemon.place.agent_key) as proposer:
        for _ in range(bench.scale.room_probes):
            id_ = await anyio.to_thread.run_sync(proposer.propose)
            answered[f"/decisions/{id_}"] = time()
            await anyio.sleep(0.137)  # not a multiple of the pages' refresh interval
    await anyio.sleep(1.0)
    seen = await shown.first_seen()
    late = [(seen.get(link, math.inf) - at) * 1000.0 for link, at in answered.items()]
    unseen = late.count(math.inf)
    note = f"ms p95; p50 {statistics.median(late):.0f}, {len(late)} decisions"
    bench.report.at_most(f"event to screen, {what}", _percentile(late, 95), SCREEN_MS, note)
    bench.report.at_most(f"rows never on screen, {what}", unseen, 0)


async def _busy(bench: Bench, daemon: Daemon, shown: Screen, path: str) -> None:
    """Measure an open page at 2,000 decisions a second, and decisions with and without it."""
    spec = _keyed(daemon, bench.scale.room_s, BUSY_PER_S)
    await shown.show_nothing()
    await shown.count_frames()
    await _loaded(spec)
    empty = await shown.frames_ms()
    await shown.show(path)
    await shown.count_frames()
    await shown.count_work()
    before = await shown.work()
    result = await _loaded(spec)
    after, frames = await shown.work(), await shown.frames_ms()
    note = (
        f"ms; p99 {_percentile(frames, 99):.0f}, {len(frames)} frames at {result.rate:,.0f} "
        f"decisions/s; an empty page {max(empty):.0f}, p99 {_percentile(empty, 99):.0f}"
    )
    # On a busy machine an empty page has long frames too.
    bench.report.at_most(f"longest frame of {path}", max(frames), max(FRAME_MS, *empty), note)
    renewals = after.renewals - before.renewals
    if renewals:
        each = (after.seconds - before.seconds) * 1000.0 / renewals
        note = f"ms of a processor, {renewals} renewals"
        bench.report.at_most(f"renewing {path}", each, FRAME_MS, note)
    await _slower(bench, daemon, shown, path)


class Round(NamedTuple):
    """Decisions at full speed and at 2,000 a second; `cpu_us` is the daemon's, at full speed."""

    rate: float
    cpu_us: float
    p50_ms: float


Turns = list[tuple[Round, Round]]  # without and with the open page


async def _slower(bench: Bench, daemon: Daemon, shown: Screen, path: str) -> None:
    turns: Turns = []
    for _ in range(bench.scale.room_rounds):
        await shown.show_nothing()
        without = await _round(bench, daemon)
        await shown.show(path)
        turns.append((without, await _round(bench, daemon)))
    _judge_slower(bench, f"{path} open", turns)


def _judge_slower(bench: Bench, what: str, turns: Turns) -> None:
    """Compare the best rounds: other load on the machine can only make a round worse."""
    without, beside = zip(*turns, strict=True)
    cpu = min(one.cpu_us for one in beside) / min(one.cpu_us for one in without)
    rate = max(one.rate for one in without) / max(one.rate for one in beside)
    wait = min(one.p50_ms for one in beside) / min(one.p50_ms for one in without)
    note = (
        f"the daemon's processor time, flat out; on the clock {rate:.2f}, "
        f"p50 at {BUSY_PER_S:g}/s {wait:.2f}; best of {len(turns)} rounds"
    )
    bench.report.at_most(f"a decision with {what} / without", cpu, SLOWER, note)
    bench.report.raw[f"decisions with {what}"] = [
        {"without": one._asdict(), "with": other._asdict()} for one, other in turns
    ]


async def _round(bench: Bench, daemon: Daemon) -> Round:
    seconds = bench.scale.round_s
    before = daemon.cpu_s()
    flat_out = await _loaded(_keyed(daemon, seconds))
    cpu_us = (daemon.cpu_s() - before) * 1e6 / flat_out.answered
    paced = await _loaded(_keyed(daemon, seconds, BUSY_PER_S))
    return Round(flat_out.rate, cpu_us, paced.p50_ms)


async def _many(bench: Bench, daemon: Daemon) -> None:
    """Measure with as many open pages as a large team has."""
    browsers = math.ceil(READERS / MAX_OF_ONE)
    entries = [await anyio.to_thread.run_sync(sign_in, daemon) for _ in range(browsers)]
    for path in PAGES:
        await anyio.to_thread.run_sync(fetch, entries[0], path)
    await _round(bench, daemon)
    before = await anyio.to_thread.run_sync(daemon.resident_bytes)
    turns: Turns = []
    most = before
    for _ in range(bench.scale.room_rounds):
        without = await _round(bench, daemon)
        async with looking(entries, PAGES, READERS) as readers:
            beside = await _round(bench, daemon)
            most = max(most, await anyio.to_thread.run_sync(daemon.resident_bytes))
            sent = readers.bytes
        turns.append((without, beside))
    note = f"{before >> 20} MiB before, {most >> 20} MiB with; {sent >> 20} MiB sent in one round"
    what = f"resident bytes of {READERS} open pages"
    bench.report.at_most(what, most - before, READERS_BYTES, note)
    _judge_slower(bench, f"{READERS} pages open", turns)


async def _full(bench: Bench, daemon: Daemon, shown: Screen) -> None:
    """Measure first paint with very many pending requests."""
    count = bench.scale.room_pending
    spec = Spec(
        url=daemon.url,
        agent="waits",
        agents=count,
        in_flight=IN_FLIGHT,
        count=count,
        type="run_shell",
        text=COMMAND,
    )
    for _ in range(FILLS):
        await anyio.to_thread.run_sync(load, spec)
        await shown.show("/")
        heading = await shown.text("main h1")
        if str(count) in heading:
            break
    else:
        raise Unmeasured(f"{count} should wait, and the page says {heading!r}")
    entry = await anyio.to_thread.run_sync(sign_in, daemon)
    html = (await anyio.to_thread.run_sync(fetch, entry, "/")).decode()
    first = html.partition('href="/requests/')[2].partition('"')[0]
    for name, path in (("/", "/"), ("/requests/{id}", f"/requests/{first}")):
        paints = [await shown.first_paint_ms(path) for _ in range(bench.scale.room_probes // 4)]
        note = f"ms, the slowest of {len(paints)}; median {statistics.median(paints):.0f}"
        what = f"first paint of {name}, {count:,} pending"
        bench.report.at_most(what, max(paints), PAINT_MS, note)


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]
