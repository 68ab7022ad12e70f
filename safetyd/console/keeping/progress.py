import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress(label: str, size: int, *, hidden: bool) -> Iterator[Callable[[int], None]]:
    """Give a function that hears of so many more bytes; a terminal shows how far that is."""
    hidden = hidden or not sys.stderr.isatty()
    with click.progressbar(length=size, label=label, file=sys.stderr, hidden=hidden) as bar:
        yield bar.update
