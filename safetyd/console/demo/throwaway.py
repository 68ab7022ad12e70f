"""A daemon that is started for a moment, on files of its own."""

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from safetyd.console.failure import Failure

READY_S: Final = 30.0
STOP_S: Final = 10.0
LAST_WORD: Final = b"Ctrl-C stops it."

_OURS: Final = ("SAFETYD_", "AI_COMPANY_", "STATE_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_")


def forget_environment() -> None:
    """Make sure that nothing here finds another daemon, or is switched off."""
    for name in tuple(os.environ):
        if name.startswith(_OURS):
            del os.environ[name]


@contextmanager
def daemon(directory: Path, settings: str) -> Iterator[None]:
    """Run `safetyd run` on `directory` for the length of the block."""
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
    try:
        if process.stdout is None or not _says_ready(process.stdout):
            raise Failure(f"the daemon did not start:\n{log.read_text(errors='replace')}")
        yield
    finally:
        _end(process)


def _says_ready(out: IO[bytes]) -> bool:
    said = b""
    while LAST_WORD not in said:
        ready, _, _ = select.select([out], [], [], READY_S)
        chunk = os.read(out.fileno(), 4096) if ready else b""
        if not chunk:
            return False
        said += chunk
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def tidy(directory: Path) -> None:
    """Leave nothing but the audit files."""
    for path in directory.iterdir():
        if path.is_dir() and path.name != "audit":
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file():
            path.unlink()
