"""Decision latency while a daemon exports a large backlog to PostgreSQL, and without."""

import statistics
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.against_echo import allowed, figures
from benchmarks.load import Result, Spec
from benchmarks.postgres_load import TARGET_S, server_on_disk
from benchmarks.processes import Unmeasured, until
from benchmarks.rig import Daemon, Place, first_answer, load
from benchmarks.scale import Bench
from tests.postgres_server import PostgresServer

PER_S: Final = 300.0  # decisions on each side
IN_FLIGHT: Final = 4
LOADED_S: Final = 120.0  # at most
# A slower decision is noticeable.
P50_TIMES: Final = 1.3
P99_TIMES: Final = 2.0


class Side(NamedTuple):
    result: Result
    cpu_us: float  # of the daemon per decision, including the export


class Turn(NamedTuple):
    loading: Side
    without: Side
    seconds: float  # until the backlog was exported


def beside_loading(bench: Bench) -> None:
    """Fill a journal, then measure right after starts, in turns without and with the export."""
    place = Place(bench.place, "beside")
    backlog = _filled(bench, place)
    with server_on_disk() as server:
        secret = place.data_dir / "postgres.dsn"
        secret.touch(mode=0o600)
        secret.write_text(server.dsn())
        turns = [_turn(bench, place, server, n, backlog) for n in range(bench.scale.beside_rounds)]
    _tell(bench, turns, backlog)


def _filled(bench: Bench, place: Place) -> int:
    daemon, count = Daemon(place), bench.scale.fills[0]
    try:
        daemon.start()
        first_answer(daemon.url)
        spec = _spec(daemon, in_flight=256, count=count, seconds=bench.scale.fill_s)
        return allowed(load(spec)).answered
    finally:
        daemon.stop()


def _turn(bench: Bench, place: Place, server: PostgresServer, number: int, backlog: int) -> Turn:
    """Start one daemon without and one with the export."""
    schema, plain = f"beside_{number}", place.config.read_text()
    daemon = Daemon(place)
    try:
        daemon.start()
        without = _measured(bench, daemon)
        daemon.stop()
        place.config.write_text(
            f'{plain}\n[outlets.postgres]\ndsn_file = "postgres.dsn"\nschema = "{schema}"\n'
        )
        daemon.start()
        began = perf_counter()
        loading = _measured(bench, daemon)
        if _loaded(server, schema) >= backlog:
            raise Unmeasured("loading was over before the decisions were")
        until(lambda: _loaded(server, schema) >= backlog, LOADED_S, lambda: "it is not loaded")
        return Turn(loading, without, perf_counter() - began)
    finally:
        daemon.stop()
        place.config.write_text(plain)


def _loaded(server: PostgresServer, schema: str) -> int:
    there = server.execute("SELECT to_regclass(%s) IS NOT NULL", f"{schema}.progress")
    if not there[0][0]:
        return 0
    found = server.execute(f"SELECT seq FROM {schema}.progress")
    return int(found[0][0]) if found else 0


def _measured(bench: Bench, daemon: Daemon) -> Side:
    before = daemon.cpu_s()
    seconds = bench.scale.round_s * 3
    result = allowed(load(_spec(daemon, in_flight=IN_FLIGHT, per_s=PER_S, seconds=seconds)))
    return Side(result, (daemon.cpu_s() - before) / result.answered * 1e6)


def _spec(daemon: Daemon, **options: float) -> Spec:
    return Spec(url=daemon.url, key_file=daemon.place.agent_key, **options)  # type: ignore[arg-type]


def _tell(bench: Bench, turns: list[Turn], backlog: int) -> None:
    seconds = statistics.median(turn.seconds for turn in turns)
    note = f"s for {backlog:,} events beside {PER_S:g} decisions a second"
    bench.report.at_most("a daemon's backlog into PostgreSQL", seconds, TARGET_S, note)
    for name, most in (("p50_ms", P50_TIMES), ("p99_ms", P99_TIMES)):
        sides = [(getattr(t.loading.result, name), getattr(t.without.result, name)) for t in turns]
        times = statistics.median(loading / without for loading, without in sides)
        loading, without = (statistics.median(side) for side in zip(*sides, strict=True))
        told = f"{loading:.2f} ms / {without:.2f} ms"
        bench.report.at_most(f"{name[:3]} while it loads / without", times, most, told)
    cpu = [(turn.loading.cpu_us, turn.without.cpu_us) for turn in turns]
    times = statistics.median(loading / without for loading, without in cpu)
    loading, without = (statistics.median(side) for side in zip(*cpu, strict=True))
    bench.report.tell(
        "(the daemon's processor time, the same)",
        f"{times:.2f}  {loading:.0f} us / {without:.0f} us",
    )
    bench.report.raw["beside loading"] = [
        {
            "loading": figures(turn.loading.result),
            "without": figures(turn.without.result),
            "cpu_us": [turn.loading.cpu_us, turn.without.cpu_us],
            "loaded_s": turn.seconds,
        }
        for turn in turns
    ]
