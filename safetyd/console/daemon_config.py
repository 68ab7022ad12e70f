"""Reads the configuration that a daemon would start with."""

from pathlib import Path

from safetyd.console.failure import Failure
from safetyd.daemon.config import Config, ConfigError, load, load_to_run


def read_config(file: Path | None, *, to_run: bool = False) -> Config:
    """Return the configuration in a file, or the defaults. Raise `Failure` if it has errors.

    With `to_run`, a daemon must be able to run with it here: all packages must be installed.
    """
    try:
        return load_to_run(file) if to_run else load(file)
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
