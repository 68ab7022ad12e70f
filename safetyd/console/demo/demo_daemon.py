"""A daemon of the demo, in a separate process."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from safetyd.console.failure import Failure
from safetyd.console.terminal_text import CTRL_C

READY_S: Final = 30.0
STOP_S: Final = 10.0


@contextmanager
def daemon(directory: Path, settings: str) -> Iterator[None]:
    """Run `safetyd run` with this data directory and configuration during the `with` block."""
    process = started(directory, settings)
    try:
        yield
    finally:
        end(process)


def started(directory: Path, settings: str) -> subprocess.Popen[bytes]:
    """Start `safetyd run` with this data directory and configuration. Wait until it is ready."""
    config, log = directory / "safetyd.toml", directory / "log"
    config.write_text(settings)
    options = ["--config", str(config), "--data-dir", str(directory)]
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "safetyd", "run", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    if process.stdout is None or not _says_ready(process.stdout):
        end(process)
        raise Failure(f"the demo daemon did not start:\n{log.read_text(errors='replace')}")
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _says_ready(out: IO[bytes]) -> bool:
    said = b""
    while CTRL_C.encode() not in said:
        ready, _, _ = select.select([out], [], [], READY_S)
        chunk = os.read(out.fileno(), 4096) if ready else b""
        if not chunk:
            return False
        said += chunk
    return True
