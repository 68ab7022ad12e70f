"""A queue of outcomes, oldest first. Each is sent until the daemon acknowledges it.

An outcome that the daemon rejects as malformed is dropped and logged as an error, so that it does
not block the queue.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anyio
import msgspec

from safetyd.client.agent_connection import AgentConnection, AnswerListener
from safetyd.client.arguments import OutcomeFields
from safetyd.client.draft import new_id
from safetyd.client.encoding import check, encode
from safetyd.client.exceptions import Down, Lost, Malformed, NotNow
from safetyd.client.guard_scope import printable
from safetyd.client.retry_pauses import growing
from safetyd.core.messages.proposal import without_nulls
from safetyd.core.messages.telemetry import Noted, Outcome

CAPACITY: Final = 1024
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 1.0
LONGEST_FLUSH_S: Final = 1.0  # the longest time that a proposal waits for earlier outcomes
_CLOSED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)

_log = logging.getLogger("safetyd.client")
_read = msgspec.json.Decoder(Noted).decode


def encoded(proposal: str | None, fields: OutcomeFields, *, ok: bool) -> bytes | None:
    """Return an outcome as JSON. If it is malformed, log a warning and return None."""
    unknown = fields.keys() - OutcomeFields.__annotations__.keys()
    if unknown:
        raise TypeError(f"an outcome has no field {', '.join(map(repr, sorted(unknown)))}")
    given = without_nulls(fields)
    said: Mapping[str, object] = {"type": "outcome", "id": proposal, "ok": ok, **given}
    if isinstance(error := fields.get("error"), str):
        said = {**said, "error": printable(error)}
    try:
        payload = encode(said)
        check(payload, Outcome)
    except Malformed as exc:
        _log.warning("malformed outcome, not sent: %s", exc)
        return None
    return payload


async def tell(link: AgentConnection, payload: bytes, deadline_s: float) -> Noted:
    """Send telemetry and return the acknowledgement. Raise `Down` if none arrives in time.

    On a cluster it is sent again, but only if it is certain that no daemon recorded it.
    """
    why = f"{link.where} did not acknowledge within {deadline_s:g} s"
    with link.listen(new_id()) as listener, anyio.move_on_after(deadline_s):
        for pause_s in growing(FIRST_PAUSE_S, LONGEST_PAUSE_S):
            try:
                return await _noted(link, payload, listener)
            except Lost:
                raise
            except Down as down:
                if not link.retries(down):
                    raise
                why = f"{down}; tried for {deadline_s:g} s"
            await anyio.sleep(pause_s)
    raise Down(why)


async def _noted(link: AgentConnection, payload: bytes, listener: AnswerListener) -> Noted:
    """Send telemetry once and return the acknowledgement. Raise `Down` if it was not recorded."""
    await link.send("telemetry", payload, listener)
    while True:
        try:
            noted = _read((await listener.hear()).data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if noted.retry:
            raise NotNow(noted.error)
        return noted


class OutcomeQueue:
    """A bounded queue: `CAPACITY` outcomes, and the one that is being sent.

    When it is full, `put` refuses new outcomes. Queued outcomes are never dropped to make room.
    """

    def __init__(self, link: AgentConnection, deadline_s: float) -> None:
        self._link = link
        self._deadline_s = deadline_s
        self._entry, self._exit = anyio.create_memory_object_stream[bytes](CAPACITY)
        self.undelivered = 0  # accepted by `put` and not yet acknowledged
        self._delivered = 0
        self._troubled = False  # the last attempt failed
        self._attempted = anyio.Event()

    async def put(self, outcome: bytes) -> bool:
        """Queue an outcome. Return False if the queue stays full until the deadline."""
        taken = await self._taken(outcome)
        self.undelivered += taken
        return taken

    async def flush(self, patience_s: float) -> None:
        """Wait until all queued outcomes are delivered, an attempt fails, or time is up."""
        wanted = self._delivered + self.undelivered
        with anyio.move_on_after(min(patience_s, LONGEST_FLUSH_S)):
            while self._delivered < wanted and not self._troubled:
                await self._attempted.wait()

    def close(self) -> None:
        """Accept no more outcomes. `run` ends after the queued ones are delivered."""
        self._entry.close()

    async def run(self) -> None:
        with self._exit:
            async for outcome in self._exit:
                await self._deliver(outcome)
                self.undelivered -= 1
                self._delivered += 1
                self._note(troubled=False)

    async def _taken(self, outcome: bytes) -> bool:
        with anyio.move_on_after(self._deadline_s), suppress(*_CLOSED):
            try:
                self._entry.send_nowait(outcome)
            except anyio.WouldBlock:
                await self._entry.send(outcome)
            return True
        return False

    async def _deliver(self, outcome: bytes) -> None:
        pauses = growing(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        level = logging.WARNING
        while (trouble := await self._trouble(outcome)) is not None:
            self._note(troubled=True)
            _log.log(level, "outcome not acknowledged yet: %s", trouble)
            level = logging.DEBUG
            await anyio.sleep(next(pauses))

    def _note(self, *, troubled: bool) -> None:
        attempted, self._attempted = self._attempted, anyio.Event()
        self._troubled = troubled
        attempted.set()

    async def _trouble(self, outcome: bytes) -> str | None:
        try:
            noted = await tell(self._link, outcome, self._deadline_s)
        except Down as down:
            return str(down)
        if noted.code == "malformed":
            _log.error("dropped an outcome that the daemon rejected: %s", noted.error)
            return None
        return None if noted.ok else noted.error or "refused"
