"""Reads the configuration that a daemon would start with."""

from pathlib import Path

from safetyd.console.failure import Failure
from safetyd.daemon.config import Config, ConfigError, load


def read_config(file: Path | None) -> Config:
    """Return the configuration in a file, or the defaults. Raise `Failure` if it has errors."""
    try:
        return load(file)
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
