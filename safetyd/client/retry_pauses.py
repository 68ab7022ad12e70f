"""Pauses between attempts. Each pause is twice as long as the one before, up to a limit."""

from collections.abc import Iterator


def growing(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield pauses forever."""
    pause_s = first_s
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, longest_s)
