"""Checkpoints on an external bus, so that a daemon on another machine can take over.

Events before the older checkpoint are deleted from the journal, so a daemon cannot rebuild its
state without a checkpoint.
"""

import logging
from pathlib import Path
from typing import Final

import anyio
import nats.js.errors
from nats.js import JetStreamContext
from nats.js.object_store import ObjectStore

from safetyd.bus.nats_client import HardenedClient
from safetyd.journal.checkpoints import KEPT, Checkpoints
from safetyd.journal.replication import add_replicas, explained

BUCKET: Final = "SAFETY_CHECKPOINTS"
MAX_BYTES: Final = 128 * 1024**2
ASK_S: Final = 10.0
PATIENCE_S: Final = 30.0

log = logging.getLogger("safetyd.checkpoints")


class CheckpointBucket:
    """The two newest checkpoints in an object store."""

    def __init__(self, client: HardenedClient, replicas: int = 1) -> None:
        self._client = client
        self._replicas = replicas
        self._js: JetStreamContext = client.jetstream(timeout=PATIENCE_S)
        self._store: ObjectStore | None = None
        self.empty = True  # as far as `fetch` and `put` know

    async def fetch(self, checkpoints: Checkpoints) -> None:
        """Download checkpoints of another daemon. Raise TimeoutError if nothing arrives.

        nats-py waits for ever if a node fails while it lists or downloads objects.
        """
        with anyio.fail_after(ASK_S):
            store = await self._open()
            names = await self._names(store)
        self.empty = not names
        have = {path.name for path in checkpoints.paths()}
        for name in names:
            if name not in have:
                with anyio.fail_after(PATIENCE_S):
                    found = await store.get(name)
                checkpoints.adopt(name, found.data or b"")
                log.info("downloaded checkpoint %s of another daemon", name)

    async def put(self, path: Path, content: bytes) -> None:
        """Store a checkpoint and delete old ones. Raise TimeoutError if that takes too long."""
        with anyio.fail_after(PATIENCE_S):
            store = await self._open()
            await store.put(path.name, content)
            self.empty = False
            for old in (await self._names(store))[KEPT:]:
                await store.delete(old)

    async def _open(self) -> ObjectStore:
        if self._store is None:
            self._store = await self._opened()
        return self._store

    async def _opened(self) -> ObjectStore:
        stream, replicas = f"OBJ_{BUCKET}", self._replicas
        try:
            store = await self._js.object_store(BUCKET)
        except nats.js.errors.NotFoundError:
            with explained(stream, replicas):
                return await self._js.create_object_store(
                    BUCKET, max_bytes=MAX_BYTES, replicas=replicas
                )
        await add_replicas(self._client, stream, replicas)
        return store

    async def _names(self, store: ObjectStore) -> list[str]:
        """Return all names, newest first."""
        try:
            entries = await store.list(ignore_deletes=True)
        except nats.js.errors.NotFoundError:
            return []
        return sorted((entry.name for entry in entries if entry.name), reverse=True)
