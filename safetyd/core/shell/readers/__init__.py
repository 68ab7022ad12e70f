"""Readers: functions that analyse programs for which a row of the table is not enough.

A reader gets an `Invocation` and adds its findings to it. The key `reader` of a row names it:
`reader = "git"` means `read_git`, in one of these modules.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from safetyd.core.shell.simple_commands import Reader

_MODULES: Final = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
READERS: Final[dict[str, Reader]] = {
    name.removeprefix("read_"): function
    for module in _MODULES
    for name, function in vars(module).items()
    if name.startswith("read_") and function.__module__ == module.__name__
}
