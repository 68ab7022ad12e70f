"""What a backup needs of a running daemon: a checkpoint, and a record that it was made."""

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.history_events import BackupMade
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.contract.backup_contract import BackupMadeCommand
from safetyd.operators.replies import DONE, Done, Refusal, refused


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
