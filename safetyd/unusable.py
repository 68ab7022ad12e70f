"""Why the daemon cannot start or go on, in words for whoever started it."""

from collections.abc import Iterator
from contextlib import contextmanager


class Unusable(Exception):
    """The daemon cannot start or go on here; the text says why and what to do."""


@contextmanager
def files_needed() -> Iterator[None]:
    """Say in plain words that the data directory cannot be used."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError as exc:
        raise Unusable(f"the data directory cannot be used: {exc}") from exc
