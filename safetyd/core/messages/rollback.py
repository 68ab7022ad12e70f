"""What agents are told when files of a project were put back."""

from datetime import datetime
from typing import Literal

import msgspec

RollbackKind = Literal["soft", "revert", "hard"]


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a project were put back; told once, and those that work there read them anew."""

    project: str
    kind: RollbackKind
    commit: str
    files: int
    agents: tuple[str, ...]
    reason: str
    at: datetime
