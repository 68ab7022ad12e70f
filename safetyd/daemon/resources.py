"""The parts of a daemon that exist before its state is rebuilt."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from safetyd.agents.refusals import Refusals
from safetyd.agents.stop_reserve import StopReserve
from safetyd.bus.connections import Connections
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.daemon.reload import Reload
from safetyd.daemon.settings import Settings
from safetyd.daemon.ticker import Ticker
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.mailbox import Mailbox
from safetyd.journal.standby import Standby
from safetyd.journal.stream import JetStreamJournal


class Resources(NamedTuple):
    """Parts that exist before the state is rebuilt.

    On the embedded bus, `bucket` and `standby` are None; on an external bus, `server` is. `standby`
    is also None once this daemon writes the journal. `name` is empty on the embedded bus.
    """

    settings: Settings
    data_dir: Path
    boot_id: str
    name: str
    started: datetime
    subjects: Subjects
    clock: Clock
    mailbox: Mailbox
    refusals: Refusals
    ticker: Ticker
    reload: Reload
    audit: Audit
    checkpoints: Checkpoints
    connections: Connections
    journal: JetStreamJournal
    server: EmbeddedServer | None
    reserve: StopReserve
    bucket: CheckpointBucket | None
    standby: Standby | None
