"""The checkpoint that a backup needs, and the record of a finished backup."""

from typing import Annotated

from msgspec import Meta

from safetyd.operators.contract.question import Command
from safetyd.operators.replies import Done

Count = Annotated[int, Meta(ge=0)]


class CheckpointDone(Done, frozen=True, kw_only=True):
    """`file` is a checkpoint of everything up to event `seq`."""

    seq: int
    file: str
    data_dir: str
    config: str  # The configuration file, empty if there is none.
    stop_files: tuple[str, ...]


class CheckpointCommand(Command[CheckpointDone], frozen=True, tag="checkpoint"):
    """Save a checkpoint for a backup."""


class BackupMadeCommand(Command[Done], frozen=True, kw_only=True, tag="backup_made"):
    """Record that a backup was made.

    `size` is in bytes; the backup contains everything up to event `seq`.
    """

    seq: Count
    size: Count
    keys: bool = False
    history: bool = False
