"""The extras of a daemon. Each module contains one, and is found automatically.

An extra connects its package to the daemon (see `daemon/extra.py`).
"""

import importlib
import pkgutil
from typing import Final

from safetyd.daemon.extra import Extra

EXTRAS: Final[tuple[type[Extra], ...]] = tuple(
    importlib.import_module(f"{__name__}.{found.name}").EXTRA
    for found in pkgutil.iter_modules(__path__)
)
