"""The extras of a daemon: each module here has one, and nothing else names it.

An extra joins what its packages do to a daemon that serves (`daemon/extra.py` says how).
"""

import importlib
import pkgutil
from typing import Final

from safetyd.daemon.extra import Extra

EXTRAS: Final[tuple[type[Extra], ...]] = tuple(
    importlib.import_module(f"{__name__}.{found.name}").EXTRA
    for found in pkgutil.iter_modules(__path__)
)
