"""What `doctor` looks at, in the order in which it is told."""

from collections.abc import Iterator
from pathlib import Path

from safetyd.clock import Clock
from safetyd.console.doctor.daemon_checks import config_given, daemon, start, web
from safetyd.console.doctor.file_checks import (
    audit,
    checkpoints,
    data_dir,
    disk,
    keys,
    nats_server,
    operators,
    separation,
)
from safetyd.console.doctor.findings import Finding, wrong
from safetyd.console.failure import Failure
from safetyd.console.locations import Place
from safetyd.console.operator_connection import query


def examine(place: Place, config_path: Path | None) -> Iterator[Finding]:
    """Yield everything worth knowing about a data directory and its daemon."""
    yield from data_dir(place.data_dir)
    yield from keys(place.keys)
    yield from operators(place.keys, Clock().now().at)
    yield disk(place.data_dir)
    yield nats_server()
    yield from audit(place.data_dir / "audit")
    yield from checkpoints(place.data_dir / "checkpoints")
    try:
        status = query(place, "status")
    except Failure as exc:
        yield wrong("daemon", exc.message)
        yield from config_given(config_path)
        yield from start(place, config_path)
    else:
        yield from daemon(status)
        yield from config_given(config_path or _file_of(status))
    yield from web(place.data_dir)
    yield separation(place.keys / "operator.nk")


def _file_of(status: dict[str, object]) -> Path | None:
    path = status.get("config")
    return Path(str(path)) if path else None
