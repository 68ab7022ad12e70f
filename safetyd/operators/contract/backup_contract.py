"""What a backup needs of a running daemon: a checkpoint, and a record that it was made."""

from typing import Annotated

from msgspec import Meta

from safetyd.operators.contract.question import Command
from safetyd.operators.replies import Done

Count = Annotated[int, Meta(ge=0)]


class CheckpointDone(Done, frozen=True, kw_only=True):
    """A checkpoint that has everything up to event `seq` is in `file`."""

    seq: int
    file: str
    data_dir: str
    config: str  # the daemon's own file, if it has one
    stop_files: tuple[str, ...]


class CheckpointCommand(Command[CheckpointDone], frozen=True, tag="checkpoint"):
    """Save the state up to now, for a backup."""


class BackupMadeCommand(Command[Done], frozen=True, kw_only=True, tag="backup_made"):
    """Record that a backup was made.

    It has so many bytes, up to event `seq`, with keys or histories or not.
    """

    seq: Count
    size: Count
    keys: bool = False
    history: bool = False
