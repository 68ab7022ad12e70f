"""The id of a journal that several daemons write in turn. The stream has it as metadata."""

from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import nats.errors

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM
from safetyd.extras.postgres.journal_id import adopt_id, journal_id

KEY: Final = "safetyd_journal_id"
PATIENCE_S: Final = 5.0
AGAIN_S: Final = 1.0


async def share_journal_id(client: HardenedClient, data_dir: Path) -> None:
    """Give the stream the id of this data directory, or this data directory that of the stream."""
    jetstream = client.jetstream(timeout=PATIENCE_S)
    while True:
        try:
            config = (await jetstream.stream_info(STREAM)).config
            known = (config.metadata or {}).get(KEY, "")
            if known:
                await anyio.to_thread.run_sync(adopt_id, data_dir, known)
                return
            fresh = await anyio.to_thread.run_sync(journal_id, data_dir)
            metadata = {**(config.metadata or {}), KEY: fresh}
            await jetstream.update_stream(config.evolve(metadata=metadata))
        except (nats.errors.Error, TimeoutError, OSError):
            await anyio.sleep(AGAIN_S)
        else:
            return
