"""What a backup needs of a running daemon: a checkpoint, and a record that it was made."""

from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.history_events import BackupMade
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.replies import DONE, Done, Refusal, refused

Count = Annotated[int, Meta(ge=0)]


class CheckpointDone(Done, frozen=True, kw_only=True):
    """A checkpoint that has everything up to event `seq` is in `file`."""

    seq: int
    file: str
    data_dir: str
    config: str  # the daemon's own file, if it has one
    stop_files: tuple[str, ...]


class BackupMadeCommand(msgspec.Struct, kw_only=True):
    """A backup of so many bytes was written, up to event `seq`; with keys or histories or not."""

    seq: Count
    size: Count
    keys: bool = False
    history: bool = False


def backup_made(by: str, command: BackupMadeCommand) -> Plan[Done | Refusal]:
    def plan(engine: EngineState, moment: Moment) -> Carried[Done | Refusal]:
        if command.seq > engine.seq:
            return Carried((), refused("invalid", f"there is no event {command.seq} yet"))
        made = BackupMade(
            at=moment.at,
            t=moment.t,
            by=by,
            upto=command.seq,
            size=command.size,
            keys=command.keys,
            history=command.history,
        )
        return Carried((made,), DONE)

    return plan
