"""The rules about resources of safetyd itself, and where those resources are."""

from typing import Final

import msgspec

OWN: Final = "gate.own"
ABOVE: Final = "gate.own_above"
REWORDED: Final = "with text that does not name it"


class OwnConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a daemon stores its resources. The daemon sets this; operators cannot."""

    directories: tuple[str, ...] = ()  # absolute paths, including other names of the same directory
    files: tuple[str, ...] = ()  # stop files and keys outside these directories
    settings: tuple[str, ...] = ()  # files that agents may read but not change
    addresses: tuple[str, ...] = ()  # as host:port
    prefix: str = "safety.v1"  # of its subjects
